// Goal: the recordings of test/fixtures/journals/recorded are read and replayed.
// Method: each file of the folder.

import { globSync, readFileSync } from "node:fs";
import { basename } from "node:path";

import { expect, test } from "vitest";

import { foldJournal, type FoldedRun } from "../../../src/orchestrator/durability/fold-journal.ts";
import { RecordCodec } from "../../../src/orchestrator/durability/record-codec.ts";
import { RunIdSchema } from "../../../src/protocol/ids.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { proves } from "../../harness/proves.ts";
import { keptRecording } from "../../fixtures/journals/recordings.ts";
import { replayed } from "../../fixtures/journals/play.ts";
import { stories } from "../../fixtures/journals/roles.ts";

const names = globSync("test/fixtures/journals/recorded/*.jsonl").map((file) =>
  basename(file, ".jsonl"),
);

test("has one recording per story, and one story per recording", () => {
  expect(names.toSorted()).toEqual(Object.keys(stories).toSorted());
});

for (const name of names) {
  const kept = stories[name];
  if (kept === undefined) continue;
  const { build } = kept;

  proves(["R175", "X25"], `replays the recording ${name} to its recorded end`, async () => {
    const recording = keptRecording(name);
    const { result, events } = await replayed(build, recording);
    expect(events.length, "it is played").toBeGreaterThan(5);
    const recordedEnd = recordsOf(recording).at(-1);
    expect(recordedEnd).toMatchObject({ event: { reason: { code: result.reason.code } } });
  });
}

for (const file of globSync("test/fixtures/journals/recorded/*.jsonl"))
  test(`reads ${file} completely with its last event, and truncated as an open run`, async () => {
    const lines = readFileSync(file, "utf8").trimEnd().split("\n");
    const { status, run } = await folded(lines);
    expect(status).toBe(file.endsWith("/paused.jsonl") ? "paused" : "ended");
    expect(recordsOf(lines.join("\n")).at(-1)).toMatchObject({
      event: {
        type: `run.${status}`,
        reason: { code: rootCode(run) },
        usage: { total: run.accounts[0]?.total },
      },
    });
    expect((await folded(lines.slice(0, lines.length / 2))).status).toBe("open");
  });

function recordsOf(recording: string): readonly unknown[] {
  const reader = new RecordCodec();
  return recording
    .trimEnd()
    .split("\n")
    .flatMap((line) => reader.read(line));
}

function rootCode({ agents: [root] }: FoldedRun["run"]): string | undefined {
  const state = root?.state;
  return state === undefined || state.status === "pending" ? undefined : state.reason?.code;
}

async function folded(lines: readonly string[]): Promise<FoldedRun> {
  const store = memoryStore({ clock: new ManualClock() });
  const runId = RunIdSchema().parse("run_1");
  const owner = { token: "t", hostname: "h", processId: 1 };
  await store.append(await store.create(runId, "lead", owner), { firstNumber: 1, records: lines });
  return await foldJournal(runId, store.read(runId));
}
