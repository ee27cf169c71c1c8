// A run as a row: what a store knows of it beside its events, its time, and its group in a list. Pure.

import type { RunId } from "../protocol/ids.ts";
import type {
  OwnerProcess,
  RunHead,
  RunListing,
  RunOverview,
  RunRowStatus,
  RunSummary,
  RunTime,
  RunRow,
} from "./viewer-data.ts";

/** An entry of the list of a store; a `StoredRun` is one. */
export interface ListedRun {
  /** Which run. */
  readonly runId: RunId;
  /** In what words it was started. */
  readonly title: string;
  /** `open`: it works, or has something to do and waits for a process; `paused`: at rest, may continue; `ended`: for good. */
  readonly status: "open" | "paused" | "ended";
  /** Milliseconds since the epoch. */
  readonly createdAtMs: number;
  /** When it was last written to or changed hands, in milliseconds since the epoch. */
  readonly updatedAtMs: number;
  /** The process that leads it; null: none does. */
  readonly owner: Pick<OwnerProcess, "hostname" | "processId"> | null;
  /** When its owner last showed a sign of life, in milliseconds since the epoch; null: it has no owner. */
  readonly heartbeatAtMs: number | null;
}

/** When, and in which process, a run is looked at. */
export interface Viewpoint {
  /** Milliseconds since the epoch, by the clock of the heartbeats. */
  readonly nowMs: number;
  /** The machine. */
  readonly hostname: string;
  /** The process, as that machine numbers it. */
  readonly processId: number;
  /** Returns true if no process of that machine has this number. Left out: it is not known. */
  readonly isProcessGone?: (processId: number) => boolean;
}

/** A leader that gave no sign of life for so long is taken for gone. */
const SILENT_MS = 30_000;

/** `facts`: what is folded of it, if it is. */
export function runListing(
  listed: ListedRun,
  facts: RunOverview | undefined,
  at: Viewpoint,
): RunListing {
  const { runId, title, createdAtMs, updatedAtMs, owner } = listed;
  const status = chooseRowStatus(listed, facts, at);
  const leader = owner === null ? null : leaderOf(owner, at);
  return { runId, title, status, createdAtMs, updatedAtMs, owner: leader };
}

/** All that stands above the tree of a run. */
export function runHead(listed: ListedRun, facts: RunOverview, at: Viewpoint): RunHead {
  const listing = runListing(listed, facts, at);
  return { ...facts, ...timeOf(facts, listing, at.nowMs), ...listing };
}

/** Returns the time of a run until now. A run without a process rests, whatever its events say. */
export function timeOf(
  facts: RunTime,
  { status, owner: leader }: Pick<RunListing, "status" | "owner">,
  nowMs: number,
): Pick<RunTime, "durationMs" | "idleMs" | "isIdle"> {
  const isUnled = facts.endedAtMs === undefined && (leader === null || status === "lost");
  const isIdle = facts.isIdle || isUnled;
  return { ...timeAt({ ...facts, isIdle }, nowMs), isIdle };
}

/** A run whose questions all have an answer in its mailbox needs no person. */
export function factsOnceAnswered(facts: RunOverview, isAnswered: boolean): RunOverview {
  return facts.status === "input_required" && isAnswered ? { ...facts, status: "working" } : facts;
}

/** Why a run rests or ended. */
type Reason = NonNullable<RunSummary["reason"]>;

/** Returns the facts with the reason for which no process could lead the run, if there is one. */
export function factsOnceRefused(facts: RunOverview, refusal: Reason | undefined): RunOverview {
  return refusal === undefined ? facts : { ...facts, reason: refusal };
}

/**
 * Returns why no process could lead the run, if the newest post of its mailbox says so. `handled`: the
 * numbers of the posts that a process has handled.
 */
export function findRefusal(
  posts: readonly { readonly number: number; readonly body: string }[],
  handled: readonly number[],
): Reason | undefined {
  const last = posts.at(-1);
  if (last === undefined || handled.includes(last.number)) return undefined;
  return refusalIn(last.body);
}

// Nothing is imported for this: what the command shares with the root would be a chunk of its own.
function refusalIn(body: string): Reason | undefined {
  let mail: unknown;
  try {
    mail = JSON.parse(body);
  } catch {
    return undefined; // A later release wrote it.
  }
  if (typeof mail !== "object" || mail === null) return undefined;
  if (!("type" in mail && "code" in mail && "message" in mail)) return undefined;
  const { type, code, message } = mail;
  return type === "refused" && typeof code === "string" && typeof message === "string"
    ? { code, message }
    : undefined;
}

function leaderOf(
  { hostname, processId }: Pick<OwnerProcess, "hostname" | "processId">,
  at: Viewpoint,
): OwnerProcess {
  const isHere = hostname === at.hostname && processId === at.processId;
  return { hostname, processId, isThisProcess: isHere };
}

/** A journal may be a moment ahead of its entry, or behind it. */
function chooseRowStatus(
  { status, owner, heartbeatAtMs }: ListedRun,
  facts: RunOverview | undefined,
  { nowMs, hostname, isProcessGone }: Viewpoint,
): RunRowStatus {
  if (facts?.endedAtMs !== undefined) return facts.status;
  if (status === "ended") return "ended";
  if (status === "paused") {
    // All its questions have an answer in its mailbox, and no process has refused to run it.
    const isAnswered = facts?.status === "working" && facts.reason?.code === "answers_needed";
    if (isAnswered) return "waiting";
    return facts?.status === "input_required" ? "input_required" : "paused";
  }
  const isAsking = facts?.status === "input_required";
  // Some of the questions of a paused run were answered.
  if (owner === null) return isAsking ? "input_required" : "waiting";
  const isGone = owner.hostname === hostname && isProcessGone?.(owner.processId) === true;
  if (isGone || nowMs - (heartbeatAtMs ?? nowMs) > SILENT_MS) return "lost";
  return isAsking ? "input_required" : "working";
}

/** Returns the time of a run at a later moment. It is the only definition of that time. */
export function timeAt(
  { startedAtMs, endedAtMs, durationMs, idleMs, isIdle }: RunTime,
  nowMs: number,
): Pick<RunTime, "durationMs" | "idleMs"> {
  // The clock of the process that runs it may be ahead.
  const untilMs = endedAtMs ?? Math.max(startedAtMs + durationMs, nowMs);
  const laterMs = untilMs - startedAtMs - durationMs;
  return { durationMs: durationMs + laterMs, idleMs: isIdle ? idleMs + laterMs : idleMs };
}

/** Returns what is left of a limit in time at a later moment. It does not run while the run rests. */
export function runTimeLeft(limitMs: number, time: RunTime, nowMs: number): number {
  const { durationMs, idleMs } = timeAt(time, nowMs);
  return Math.max(0, limitMs - (durationMs - idleMs));
}

const GROUPS = ["input_required", "working", "done"] as const;
export type RunGroup = (typeof GROUPS)[number];

const GROUP_OF: Readonly<Record<RunRowStatus, RunGroup>> = {
  input_required: "input_required",
  paused: "input_required",
  working: "working",
  lost: "working",
  waiting: "working",
  completed: "done",
  stopped: "done",
  failed: "done",
  cancelled: "done",
  ended: "done",
};

/** Each group with its runs, in the order in which they came: newest first. */
export function groupedRuns(
  runs: readonly RunRow[],
): readonly (readonly [RunGroup, readonly RunRow[]])[] {
  return GROUPS.map((group) => [group, runs.filter(({ status }) => GROUP_OF[status] === group)]);
}
