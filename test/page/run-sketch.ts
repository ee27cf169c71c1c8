// Short notation for made-up runs: agents and spans, and the payload that the server would send.

import { parseId, type AgentId, type CallId, type QuestionId } from "../../src/protocol/ids.ts";
import {
  ACTIVITIES,
  SPAN_ENDS,
  SPAN_KINDS,
  type ActivityName,
  type AgentRow,
  type Cause,
  type QuestionRow,
  type RefusalRow,
  type RunHead,
  type RunRowStatus,
  type RunSnapshot,
} from "../../src/read-model/viewer-data.ts";

/** The start time of the fixture runs: some minutes before the server's current time. */
export const BEGUN_MS = Date.UTC(2026, 4, 4, 9, 0, 0);
export const NOW_MS = BEGUN_MS + 600_000;

export interface AgentSketch {
  readonly parent: number;
  readonly name: string;
  readonly task?: string;
  readonly activity?: ActivityName;
  readonly note?: string;
  readonly fromMs?: number;
  /** Omitted if the span has not ended. */
  readonly toMs?: number;
  readonly step?: number;
  readonly own?: number;
  readonly tree?: number;
  readonly unpriced?: number;
  readonly refusals?: number;
  readonly toolErrors?: number;
  readonly spans?: readonly SpanSketch[];
}

export type SpanSketch = readonly [
  kind: (typeof SPAN_KINDS)[number],
  fromMs: number,
  toMs: number,
  end?: (typeof SPAN_ENDS)[number],
  step?: number,
  account?: number,
];

export function agentId(runId: string, index: number): AgentId {
  return parseId<"AgentId">(`${runId}-a${index}`);
}

export function rowOf(runId: string, index: number, sketch: AgentSketch): AgentRow {
  const {
    parent,
    name,
    task = "",
    activity = "completed",
    note = "",
    fromMs = 0,
    toMs = -1,
  } = sketch;
  const { step = 1, own = 0, tree = own, unpriced = 0, refusals = 0, toolErrors = 0 } = sketch;
  return [
    parent,
    agentId(runId, index),
    name,
    name.replace(/#\d+$/, ""),
    task,
    BEGUN_MS + fromMs,
    toMs < 0 ? -1 : BEGUN_MS + toMs,
    ACTIVITIES.indexOf(activity),
    note,
    BEGUN_MS + (toMs < 0 ? 590_000 : toMs),
    step,
    own,
    (own * 3) / 1_000_000,
    0,
    tree,
    (tree * 3) / 1_000_000,
    unpriced,
    refusals,
    toolErrors,
  ];
}

export function spansOf(sketches: readonly SpanSketch[] = []): readonly number[] {
  return sketches.flatMap(
    ([kind, fromMs, toMs, end = toMs < 0 ? "open" : "ok", step = 1, account = -1]) => [
      SPAN_KINDS.indexOf(kind),
      fromMs,
      toMs,
      SPAN_ENDS.indexOf(end),
      step,
      account,
    ],
  );
}

interface RunSketch {
  readonly runId: string;
  readonly title: string;
  readonly status: RunRowStatus;
  readonly agents: readonly AgentSketch[];
  readonly head?: Partial<RunHead>;
  readonly questions?: readonly QuestionRow[];
  readonly causes?: readonly Cause[];
  readonly refusals?: readonly RefusalRow[];
}

const OVER: ReadonlySet<RunRowStatus> = new Set(["completed", "stopped", "failed", "cancelled"]);

export function snapshotFor(sketch: RunSketch): RunSnapshot {
  const { runId, title, status, agents, questions = [], causes = [], refusals = [] } = sketch;
  const lastMs = Math.max(0, ...agents.map(({ toMs = 0 }) => toMs));
  const isOver = OVER.has(status);
  const tokens = agents[0]?.tree ?? 0;
  const run: RunHead = {
    runId: parseId<"RunId">(runId),
    title,
    status,
    createdAtMs: BEGUN_MS,
    updatedAtMs: isOver ? BEGUN_MS + lastMs : NOW_MS - 3_000,
    owner:
      isOver || status === "paused" || status === "waiting"
        ? null
        : { hostname: "harbour", processId: 4711, isThisProcess: false },
    agentCount: agents.length,
    running: agents.filter(({ toMs }) => toMs === undefined).length,
    awaitingBudget: agents.filter(({ activity }) => activity === "awaiting_budget").length,
    failedAgents: agents.filter(({ activity }) => activity === "failed").length,
    durationMs: isOver ? lastMs : 600_000,
    spent: { totalTokens: tokens, costUsd: (tokens * 3) / 1_000_000, unpricedCalls: 0 },
    budget: { costUsd: 1, steps: 120, timeMs: 900_000 },
    remaining: {
      costUsd: Math.max(0, 1_000_000 - tokens * 3) / 1_000_000,
      steps: 80,
      timeMs: 300_000,
    },
    traceId: "4bf92f3577b34da6a3ce929d0e0e4736",
    startedAtMs: BEGUN_MS,
    lastAtMs: isOver ? BEGUN_MS + lastMs : NOW_MS - 3_000,
    ...(isOver ? { endedAtMs: BEGUN_MS + lastMs } : {}),
    refusalCount: refusals.length,
    toolErrorCount: agents.reduce((sum, { toolErrors = 0 }) => sum + toolErrors, 0),
    idleMs: 0,
    isIdle: status === "paused" || status === "waiting",
    ...sketch.head,
  };
  return {
    record: 1_000,
    run,
    agents: agents.map((agent, index) => rowOf(runId, index, agent)),
    spans: agents.map(({ spans }) => spansOf(spans)),
    questions,
    causes,
    refusals,
  };
}

export function questionOf(
  runId: string,
  number: number,
  change: Partial<QuestionRow> = {},
): QuestionRow {
  return {
    runId: parseId<"RunId">(runId),
    questionId: parseId<"QuestionId">(`${runId}-q${number}`) satisfies QuestionId,
    kind: "approval",
    agentId: agentId(runId, 1),
    agentPath: "lead/buyer#1",
    callId: parseId<"CallId">(`c${number}`) satisfies CallId,
    toolName: "pay",
    arguments: { eur: 400, to: "Obsthof Lehmann", for: "2 crates of pears" },
    argumentsHash: `hash-${number}`,
    reason: "Payments of more than 100 EUR need an approval.",
    askedAtMs: NOW_MS - 240_000,
    deadlineAtMs: NOW_MS + 3_360_000,
    role: "buyer",
    task: "Order the pears for the market on Saturday, at most 420 EUR.",
    ...change,
  };
}
