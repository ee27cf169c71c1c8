// Part of `npm run bench:viewer`: what it costs to look at a large run: 5,000 agents, in an SQLite file, made anew unless one is named. Prints
// a table; a limit stands beside what has one, and a figure above its limit ends the program with 1. Run it on a machine that does nothing else.

import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Orchestrator } from "espalier";
import type { Store } from "espalier/extend";
import { sqliteStore } from "espalier/store/sqlite";
import { loadRecording } from "espalier/testing";

import { RunRecord } from "../src/orchestrator/durability/run-record.ts";
import { rebuildRecordedRequest } from "../test/support/journal/rebuild-recorded-request.ts";
import { RunFold } from "../src/read-model/run-fold.ts";
import { longestBlock, memoryInUse } from "./harness/event-loop.ts";
import { makeLargeRun } from "./workloads/large-run.ts";
import { markdownTable } from "./figures/markdown-table.ts";

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
  /** Of the process, where that says something: on a machine that has other work, it is closer to the truth. */
  readonly cpuMs?: number;
  readonly limit?: number;
}

interface Timing {
  readonly ms: number;
  readonly cpuMs: number;
  /** The longest time in which nothing else could run. */
  readonly blockMs: number;
}

/** The run of a file. */
async function runIn(store: Store) {
  const [run] = await store.list({ limit: 1 });
  if (run === undefined) throw new Error("Expected a run in the file.");
  return run.runId;
}

async function timed(work: () => Promise<unknown>): Promise<Timing> {
  const blockMs = await longestBlock();
  const beganMs = performance.now();
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  const ms = performance.now() - beganMs;
  return { ms, cpuMs: (user + system) / 1_000, blockMs: await blockMs() };
}

/** What something took, and how long it held up everything else. */
function figuresFor(
  what: string,
  { ms, cpuMs, blockMs }: Timing,
  limit?: number,
): readonly Figure[] {
  return [
    { what, measured: ms, unit: "ms", cpuMs, ...(limit === undefined ? {} : { limit }) },
    { what: "longest stall during that", measured: blockMs, unit: "ms", limit: 30 },
  ];
}

async function figuresOf(store: Store): Promise<readonly Figure[]> {
  const runId = await runIn(store);
  const lines: string[] = [];
  for await (const line of store.read(runId, 1)) lines.push(line);
  const parsing = await timed(async () => {
    for (const line of lines) JSON.parse(line);
  });
  lines.length = 0;
  const heapBefore = (await memoryInUse()).heapUsed;
  const record = new RunRecord(store, runId);
  const fold = new RunFold(runId);
  let events = 0;
  const folding = await timed(() =>
    record.advance((event, line) => {
      events += 1;
      fold.apply(event, line);
    }),
  );
  const scale = EVENTS / events;
  const heapMb = (((await memoryInUse()).heapUsed - heapBefore) / BYTES_PER_MB) * scale;
  const { agentIds } = record;
  const steps: Timing[] = [];
  for (let at = 0; at < SAMPLE; at += 1) {
    const agentId = agentIds[Math.floor((at * agentIds.length) / SAMPLE)];
    if (agentId === undefined) continue;
    steps.push(
      await timed(async () => {
        const stepNumber = (await record.steps(agentId)).at(-1)?.steps.length ?? 0;
        if (stepNumber > 0) await record.request({ agentId, stepNumber });
      }),
    );
  }
  const slowest = (of: keyof Timing): number => Math.max(...steps.map((one) => one[of]));
  const step = { ms: slowest("ms"), cpuMs: slowest("cpuMs"), blockMs: slowest("blockMs") };
  const result = await timed(() => new Orchestrator({ store }).getResult(runId));
  const journal = await loadRecording(store, runId);
  const rebuilt = await timed(() => rebuildRecordedRequest(journal, { stepNumber: 1 }));
  const scaled = { ...folding, ms: folding.ms * scale, cpuMs: folding.cpuMs * scale };
  const bare = { ms: parsing.ms * scale, cpuMs: parsing.cpuMs * scale };
  return [
    ...figuresFor(`${EVENTS.toLocaleString("en")} events folded`, scaled, 4_000),
    {
      what: "only reading their lines as JSON",
      measured: bare.ms,
      unit: "ms",
      cpuMs: bare.cpuMs,
    },
    { what: "heap, with the fold", measured: heapMb, unit: "MB", limit: 64 },
    ...figuresFor(`steps and a request of an agent, the slowest of ${SAMPLE}`, step, 100),
    ...figuresFor("`getResult`", result),
    ...figuresFor("`rebuildRecordedRequest`", rebuilt),
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
const rows = figures.map(({ what, measured, unit, cpuMs, limit }) => [
  what,
  `${measured.toFixed(0)} ${unit}`,
  cpuMs === undefined ? "" : `${cpuMs.toFixed(0)} ms`,
  limit === undefined ? "" : `${limit.toLocaleString("en")} ${unit}`,
]);
console.log(markdownTable([["a run of 5,000 agents", "measured", "CPU", "at most"], ...rows]));
process.exitCode = figures.every(({ measured, limit = Infinity }) => measured <= limit) ? 0 : 1;
