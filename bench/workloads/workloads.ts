// W1 to W7: the same work by hand and with espalier, over one server. What is measured, and the limits that the next fixtures have to keep.

import { performance } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";

import { chain, delegations, HELD_BACK, streamedText, toolSteps } from "./agent-work.ts";
import type { Contender } from "../contenders/contender.ts";
import { ENDLESS } from "./endless.ts";
import { longestBlock, memoryInUse } from "../harness/event-loop.ts";
import { FLAT } from "./flat.ts";
import { median } from "../figures/median.ts";
import { RESPONSES } from "./responses.ts";
import { SPAWN_WORKLOADS } from "./spawn.ts";
import { WAITERS_WORKLOADS } from "./waiters.ts";
import {
  added,
  alone,
  BARE_LOOP,
  compared,
  ESPALIER,
  PEERS,
  type ContenderName,
  type Figures,
  type Measured,
  type MeasuringTask,
  type PeerName,
  type Row,
  type Variant,
  type Workload,
} from "../harness/workload.ts";

const BOTH: readonly ContenderName[] = [BARE_LOOP, ESPALIER];
const BYTES_PER_KB = 1_024;
/** Of W2: what a server takes for each of its replies, and replies that follow upon each other, two of the lead and three of a child. */
const LATENCY_MS = 20;
const REPLIES_IN_TURN = 5;

const W1: Workload = {
  id: "W1",
  title: "one agent, 50 tool steps",
  contenders: [
    BARE_LOOP,
    ESPALIER,
    "espalier, untraced",
    "espalier, no SDK",
    "espalier, content",
    "espalier, SQLite of the process",
    "espalier, SQLite",
  ],
  measure: (task) =>
    measured(task, async (contender) => {
      const { steps, warmUps, repeats, longWarmUps } = task.sizes;
      const run = contender.prepare(toolSteps(steps));
      const modelCalls = steps + 1;
      await repeat(warmUps, run);
      const soon = await costOf(contender, repeats, run);
      await repeat(longWarmUps - warmUps - repeats, run);
      const late = await costOf(contender, repeats * 2, run);
      return {
        soon: soon.cpuMs / modelCalls,
        soonWall: soon.wallMs / modelCalls,
        late: late.cpuMs / modelCalls,
        journalKb: (await contender.journalBytes()) / BYTES_PER_KB / modelCalls,
      };
    }),
  rows: [
    compared({
      figure: "CPU per step, three warm-up runs",
      unit: "ms",
      of: "soon",
      limit: "≤ 0.8",
    }),
    compared({
      figure: "CPU per step, sixty warm-up runs",
      unit: "ms",
      of: "late",
      limit: "≤ 0.6",
    }),
    compared({ figure: "wall per step, three warm-up runs", unit: "ms", of: "soonWall" }),
    addedToStep("tracing", "soon", ESPALIER, "≤ 0.15"),
    addedToStep("tracing", "late", ESPALIER, "≤ 0.15"),
    addedToStep("tracing without an SDK", "late", "espalier, no SDK"),
    addedToStep("content in spans", "late", "espalier, content"),
    addedToStep("SQLite, kept for the process", "late", "espalier, SQLite of the process"),
    addedToStep("SQLite, every commit flushed", "soon", "espalier, SQLite", "≤ 0.5"),
    addedToStep("SQLite, every commit flushed", "late", "espalier, SQLite", "≤ 0.5"),
    alone(
      { figure: "journal per step", unit: "KB", of: "journalKb", limit: "≤ 6 KB" },
      "espalier, SQLite",
    ),
  ],
};

/** What a variant adds to a step: tracing of any kind to that without, all else to espalier as it comes. */
function addedToStep(what: string, when: "soon" | "late", by: Variant, limit?: string): Row {
  const isTracing = by === ESPALIER || by === "espalier, no SDK";
  const figure = `added by ${what}: CPU per step, ${when === "soon" ? "three" : "sixty"} warm-up runs`;
  const head = { figure, unit: "ms", of: when, ...(limit === undefined ? {} : { limit }) } as const;
  return added(head, { by, to: isTracing ? "espalier, untraced" : ESPALIER });
}

const W2: Workload = {
  id: "W2",
  title: "100 children × 3 steps at once",
  contenders: BOTH,
  measure: (task) =>
    measured(task, async (contender) => {
      const { children, warmUps, repeats } = task.sizes;
      const run = contender.prepare(delegations(children, toolSteps(2)));
      await repeat(warmUps, run);
      const { cpuMs } = await costOf(contender, repeats, run);
      return { cpuMs };
    }),
  rows: [compared({ figure: "CPU", unit: "ms", of: "cpuMs", limit: "≤ 0.85" })],
};

const W2_SLOW: Workload = {
  id: "W2",
  title: "the same, replies after 20 ms",
  contenders: BOTH,
  measure: (task) =>
    measured(task, async (contender) => {
      const { children, warmUps, repeats } = task.sizes;
      const child = toolSteps(2, LATENCY_MS);
      const run = contender.prepare(delegations(children, child, LATENCY_MS));
      await repeat(warmUps, run);
      await asked(task.serverUrl, "/most-in-flight");
      const { cpuMs, wallMs } = await costOf(contender, repeats, run);
      const mostInFlight = await asked(task.serverUrl, "/most-in-flight");
      return { cpuMs, beyondMs: wallMs - REPLIES_IN_TURN * LATENCY_MS, mostInFlight };
    }),
  rows: [
    compared({ figure: "wall less latency", unit: "ms", of: "beyondMs", limit: "≤ 0.7" }),
    compared({ figure: "CPU", unit: "ms", of: "cpuMs" }),
    alone({ figure: "most requests in flight", unit: "", of: "mostInFlight", limit: "100" }),
  ],
};

const W3: Workload = {
  id: "W3",
  title: "chain of five agents",
  contenders: BOTH,
  measure: (task) =>
    measured(task, async (contender) => {
      const run = contender.prepare(chain(task.sizes.chain));
      await repeat(task.sizes.warmUps, run);
      const { cpuMs } = await costOf(contender, task.sizes.chainRepeats, run);
      return { cpuMs };
    }),
  rows: [compared({ figure: "CPU", unit: "ms", of: "cpuMs", limit: "≤ 0.85" })],
};

const W4: Workload = {
  id: "W4",
  title: "1,000 runs of one agent that wait",
  contenders: BOTH,
  measure: (task) => measured(task, (contender) => waitingFigures(contender, task)),
  rows: [
    compared({ figure: "heap per agent", unit: "KB", of: "heapKb", limit: "≤ 0.9" }),
    compared({ figure: "longest block", unit: "ms", of: "blockMs", limit: "≤ 0.4" }),
  ],
};

async function waitingFigures(contender: Contender, task: MeasuringTask): Promise<Figures> {
  const { warmUps, waiting, waitingWarmUp } = task.sizes;
  const brief = contender.prepare(toolSteps(0));
  await repeat(warmUps, () => atOnce(waitingWarmUp, brief));
  await asked(task.serverUrl, "/held");
  await contender.flush();
  const before = await memoryInUse();
  const run = contender.prepare(HELD_BACK);
  // Not while memory is looked at: the garbage collector that is called for that is a block, too.
  const blockAtStart = await longestBlock();
  const running = atOnce(waiting, run);
  while ((await asked(task.serverUrl, "/held")) < waiting) await pause(20);
  const startMs = await blockAtStart();
  const during = await memoryInUse();
  const blockAtEnd = await longestBlock();
  await asked(task.serverUrl, "/release");
  await running;
  return {
    heapKb: (during.heapUsed - before.heapUsed) / BYTES_PER_KB / waiting,
    blockMs: Math.max(startMs, await blockAtEnd()),
  };
}

const W5: Workload = {
  id: "W5",
  title: "streaming",
  contenders: BOTH,
  measure: (task) =>
    measured(task, async (contender) => {
      const { warmUps, repeats, deltas, firstDeltas } = task.sizes;
      let pieces = 0;
      let firstAtMs = 0;
      const onDelta = (): void => {
        if (pieces === 0) firstAtMs = performance.now();
        pieces += 1;
      };
      const burst = contender.prepare(streamedText(deltas), { onDelta });
      await repeat(warmUps, burst);
      pieces = 0;
      const { cpuMs } = await costOf(contender, repeats, burst);
      if (pieces !== deltas * repeats)
        throw new Error(`Expected ${deltas * repeats} pieces of text, got ${pieces}.`);
      const brief = contender.prepare(streamedText(20), { onDelta });
      const waitsMs: number[] = [];
      for (let reply = 0; reply < firstDeltas; reply += 1) {
        pieces = 0;
        const startedAtMs = performance.now();
        await brief();
        waitsMs.push(firstAtMs - startedAtMs);
      }
      return { cpuMs: (cpuMs / deltas) * 1_000, firstMs: median(waitsMs) };
    }),
  rows: [
    compared({
      figure: "CPU per 1,000 deltas in a burst",
      unit: "ms",
      of: "cpuMs",
      limit: "≤ 0.45",
    }),
    compared({ figure: "time to the first delta", unit: "ms", of: "firstMs", limit: "≤ 0.65" }),
  ],
};

const W6: Workload = {
  id: "W6",
  title: "import",
  contenders: [BARE_LOOP, ESPALIER, "zod"],
  measure: async ({ contender }) => {
    const before = process.cpuUsage();
    if (contender === BARE_LOOP) await import("openai");
    if (contender === ESPALIER) await import("espalier");
    if (contender !== BARE_LOOP) await import("zod");
    return { figures: { cpuMs: cpuMsSince(before) } };
  },
  rows: [
    added(
      {
        figure: "CPU of `espalier` and `zod` less that of `zod`, to `openai`",
        unit: "ms",
        of: "cpuMs",
        limit: "≤ 0.4",
      },
      { by: ESPALIER, to: "zod" },
    ),
  ],
};

const W7: Workload = {
  id: "W7",
  title: "400 steps with a growing history",
  contenders: BOTH,
  measure: (task) =>
    measured(task, async (contender) => {
      const { warmUps, longSteps, longRepeats, window } = task.sizes;
      const marks: NodeJS.CpuUsage[] = [];
      const onToolCall = (): void => void marks.push(process.cpuUsage());
      const run = contender.prepare(toolSteps(longSteps), { onToolCall });
      await repeat(warmUps, run);
      marks.length = 0;
      const { cpuMs } = await costOf(contender, longRepeats, run);
      let [early, late] = [0, 0];
      for (let end = longSteps; end <= marks.length; end += longSteps) {
        early += cpuMsBetween(marks[end - longSteps], marks[end - longSteps + window]);
        late += cpuMsBetween(marks[end - 1 - window], marks[end - 1]);
      }
      return { cpuMs, growth: late / early };
    }),
  rows: [
    compared({ figure: "CPU", unit: "ms", of: "cpuMs", limit: "≤ 0.6" }),
    compared({ figure: "cost of step 400 to step 10", unit: "×", of: "growth", limit: "≤ 1" }),
  ],
};

export const WORKLOADS: readonly Workload[] = [
  W1,
  W2,
  W2_SLOW,
  W3,
  W4,
  W5,
  W6,
  W7,
  RESPONSES,
  ...SPAWN_WORKLOADS,
  ...WAITERS_WORKLOADS,
  FLAT,
  ENDLESS,
];

async function measured(
  { contender: name, serverUrl }: MeasuringTask,
  work: (contender: Contender) => Promise<Figures>,
): Promise<Measured> {
  const contender = await contenderOf(name, serverUrl);
  const figures = await work(contender);
  const traced = await contender.close();
  return { figures, ...(traced === undefined ? {} : { traced }) };
}

/** A process loads what it measures, and no more. */
export async function contenderOf(
  name: ContenderName,
  serverUrl: string,
  maxTokens?: number,
): Promise<Contender> {
  if (name === "zod") throw new Error("Expected zod to be imported only.");
  if (name === BARE_LOOP) return (await import("../contenders/bare-loop.ts")).bareLoop(serverUrl);
  if (isPeer(name)) return await peerOf(name, serverUrl, maxTokens);
  return (await import("../contenders/espalier-agent.ts")).espalierAgent(name, serverUrl);
}

function isPeer(name: ContenderName): name is PeerName {
  return PEERS.some((peer) => peer === name);
}

/** Its packages may not be there, so its types are not known here. */
async function peerOf(name: PeerName, serverUrl: string, maxTokens?: number): Promise<Contender> {
  const module: unknown = await import(new URL(`../peers/${name}.ts`, import.meta.url).href);
  if (!isPeerModule(module)) throw new Error(`Expected peers/${name}.ts to have a function peer.`);
  return module.peer(serverUrl, maxTokens);
}

interface PeerModule {
  readonly peer: (serverUrl: string, maxTokens?: number) => Contender;
}

function isPeerModule(module: unknown): module is PeerModule {
  return typeof module === "object" && module !== null && "peer" in module;
}

async function repeat(times: number, run: () => Promise<unknown>): Promise<void> {
  for (let time = 0; time < times; time += 1) await run();
}

async function atOnce(times: number, run: () => Promise<void>): Promise<void> {
  await Promise.all(Array.from({ length: times }, () => run()));
}

/** Of one run, with the delivery of its spans. */
async function costOf(
  contender: Contender,
  times: number,
  run: () => Promise<void>,
): Promise<{ readonly cpuMs: number; readonly wallMs: number }> {
  await contender.flush();
  const before = process.cpuUsage();
  const startedAtMs = performance.now();
  await repeat(times, run);
  const wallMs = performance.now() - startedAtMs;
  await contender.flush();
  return { cpuMs: cpuMsSince(before) / times, wallMs: wallMs / times };
}

function cpuMsSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

function cpuMsBetween(from: NodeJS.CpuUsage | undefined, to: NodeJS.CpuUsage | undefined): number {
  if (from === undefined || to === undefined) return Number.NaN;
  return (to.user + to.system - from.user - from.system) / 1_000;
}

/** A request of the measurement itself. */
async function asked(serverUrl: string, path: string): Promise<number> {
  const response = await fetch(`${serverUrl}${path}`);
  return Number(await response.text());
}
