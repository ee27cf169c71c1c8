// Goal: the recordings are read and replayed, and what agents come to does not depend on the order in which effects end that have nothing
// to do with each other: so a distributed engine can follow.
// Method: each file of test/journals/recorded in its recorded order, and in twenty others.

import { globSync, readFileSync } from "node:fs";
import { basename } from "node:path";

import { expect, test } from "vitest";

import { EspalierError } from "../../src/kernel/error.ts";
import { foldJournal, type FoldedRun } from "../../src/orchestrator/durability/fold-journal.ts";
import { RecordCodec } from "../../src/orchestrator/durability/record-codec.ts";
import type { RunResult } from "../../src/orchestrator/run/run-result.ts";
import { RunIdSchema } from "../../src/protocol/ids.ts";
import { memoryStore } from "../../src/store/memory-store.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { readSegments } from "../../src/testing/replay/recording.ts";
import { passagesOf, scriptOf } from "../../src/testing/replay/script.ts";
import { beginningOf } from "../../src/testing/replay/segment.ts";
import { proves } from "../harness/proves.ts";
import { keptRecording } from "../journals/recordings.ts";
import { gist, replayed } from "../journals/play.ts";
import { stories } from "../journals/roles.ts";

const names = globSync("test/journals/recorded/*.jsonl").map((file) => basename(file, ".jsonl"));

test("every story has its recording, and every recording its story", () => {
  expect(names.toSorted()).toEqual(Object.keys(stories).toSorted());
});

for (const name of names) {
  const kept = stories[name];
  if (kept === undefined) continue;
  const { build, isContended = false } = kept;

  proves(
    ["R175", "X25"],
    `the recording ${name} is replayed, and has the same result in twenty other orders`,
    async () => {
      const recording = keptRecording(name);
      const { result, events } = await replayed(build, recording);
      expect(events.length, "it is played").toBeGreaterThan(5);
      for (let seed = 1; seed <= 20; seed += 1) {
        try {
          const other = await replayed(build, recording, { order: { shuffledBy: seed } });
          const told = isContended ? endOf : anyOrder;
          expect(told(other.result), `order ${seed}`).toEqual(told(result));
        } catch (cause) {
          const isNamed = EspalierError.is(cause) && cause.code === "replay_diverged";
          if (!isContended || !isNamed) throw cause;
        }
      }
    },
  );
}

proves(["X25", "D681"], "another order swaps all effects of a recording but races", async () => {
  const counted = names.toSorted().map(async (name) => {
    const [segment] = readSegments(keptRecording(name));
    const beginning = segment && (await beginningOf(segment));
    const script = segment && beginning ? scriptOf(segment.records, beginning, false) : [];
    const effects = passagesOf(script).map((piece) =>
      piece.filter(({ record }) => record.type === "effect"),
    );
    return [name, effects.filter(({ length }) => length > 1).flat().length, effects.flat().length];
  });
  expect(await Promise.all(counted)).toEqual([
    ["approvals", 15, 15],
    ["background", 7, 22],
    ["compacted", 15, 15],
    ["delegations", 14, 14],
    ["groups", 12, 21],
    ["hooked", 11, 11],
    ["parallel", 18, 18],
    ["paused", 8, 8],
    ["stopped", 7, 17],
    ["thoughtful", 8, 8],
    ["tight", 21, 21],
  ]);
});

for (const file of globSync("test/journals/recorded/*.jsonl"))
  test(`${file} is read, whole as its last event has it, and broken off as a run that is under way`, async () => {
    const lines = readFileSync(file, "utf8").trimEnd().split("\n");
    const { status, run } = await folded(lines);
    expect(status).toBe(file.endsWith("/paused.jsonl") ? "paused" : "ended");
    const reader = new RecordCodec();
    expect(lines.flatMap((line) => reader.read(line)).at(-1)).toMatchObject({
      event: {
        type: `run.${status}`,
        reason: { code: rootCode(run) },
        usage: { total: run.accounts[0]?.total },
      },
    });
    expect((await folded(lines.slice(0, lines.length / 2))).status).toBe("open");
  });

function rootCode({ agents: [root] }: FoldedRun["run"]): string | undefined {
  const state = root?.state;
  return state === undefined || state.status === "pending" ? undefined : state.reason?.code;
}

async function folded(lines: readonly string[]): Promise<FoldedRun> {
  const store = memoryStore({ clock: new ManualClock() });
  const runId = RunIdSchema.parse("run_1");
  const owner = { token: "t", hostname: "h", processId: 1 };
  await store.append(await store.create(runId, "lead", owner), { firstNumber: 1, records: lines });
  return await foldJournal(runId, store.read(runId));
}

/** A result whose agents stand in the order of their paths, and not of their creation. */
function anyOrder({ agents, accounts, ...result }: RunResult): object {
  return gist({
    ...result,
    agents: agents.toSorted((one, other) => one.agentPath.localeCompare(other.agentPath)),
    accounts: accounts.toSorted((one, other) => one.path.localeCompare(other.path)),
  });
}

/** What is left of a budget at which moment depends on the order of those who wait for it. */
function endOf({ status, reason, text }: RunResult): object {
  return { status, code: reason.code, text };
}
