// What happens to a run whose process died, before its agents go on.

import { EspalierError, messageOf } from "../../kernel/error.ts";
import { callUsage } from "../../agent/call-usage.ts";
import type { Amounts } from "../../policies/budget.ts";
import type { RunId } from "../../protocol/ids.ts";
import { addUsage, type Usage } from "../../protocol/usage.ts";
import type { Ownership, RunStore, StoredRun } from "../../store/run-store.ts";
import { isProcessGone, thisHostname } from "../../store/holding.ts";
import { storeFailed } from "../../store/store-errors.ts";
import { foldJournal, type FoldedRun } from "../durability/fold-journal.ts";
import { STALE_AFTER_MS } from "../durability/journal.ts";
import { newOwner, type Keeper } from "../durability/open-journal.ts";
import type { RestoredRun } from "../durability/restored-run.ts";
import type { Run } from "./run.ts";
import type { RecoverAllOptions } from "./run-options.ts";
import type { RunRuntime } from "../tree/run-runtime.ts";

/** What became of the runs of a store that were lost. */
export interface RecoveredRuns<out Output = unknown> {
  /** Those that are under way again, oldest first. */
  readonly runs: readonly Run<Output>[];
  /** Those that could not be recovered. They stay as they were. */
  readonly failed: readonly FailedRecovery[];
}

/** A run that could not be recovered. */
export interface FailedRecovery {
  readonly runId: RunId;
  readonly error: EspalierError;
}

/** A run as its journal tells of it, with what it goes on with. */
interface Readable<Going> {
  readonly folded: FoldedRun;
  /** Undefined: it has ended. */
  readonly going: Going | undefined;
}

/** A run that this process leads from now on. */
export interface Claim<Going> {
  readonly ownership: Ownership;
  readonly folded: FoldedRun;
  readonly going: Going;
}

export interface ClaimWish<Going> {
  readonly takeOver: boolean;
  /** What the run goes on with. What it throws is thrown before anything has changed. */
  readonly ready: (folded: FoldedRun) => Promise<Going>;
}

/** As many as a store can have. */
const ALL_OF_THEM = 2 ** 31 - 1;

/** The runs that are open and that no process seems to lead, oldest first. Rejects with `store_failed`. */
export async function lostRuns({ store, clock }: Keeper): Promise<readonly RunId[]> {
  let open: readonly StoredRun[];
  try {
    open = await store.list({ status: "open", limit: ALL_OF_THEM });
  } catch (cause) {
    throw unread("its runs", cause);
  }
  const nowMs = clock.nowMs();
  const lost = open.filter((run) => run.recordCount > 0 && !seemsAlive(run, nowMs));
  return lost.map(({ runId }) => runId).toReversed();
}

/** Spares the reading of a journal. The store, which has a clock of its own, decides whether the run may be claimed. */
function seemsAlive({ owner, heartbeatAtMs }: StoredRun, nowMs: number): boolean {
  if (owner === null || heartbeatAtMs === null) return false;
  if (owner.hostname === thisHostname() && isProcessGone(owner.processId)) return false;
  return Math.abs(nowMs - heartbeatAtMs) < STALE_AFTER_MS;
}

/** Why a lost run could not be recovered; undefined: it was not lost after all. */
export function failedRecovery(runId: RunId, cause: unknown): EspalierError | undefined {
  if (!EspalierError.is(cause)) {
    const message = `Expected run ${runId} to go on, got an error: ${messageOf(cause)}. This is a fault of espalier.`;
    return new EspalierError({ code: "internal_error", message, data: { runId }, cause });
  }
  const wasNotLost = cause.code === "run_alive" || cause.code === "run_ended";
  return wasNotLost ? undefined : cause;
}

/** Takes a run over. Rejects with `unknown_run`, `run_alive`, `run_ended`, `unsupported_version`, `invalid_journal` or `store_failed`. */
export async function claimed<Going>(
  keeper: Keeper,
  runId: RunId,
  { takeOver, ready }: ClaimWish<Going>,
): Promise<Claim<Going>> {
  const { store } = keeper;
  const found = await storedRun(store, runId);
  if (found?.status === "ended") throw runEnded(runId);
  if (found?.recordCount === 0) throw nothingKept(runId);
  const before = await readable(keeper, runId, ready);
  const owner = newOwner();
  const ownership = await store.claim(runId, { owner, staleAfterMs: STALE_AFTER_MS, takeOver });
  try {
    const { recordCount } = (await storedRun(store, runId)) ?? {};
    const isSame = recordCount === before.folded.recordCount;
    const { folded, going } = isSame ? before : await readable(keeper, runId, ready);
    if (going === undefined) throw runEnded(runId);
    return { ownership, folded, going };
  } catch (cause) {
    const isOver = EspalierError.is(cause) && cause.code === "run_ended";
    await store.release(ownership, isOver ? "ended" : "paused");
    throw cause;
  }
}

async function readable<Going>(
  { store }: Keeper,
  runId: RunId,
  ready: ClaimWish<Going>["ready"],
): Promise<Readable<Going>> {
  const folded = await foldJournal(runId, storedLines(store, runId));
  return { folded, going: folded.status === "ended" ? undefined : await ready(folded) };
}

/** The context of a lost run, as the caller gives it. Rejects with `context_failed`. */
export async function contextOfLost(
  { runId, agents }: RestoredRun,
  contextOf: NonNullable<RecoverAllOptions["contextOf"]>,
): Promise<unknown> {
  const [root] = agents;
  if (root === undefined) throw new Error("A run has a root.");
  const { role, task, metadata } = root;
  try {
    return await contextOf(Object.freeze({ runId, role, task, metadata }));
  } catch (cause) {
    const message = `Expected contextOf to give the context of run ${runId}, but it threw: ${messageOf(cause)}. The run stays as it was.`;
    throw new EspalierError({ code: "context_failed", message, data: { runId }, cause });
  }
}

/** What a store knows of a run. Whatever it throws comes out as one of our errors. */
export async function storedRun(
  store: Pick<RunStore, "find">,
  runId: RunId,
): Promise<StoredRun | undefined> {
  try {
    return await store.find(runId);
  } catch (cause) {
    throw unread(`run ${runId}`, cause);
  }
}

/** The journal of a run. Whatever its store throws comes out as one of our errors. */
export async function* storedLines(
  store: Pick<RunStore, "read">,
  runId: RunId,
): AsyncGenerator<string> {
  try {
    yield* store.read(runId);
  } catch (cause) {
    throw unread(`run ${runId}`, cause);
  }
}

function unread(what: string, cause: unknown): unknown {
  if (EspalierError.is(cause)) return cause;
  const message = `Expected the store to give ${what}, got an error: ${messageOf(cause)}. Look at the store; nothing was changed.`;
  return storeFailed("other", message, cause);
}

export function nothingKept(runId: RunId): EspalierError {
  return new EspalierError({
    code: "unknown_run",
    message: `Expected a run of which something is kept, got ${runId}, whose process ended before its first record. Start it anew.`,
    data: { runId },
  });
}

function runEnded(runId: RunId): EspalierError {
  return new EspalierError({
    code: "run_ended",
    message: `Expected a run that can go on, got ${runId}, which has ended. Its result: orchestrator.resultOf. Start another one, or fork a snapshot of it.`,
    data: { runId },
  });
}

/** Charges model calls of which nobody knows what became, by estimate: they may have been made, and paid for. */
export function chargeLost(run: RunRuntime, { lost }: FoldedRun): void {
  const { tree, recorder } = run;
  for (const { agentId, lease, hold, charged } of lost) {
    const node = tree.find(agentId);
    if (node === undefined) continue;
    const { model } = node.role;
    const call = { ...lease, lastStep: lease.lastStep };
    const abandoned = { ...callUsage(model, call, { type: "abandoned" }), steps: 0 };
    const usage = charged === undefined ? abandoned : withAttempt(charged, hold, abandoned);
    const { account } = node;
    account.settle(call, usage);
    const { leaseId } = lease;
    const remaining = account.remaining();
    const runRemaining = account.runRemaining();
    const place = { ...node.identity, executionId: null, stepId: null, callId: null };
    const lostCall = { provider: model.provider, model: model.id };
    const settled = { leaseId, usage, remaining, runRemaining, lostCall };
    recorder.record(place, { type: "budget.settled", ...settled });
  }
}

/** What a call used of which attempts had broken, with the one that was under way, if one was. */
function withAttempt(charged: Usage, hold: Amounts, attempt: Usage): Usage {
  const isUnderWay = Object.values(hold).some((amount) => amount > 0);
  return isUnderWay ? addUsage(charged, { ...attempt, modelCalls: 0, unpricedCalls: 0 }) : charged;
}

/** What was asked of agents before their process died, and what they have not heard of yet. */
export function reapply(
  run: RunRuntime,
  { cancelled, overdue, stops, unknownIds }: FoldedRun,
): void {
  const { tree } = run;
  for (const { agentId, message } of cancelled) {
    const node = tree.find(agentId);
    if (node !== undefined && !node.hasEnded) node.cancel(message);
  }
  for (const { agentId, deadlineAtMs } of overdue) {
    const node = tree.find(agentId);
    if (node !== undefined && !node.hasEnded) node.endAt(deadlineAtMs);
  }
  for (const stop of stops) tree.stop(stop);
  for (const node of tree.nodes) {
    const { signals = [], messages = [] } = node.inFlight?.facts ?? {};
    if (node.hasEnded) continue;
    for (const signal of signals) node.requestStop(signal);
    for (const text of messages) void node.openMailbox().write(text);
  }
  for (const childId of unknownIds) {
    const parent = tree.find(childId)?.parent;
    if (parent !== undefined && !parent.hasEnded) run.subagents.reactivate(parent, [childId]);
  }
}
