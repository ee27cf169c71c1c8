// Recovery: claims a run whose process crashed, reads its journal, and continues or cancels the
// run. Also reads results from the store.

import { serializeError } from "../../agent/serialize-error.ts";
import { EspalierError, getErrorMessage } from "../../kernel/error.ts";
import { omitUndefined } from "../../kernel/json.ts";
import { formatContent } from "../../protocol/message-content.ts";
import type { RunId } from "../../protocol/ids.ts";
import type { Ownership, RunStore, StoredRun } from "../../store/run-store.ts";
import { isProcessGone, getHostname } from "../../store/ownership-rules.ts";
import {
  createRunEndedError,
  createStoreError,
  createUnknownRunError,
} from "../../store/store-errors.ts";
import { type FoldedJournal, foldJournal } from "../durability/fold-journal.ts";
import { type RunStorage, retry } from "../durability/journal.ts";
import { createRecoveredJournal } from "../durability/open-journal.ts";
import type { PausedRun } from "../durability/paused-run.ts";
import type { RestoredRun } from "../durability/restored-run.ts";
import { type Settings, requireStorage } from "../tree/orchestrator-settings.ts";
import { checkAnswerList } from "./check-answers.ts";
import { type Continuation, checkContinuation, restoreRun } from "./restore-run.ts";
import { readStoredResult, readStoredSnapshot, signResult } from "./stored-result.ts";
import { type ClaimedRun, createCrashLoopError, takeOwnership } from "./quarantine.ts";
import { type ReceivedMail, continuesRun, readUnreadMail } from "./run-mail.ts";
import type { PreparedRun } from "./live-run.ts";
import type { ResumeLostRunsOptions, StoredResumeOptions } from "./run-options.ts";
import type { JsonRunResult } from "./run-result.ts";

/** A run folded from its journal, and its unread mail. */
export interface PersistedRun {
  readonly folded: FoldedJournal;
  readonly mail: readonly ReceivedMail[];
}

/** Options of a recovery by a caller or a worker. */
export interface Recovery extends StoredResumeOptions {
  /** Replaces `context`. */
  readonly contextOf?: ResumeLostRunsOptions["context"] | undefined;
  /** The run, if it was read before. */
  readonly persistedRun?: PersistedRun;
  /** The ownership, if the run was claimed before it was read. */
  readonly claimed?: ClaimedRun;
  /** See `Arrival`. */
  readonly areAllNeeded?: boolean;
}

/**
 * Prepares a run of the store to continue after a crash, after a pause, or with a grant after a
 * limit has stopped it. Rejects with `unknown_run`, `run_active`, `run_ended`,
 * `unsupported_version`, `invalid_journal` or `store_failed`, and with the errors of
 * `checkContinuation`; then nothing has changed.
 */
export async function prepareRecovery(
  settings: Settings,
  runId: RunId,
  options: Recovery,
): Promise<PreparedRun> {
  const storage = requireStorage(settings);
  const { store } = storage;
  let { persistedRun } = options;
  let continuation: Continuation | undefined;
  // A lost run is claimed before it is read. A live owner is replaced only after all checks.
  if (persistedRun === undefined && !(await isProbablyLost(storage, runId)))
    persistedRun = await readRun(storage, runId);
  if (persistedRun !== undefined && options.claimed === undefined) {
    // If the run has ended and its process crashed before the store knew, it is claimed in order to
    // record that.
    const isUnreported =
      persistedRun.folded.status === "ended" &&
      (await findStoredRun(store, runId))?.status === "open";
    if (!isUnreported) continuation = await checkRecovery(settings, persistedRun, options);
  }
  const claimed = options.claimed ?? (await takeOwnership(settings, runId, options));
  const { ownership } = claimed;
  try {
    if (persistedRun === undefined || !(await isAsRead(store, persistedRun))) {
      persistedRun = await readRun(storage, runId);
      continuation = undefined;
    }
    continuation ??= await checkRecovery(settings, persistedRun, options);
    return continueClaimed(settings, claimed, persistedRun.folded, continuation);
  } catch (cause) {
    await releaseAfterFailure(storage, ownership, persistedRun, cause);
    throw cause;
  }
}

async function isProbablyLost(
  { store, clock, staleAfterMs }: RunStorage,
  runId: RunId,
): Promise<boolean> {
  const run = await findStoredRun(store, runId);
  if (run?.status !== "open" || run.recordCount === 0) return false;
  return !isProbablyAlive(run, clock.nowMs(), staleAfterMs);
}

/** Returns false if the run advanced, or received mail, since it was read. */
async function isAsRead(store: RunStore, { folded, mail }: PersistedRun): Promise<boolean> {
  const { runId } = folded.run;
  const { recordCount } = (await findStoredRun(store, runId)) ?? {};
  const unread = await readUnreadMail(store, runId, folded.posts);
  return recordCount === folded.recordCount && unread.length === mail.length;
}

function continueClaimed(
  settings: Settings,
  { ownership, crashes }: ClaimedRun,
  folded: FoldedJournal,
  continuation: Continuation,
): PreparedRun {
  const isOver = crashes >= settings.maxCrashes;
  const failure = isOver
    ? serializeError(createCrashLoopError(ownership.runId, crashes, folded))
    : undefined;
  const journal = createRecoveredJournal(requireStorage(settings), ownership, folded, failure);
  return restoreRun(settings, folded.run, continuation, { journal, folded, failure });
}

/**
 * Releases a run that cannot continue, with the status of its journal. An ended run is released as
 * ended.
 */
export async function releaseAfterFailure(
  { store, clock }: RunStorage,
  ownership: Ownership,
  persistedRun: PersistedRun | undefined,
  cause: unknown,
): Promise<void> {
  const isOver = EspalierError.is(cause) && cause.code === "run_ended";
  // A run that could not be read stays open.
  const isOpen = persistedRun === undefined || persistedRun.mail.some(continuesRun);
  const status = isOpen ? "open" : persistedRun.folded.status;
  const lastMail = persistedRun && findLastMail(persistedRun);
  const release = () => store.release(ownership, isOver ? "ended" : status, lastMail);
  await retry(clock, release).catch(() => undefined); // The first error is the relevant one.
}

/**
 * Reads a run and its mail. Rejects with `unknown_run`, also for a run without records, with
 * `unsupported_version`, `invalid_journal` or `store_failed`.
 */
export async function readRun({ store }: RunStorage, runId: RunId): Promise<PersistedRun> {
  const folded = await foldStoredRun(store, runId);
  const mail = await askStore(`the mail of run ${runId}`, () =>
    readUnreadMail(store, runId, folded.posts),
  );
  return { folded, mail };
}

/** Returns the number of the last mail that was read. */
export function findLastMail({ folded, mail }: PersistedRun): number {
  return Math.max(0, ...folded.posts, ...mail.map(({ number }) => number));
}

async function foldStoredRun(store: RunStore, runId: RunId): Promise<FoldedJournal> {
  const stored = await findStoredRun(store, runId);
  if (stored?.recordCount === 0) throw createNoRecordsError(runId);
  return await askStore(`run ${runId}`, () => foldJournal(runId, store.read(runId)));
}

async function checkRecovery(
  settings: Settings,
  { folded: { run, status, answers: before }, mail }: PersistedRun,
  { contextOf, answers = [], areAllNeeded, ...others }: Recovery,
): Promise<Continuation> {
  const { grants = [] } = others;
  if (status === "ended" && grants.length === 0) throw createRunEndedError(run.runId);
  checkAnswerList(answers);
  const openAnswers = before.filter(({ questionId }) =>
    run.questions.some((question) => question.questionId === questionId),
  );
  const context = contextOf === undefined ? others.context : await readLostContext(run, contextOf);
  const arrival = { wasCutOff: status === "open", answers: [...openAnswers, ...answers], mail };
  const needed = omitUndefined({ areAllNeeded });
  return checkContinuation(settings, run, { ...others, context }, { ...arrival, ...needed });
}

/** Returns the result of a settled run from the store. */
export async function loadStoredResult(settings: Settings, runId: RunId): Promise<JsonRunResult> {
  const folded = await foldStoredRun(requireStorage(settings).store, runId);
  return signResult(settings, await readStoredResult(folded));
}

/** Returns the snapshot of a settled run from the store. */
export async function loadStoredSnapshot(settings: Settings, runId: RunId): Promise<PausedRun> {
  return await readStoredSnapshot(
    settings,
    await foldStoredRun(requireStorage(settings).store, runId),
  );
}

/** The largest number of runs that a store accepts. */
export const ALL_OF_THEM = 2 ** 31 - 1;

/**
 * Returns the open runs that no process seems to own: runs with the fewest crashes first, and of
 * these the oldest first. Rejects with `store_failed`.
 */
export async function findLostRuns(storage: RunStorage): Promise<readonly StoredRun[]> {
  const filter = { status: "open", limit: ALL_OF_THEM } as const;
  const open = await askStore("its runs", () => storage.store.list(filter));
  const nowMs = storage.clock.nowMs();
  const lost = open.filter((run) => !isProbablyAlive(run, nowMs, storage.staleAfterMs));
  return lost.toReversed().toSorted((left, right) => left.crashCount - right.crashCount);
}

/** Throws `run_active` for a run that another process seems to own. */
export function assertFree(run: StoredRun, { clock, staleAfterMs }: RunStorage): void {
  if (!isProbablyAlive(run, clock.nowMs(), staleAfterMs)) return;
  throw new EspalierError({
    code: "run_active",
    message: `Cannot take over run ${run.runId}: another process owns it. Wait until the run pauses or ends, or until its owner is lost.`,
    data: { runId: run.runId },
  });
}

/**
 * Returns true if the owner seems alive, which avoids reading the journal. The store, with its own
 * clock, decides whether the run may be claimed.
 */
function isProbablyAlive(
  { owner, heartbeatAtMs }: StoredRun,
  nowMs: number,
  staleAfterMs: number,
): boolean {
  if (owner === null || heartbeatAtMs === null) return false;
  if (owner.hostname === getHostname() && isProcessGone(owner.processId)) return false;
  return Math.abs(nowMs - heartbeatAtMs) < staleAfterMs;
}

/** Returns the context of a lost run from the caller's function. Rejects with `context_failed`. */
async function readLostContext(
  { runId, agents }: RestoredRun,
  contextOf: NonNullable<ResumeLostRunsOptions["context"]>,
): Promise<unknown> {
  const [root] = agents;
  if (root === undefined) throw new Error("A run has a root.");
  const { role, task, metadata } = root;
  try {
    return await contextOf(Object.freeze({ runId, role, task: formatContent(task), metadata }));
  } catch (cause) {
    const message = `Expected options.context to return the context of run ${runId}, but it threw: ${getErrorMessage(cause)}. The run is unchanged.`;
    throw new EspalierError({ code: "context_failed", message, data: { runId }, cause });
  }
}

/** Returns the entry of a run in the store. */
export function findStoredRun(store: RunStore, runId: RunId): Promise<StoredRun | undefined> {
  return askStore(`run ${runId}`, () => store.find(runId));
}

/** Calls the store, and converts foreign errors to `store_failed`. */
export async function askStore<Answer>(
  subject: string,
  ask: () => Promise<Answer>,
): Promise<Answer> {
  try {
    return await ask();
  } catch (cause) {
    if (EspalierError.is(cause)) throw cause;
    const message = `Cannot read ${subject}: the store failed with: ${getErrorMessage(cause)}. Check the store; nothing was changed.`;
    throw createStoreError("other", message, cause);
  }
}

function createNoRecordsError(runId: RunId): EspalierError {
  return new EspalierError({
    code: "unknown_run",
    message: `Cannot continue run ${runId}: its process ended before its first record. Start a new run.`,
    data: { runId },
  });
}

/**
 * Returns the result of a settled run, or `undefined` if it has not settled. Rejects with the
 * reason why no worker could execute the run, with `unknown_run` or with `store_failed`.
 */
export async function readResult(
  store: RunStore,
  runId: RunId,
): Promise<JsonRunResult | undefined> {
  const rested = await readSettledRun(store, runId);
  if (rested === undefined) return undefined;
  const { folded, mail, refusal } = rested;
  if (folded?.status === "ended") return await readStoredResult(folded); // Mail after the end is ignored.
  if (refusal !== undefined)
    throw new EspalierError({ code: refusal.code, message: refusal.message });
  // The run was paused between two reads, or a worker still has to handle its mail.
  if (folded === undefined || folded.status === "open" || mail.some(continuesRun)) return undefined;
  return await readStoredResult(folded);
}

/**
 * Returns a run that has settled according to the store, or `undefined` if it is open. `refusal` is
 * the reason why no worker could execute the run, if its last mail contains that.
 */
export async function readSettledRun(store: RunStore, runId: RunId) {
  const stored = await findStoredRun(store, runId);
  if (stored === undefined) throw createUnknownRunError(runId);
  if (stored.status === "open") return undefined;
  const folded = stored.recordCount === 0 ? undefined : await foldJournal(runId, store.read(runId));
  const mail = await readUnreadMail(store, runId, folded?.posts ?? []);
  const last = folded?.status === "ended" ? undefined : mail.at(-1)?.mail;
  const refusal = last?.type === "refused" ? last : undefined;
  return { folded, mail, refusal };
}
