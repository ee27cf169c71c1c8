// Builds the viewer's row of a run: facts of its store, its time, and its group in a list. Pure.

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

/** Entry in the list of a store, for example a `StoredRun`. */
export interface ListedRun {
  /** Id of the run. */
  readonly runId: RunId;
  /** Role and task of the run. */
  readonly title: string;
  /** `open`: active, or ready for a process; `paused`: can be resumed; `ended`: final. */
  readonly status: "open" | "paused" | "ended";
  /** Milliseconds since the epoch. */
  readonly createdAtMs: number;
  /** Last write or change of owner in milliseconds since the epoch. */
  readonly updatedAtMs: number;
  /** Process that owns the run. `null` if there is none. */
  readonly owner: Pick<OwnerProcess, "hostname" | "processId"> | null;
  /** Last heartbeat of the owner in milliseconds since the epoch. `null` if there is no owner. */
  readonly heartbeatAtMs: number | null;
}

/** Time and process of an observer. */
export interface Viewpoint {
  /** Milliseconds since the epoch, by the clock of the heartbeats. */
  readonly nowMs: number;
  /** Host name of the machine. */
  readonly hostname: string;
  /** Process id on that machine. */
  readonly processId: number;
  /** Returns true if no process of that machine has this id. Absent if unknown. */
  readonly isProcessGone?: (processId: number) => boolean;
}

/** An owner without a heartbeat for longer than this counts as dead. */
const SILENT_MS = 30_000;

/** Returns the facts of the store about a run. `facts` are the folded facts, if there are any. */
export function createRunListing(
  listed: ListedRun,
  facts: RunOverview | undefined,
  at: Viewpoint,
): RunListing {
  const { runId, title, createdAtMs, updatedAtMs, owner } = listed;
  const status = chooseRowStatus(listed, facts, at);
  const leader = owner === null ? null : identifyOwner(owner, at);
  return { runId, title, status, createdAtMs, updatedAtMs, owner: leader };
}

/** Returns a run without its agents. */
export function createRunHead(listed: ListedRun, facts: RunOverview, at: Viewpoint): RunHead {
  const listing = createRunListing(listed, facts, at);
  return { ...facts, ...computeRunTime(facts, listing, at.nowMs), ...listing };
}

/** Returns the time of a run until now. A run without a live owner is idle. */
export function computeRunTime(
  facts: RunTime,
  { status, owner: leader }: Pick<RunListing, "status" | "owner">,
  nowMs: number,
): Pick<RunTime, "durationMs" | "idleMs" | "isIdle"> {
  const isUnled = facts.endedAtMs === undefined && (leader === null || status === "lost");
  const isIdle = facts.isIdle || isUnled;
  return { ...projectRunTime({ ...facts, isIdle }, nowMs), isIdle };
}

type Reason = NonNullable<RunSummary["reason"]>;

/**
 * Returns the facts after the mail that the journal does not contain yet: answers to all questions,
 * and a refusal of the last process that could not run the run.
 */
export function updateMailedFacts(
  facts: RunOverview,
  isAnswered: boolean,
  refusal: Reason | undefined,
): RunOverview {
  const status = facts.status === "input_required" && isAnswered ? "working" : facts.status;
  return { ...facts, status, ...(refusal && { reason: refusal }) };
}

/**
 * Returns why no process could continue the run, if the newest message of its mailbox reports that.
 * `handled` has the numbers of the handled messages.
 */
export function findRefusal(
  posts: readonly { readonly number: number; readonly body: string }[],
  handled: readonly number[],
): Reason | undefined {
  const last = posts.at(-1);
  if (last === undefined || handled.includes(last.number)) return undefined;
  return parseRefusal(last.body);
}

// Parsed without an import: a module shared with the root would become a separate bundle chunk.
function parseRefusal(body: string): Reason | undefined {
  let mail: unknown;
  try {
    mail = JSON.parse(body);
  } catch {
    return undefined; // Written by a later release.
  }
  if (typeof mail !== "object" || mail === null) return undefined;
  if (!("type" in mail && "code" in mail && "message" in mail)) return undefined;
  const { type, code, message } = mail;
  return type === "refused" && typeof code === "string" && typeof message === "string"
    ? { code, message }
    : undefined;
}

function identifyOwner(
  { hostname, processId }: Pick<OwnerProcess, "hostname" | "processId">,
  at: Viewpoint,
): OwnerProcess {
  const isHere = hostname === at.hostname && processId === at.processId;
  return { hostname, processId, isThisProcess: isHere };
}

/**
 * Returns the status of a row. The journal may be slightly ahead of the store's entry, or behind.
 */
function chooseRowStatus(
  { status, owner, heartbeatAtMs }: ListedRun,
  facts: RunOverview | undefined,
  { nowMs, hostname, isProcessGone }: Viewpoint,
): RunRowStatus {
  if (facts?.endedAtMs !== undefined) return facts.status;
  if (status === "ended") return "ended";
  if (status === "paused") {
    // All questions have an answer in the mailbox, and no process has refused to run it.
    if (facts?.status === "working" && facts.reason?.code === "input_required") return "waiting";
    return facts?.status === "input_required" ? "input_required" : "paused";
  }
  const isAsking = facts?.status === "input_required";
  // Some questions of a paused run were answered.
  if (owner === null) return isAsking ? "input_required" : "waiting";
  const isGone = owner.hostname === hostname && isProcessGone?.(owner.processId) === true;
  if (isGone || nowMs - (heartbeatAtMs ?? nowMs) > SILENT_MS) return "lost";
  return isAsking ? "input_required" : "working";
}

/** Returns the time of a run at a later moment. All displays use this definition. */
export function projectRunTime(
  { startedAtMs, endedAtMs, durationMs, idleMs, isIdle }: RunTime,
  nowMs: number,
): Pick<RunTime, "durationMs" | "idleMs"> {
  // The clock of the owner process may be ahead.
  const untilMs = endedAtMs ?? Math.max(startedAtMs + durationMs, nowMs);
  const laterMs = untilMs - startedAtMs - durationMs;
  return { durationMs: durationMs + laterMs, idleMs: isIdle ? idleMs + laterMs : idleMs };
}

/**
 * Returns the rest of a relative time limit at a later moment. The limit does not run while the run
 * is idle.
 */
export function runTimeLeft(limitMs: number, time: RunTime, nowMs: number): number {
  const { durationMs, idleMs } = projectRunTime(time, nowMs);
  return Math.max(0, limitMs - (durationMs - idleMs));
}

const GROUPS = ["attention", "working", "done"] as const;
export type RunGroup = (typeof GROUPS)[number];

const GROUP_OF: Readonly<Record<RunRowStatus, RunGroup>> = {
  input_required: "attention",
  paused: "attention",
  lost: "attention",
  working: "working",
  waiting: "working",
  completed: "done",
  stopped: "done",
  failed: "done",
  cancelled: "done",
  ended: "done",
};

/** True if all questions of a paused run have answers, and no process has continued it since. */
export function isAnswered({ status, reason }: Pick<RunRow, "status" | "reason">): boolean {
  return status === "waiting" && reason?.code === "input_required";
}

function chooseGroup(run: RunRow): RunGroup {
  return isAnswered(run) ? "attention" : GROUP_OF[run.status];
}

/** Returns each group with its runs, in the given order: newest first. */
export function groupRuns(
  runs: readonly RunRow[],
): readonly (readonly [RunGroup, readonly RunRow[]])[] {
  return GROUPS.map((group) => [group, runs.filter((run) => chooseGroup(run) === group)]);
}
