// `npm run bench:record [file]`: what it costs to look at a large run: 5,000 agents, in an SQLite file, made anew unless one is named. Prints
// a table; a limit stands beside what has one, and a figure above its limit ends the program with 1. Run it on a machine that does nothing else.

import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Orchestrator } from "espalier";
import type { Store } from "espalier/extend";
import { sqliteStore } from "espalier/store/sqlite";
import { recordingOf } from "espalier/testing";

import { RunRecord } from "../src/orchestrator/durability/run-record.ts";
import { rebuildRecordedRequest } from "../src/orchestrator/run/rebuild-request.ts";
import { RunFold } from "../src/view/run-fold.ts";
import { longestBlock, memoryInUse } from "./event-loop.ts";
import { makeLargeRun } from "./large-run.ts";
import { markdownTable } from "./markdown-table.ts";

const AGENTS = 5_000;
/** Events for which the limits hold. */
const EVENTS = 250_000;
/** Agents that are looked at. */
const SAMPLE = 200;
const BYTES_PER_MB = 1_048_576;

interface Figure {
  readonly what: string;
  readonly measured: number;
  readonly unit: "ms" | "MB";
  readonly limit?: number;
}

/** The run of a file. */
async function runIn(store: Store) {
  const [run] = await store.list({ limit: 1 });
  if (run === undefined) throw new Error("Expected a run in the file.");
  return run.runId;
}

async function timed<T>(
  work: () => Promise<T>,
): Promise<readonly [value: T, ms: number, blockMs: number]> {
  const blockMs = await longestBlock();
  const beganMs = performance.now();
  const value = await work();
  const ms = performance.now() - beganMs;
  return [value, ms, await blockMs()];
}

function ms(what: string, measured: number, limit?: number): Figure {
  return { what, measured, unit: "ms", ...(limit === undefined ? {} : { limit }) };
}

async function figuresOf(store: Store): Promise<readonly Figure[]> {
  const runId = await runIn(store);
  const heapBefore = (await memoryInUse()).heapUsed;
  const record = new RunRecord(store, runId);
  const fold = new RunFold(runId);
  let events = 0;
  const [, foldMs, foldBlockMs] = await timed(() =>
    record.advance((event, line) => {
      events += 1;
      fold.take(event, line);
    }),
  );
  const heapMb = ((await memoryInUse()).heapUsed - heapBefore) / BYTES_PER_MB;
  const { agentIds } = record;
  const agents = Array.from(
    { length: SAMPLE },
    (_, at) => agentIds[Math.floor((at * agentIds.length) / SAMPLE)],
  );
  const stepMs: number[] = [];
  const [, , stepBlockMs] = await timed(async () => {
    for (const agentId of agents) {
      if (agentId === undefined) continue;
      const beganMs = performance.now();
      const stepNumber = (await record.steps(agentId)).at(-1)?.steps.length ?? 0;
      if (stepNumber > 0) await record.request({ agentId, stepNumber });
      stepMs.push(performance.now() - beganMs);
    }
  });
  const scale = EVENTS / events;
  const figures = [
    ms(
      `${EVENTS.toLocaleString("en")} events folded (${events.toLocaleString("en")} measured)`,
      foldMs * scale,
      4_000,
    ),
    ms("longest stall meanwhile", foldBlockMs, 30),
    { what: "heap, with the fold", measured: heapMb * scale, unit: "MB", limit: 64 } as const,
    ms("steps and a request of an agent, the slowest of 200", Math.max(...stepMs), 100),
    ms("longest stall meanwhile", stepBlockMs, 30),
  ];
  const [, resultMs, resultBlockMs] = await timed(() =>
    new Orchestrator({ store }).resultOf(runId),
  );
  const journal = await recordingOf(store, runId);
  const [, rebuiltMs, rebuiltBlockMs] = await timed(() =>
    rebuildRecordedRequest(journal, { stepNumber: 1 }),
  );
  return [
    ...figures,
    ms("`resultOf`", resultMs),
    ms("longest stall meanwhile", resultBlockMs, 30),
    ms("`rebuildRecordedRequest`", rebuiltMs),
    ms("longest stall meanwhile", rebuiltBlockMs, 30),
  ];
}

const given = process.argv[2];
const folder = mkdtempSync(join(tmpdir(), "viewer-"));
const path = given ?? join(folder, "runs.db");
if (!existsSync(path)) await makeLargeRun(path, AGENTS);
const store = sqliteStore(path, { access: "read" });
const figures = await figuresOf(store);
await store.close();
rmSync(folder, { recursive: true });
const rows = figures.map(({ what, measured, unit, limit }) => [
  what,
  `${measured.toFixed(0)} ${unit}`,
  limit === undefined ? "" : `${limit.toLocaleString("en")} ${unit}`,
]);
console.log(markdownTable([["a run of 5,000 agents", "measured", "at most"], ...rows]));
process.exitCode = figures.every(({ measured, limit = Infinity }) => measured <= limit) ? 0 : 1;
