// Goal: a tree of thirty agents whose process is killed at any append continues in a new process
// and has the same result.
// Method: real processes, a real SQLite file, SIGKILL before an append or right after it.
// `CRASHES=all` kills at every append.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, describe, expect, onTestFinished, test } from "vitest";

import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { sqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import {
  gist,
  linesOf,
  live,
  lostCallsIn,
  resultIn,
  type Life,
} from "../../support/journal/crash-lives.ts";
import { LIMITS, world } from "../../support/journal/crash-world.ts";
import { storedEvents, storedRecords } from "../../support/journal/stored-events.ts";
import { settledCalls } from "../../support/journal/stored-story.ts";

const MOST_APPENDS = 40;
const POINTS: readonly Crash[] =
  process.env["CRASHES"] === "all"
    ? Array.from({ length: MOST_APPENDS }, (_one, index) => index + 1).flatMap((at) => [
        { at, when: "before" },
        { at, when: "after" },
      ])
    : [
        { at: 1, when: "after" },
        { at: 9, when: "before" },
        { at: 17, when: "after" },
        { at: 26, when: "before" },
      ];

interface Crash {
  readonly at: number;
  readonly when: "before" | "after";
}

async function crash({ at, when }: Crash): Promise<"survived" | "recovered"> {
  const folder = mkdtempSync(join(tmpdir(), "crash-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const lived = async (...more: readonly string[]): Promise<Life["end"]> =>
    (await live({ program: ["--folder", folder, ...more] })).end;
  if ((await lived("--at", String(at), "--when", when)) === "ended") return "survived";
  const store = sqliteStore(join(folder, "runs.db"));
  onTestFinished(() => store.close());
  const [stored] = await store.list();
  if (stored === undefined) expect.fail("the run was not made");
  if (stored.recordCount === 0) {
    expect({ at, when }, "something is kept by the first append").toEqual({
      at: 1,
      when: "before",
    });
    return "recovered";
  }
  const before = await storedRecords(store, stored.runId);
  if (before.some((record) => record.type === "event" && record.event.type === "run.ended")) {
    expect(await lived("--run", stored.runId), "it was over").toBe("run_ended");
    return "recovered";
  }
  const settled = settledCalls(before);
  const callsBefore = linesOf(folder, "measure.txt");
  expect(await lived("--run", stored.runId), `killed ${when} append ${at}`).toBe("ended");
  const events = await storedEvents(store, stored.runId);
  const lostCalls = lostCallsIn(events);
  const result = resultIn(folder);
  const calls = linesOf(folder, "measure.txt");
  const again = calls.slice(callsBefore.length);
  expect(gist(result, lostCalls)).toEqual(gist(await baseline, 0));
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_event, index) => index + 1));
  expect(
    again.filter((key) => settled.has(key)),
    "D2: done before, and done again",
  ).toEqual([]);
  expect(new Set(again).size, "no call is made twice after the crash").toBe(again.length);
  expect(new Set(calls).size, "every call was made").toBe(
    result.usage.total.toolCalls - DELEGATIONS,
  );
  report.push({
    at,
    when,
    settled: settled.size,
    repeated: calls.length - new Set(calls).size,
    lostCalls,
  });
  return "recovered";
}

const DELEGATIONS = 28;
const baseline = new Orchestrator({ limits: LIMITS }).start(world().role, "Go.").result;
const report: object[] = [];

describe.each(POINTS)("a tree of thirty agents, killed $when append $at", (point) => {
  test("has the same result and usage in a new process, and repeats no settled call", async ({
    skip,
  }) => {
    if ((await crash(point)) === "survived") skip("The run has fewer appends.");
  });
});

// For readers of the output: calls whose results were persisted at the kill, calls in flight that
// were repeated, and model calls with unknown outcome.
afterAll(() => {
  for (const line of report) process.stdout.write(`${JSON.stringify(line)}\n`);
});
