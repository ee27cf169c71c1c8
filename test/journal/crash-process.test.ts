// Goal: a tree of thirty agents whose process is killed at any append continues in a new process and has the same result.
// Method: real processes, a real SQLite file, SIGKILL before an append or right after it. `CRASHES=all` kills at every append.

import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { afterAll, describe, expect, onTestFinished, test } from "vitest";

import { isRecord } from "../../src/kernel/json.ts";
import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import type { RunResult } from "../../src/orchestrator/run/run-result.ts";
import { sqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { world } from "./crash-world.ts";
import { storedEvents, storedRecords } from "./stored-events.ts";

const PROGRAM = fileURLToPath(new URL("crash-process.ts", import.meta.url));
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

/** How a process ended: by itself, or killed. */
async function played(...program: readonly string[]): Promise<"ended" | "killed"> {
  try {
    await promisify(execFile)(process.execPath, [
      "--conditions=@espalier/source",
      PROGRAM,
      ...program,
    ]);
    return "ended";
  } catch (cause) {
    if (cause instanceof Error && Reflect.get(cause, "signal") === "SIGKILL") return "killed";
    throw cause;
  }
}

function linesOf(file: string): readonly string[] {
  return existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : [];
}

/** What both runs must agree on. Lost model calls are charged besides. */
function gist({ status, text, agents, usage }: RunResult, lostCalls: number): object {
  const { toolCalls, modelCalls, outputTokens } = usage.total;
  return {
    status,
    text,
    agents: agents.map((agent) => [agent.agentPath, agent.status, agent.text]),
    toolCalls,
    modelCalls: modelCalls - lostCalls,
    outputTokens,
  };
}

interface Crash {
  readonly at: number;
  readonly when: "before" | "after";
}

async function crash({ at, when }: Crash): Promise<"survived" | "recovered"> {
  const folder = mkdtempSync(join(tmpdir(), "crash-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = (name: string): string => join(folder, name);
  if ((await played(folder, "-", String(at), when)) === "ended") return "survived";
  const store = sqliteStore(file("runs.db"));
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
    await expect(played(folder, stored.runId), "it was over").rejects.toThrow("run_ended");
    return "recovered";
  }
  const settled = settledCalls(before);
  const callsBefore = linesOf(file("calls.txt"));
  expect(await played(folder, stored.runId), `killed ${when} append ${at}`).toBe("ended");
  const events = await storedEvents(store, stored.runId);
  const lostCalls = events.reduce(
    (sum, event) => sum + (event.type === "run.resumed" ? (event.recovery?.lostCalls ?? 0) : 0),
    0,
  );
  const result: unknown = JSON.parse(readFileSync(file("result.json"), "utf8"));
  if (!isResult(result)) expect.fail("no result");
  const calls = linesOf(file("calls.txt"));
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

function isResult(value: unknown): value is RunResult {
  return isRecord(value) && Array.isArray(value["agents"]) && isRecord(value["usage"]);
}

/** Idempotency keys of tool calls whose results are kept. */
function settledCalls(records: Awaited<ReturnType<typeof storedRecords>>): ReadonlySet<string> {
  return new Set(
    records.flatMap((record) => {
      if (record.type !== "event") return [];
      const { type, toolName, runId, stepId, callId } = record.event;
      const isDone = type === "tool.ended" && toolName === "measure";
      return isDone ? [[runId, stepId, callId].join("/")] : [];
    }),
  );
}

const DELEGATIONS = 28;
const baseline = new Orchestrator({
  limits: { maxDepth: 3, maxBreadthPerParent: 10, maxTotalSubagents: 100 },
}).start(world().role, "Go.").result;
const report: object[] = [];

describe.each(POINTS)(
  "a tree of thirty agents, killed $when append $at, continues in a new process",
  (point) => {
    test("same result, same usage, and nothing that had come to an end is done again", async ({
      skip,
    }) => {
      if ((await crash(point)) === "survived") skip("The run has fewer appends.");
    });
  },
);

// What a reader of the suite may want to know: calls whose results were kept at the kill, calls that were under way and made again, and
// model calls whose outcome is unknown.
afterAll(() => {
  for (const line of report) process.stdout.write(`${JSON.stringify(line)}\n`);
});
