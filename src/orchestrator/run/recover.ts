// Recovery: a run whose process died is claimed, read from its journal and continued. Reads results from the store, too.

import { mismatch } from "../../kernel/check.ts";
import { EspalierError, messageOf } from "../../kernel/error.ts";
import type { JsonValue } from "../../kernel/json.ts";
import { contentText } from "../../protocol/message-content.ts";
import type { RunId } from "../../protocol/ids.ts";
import type { RunStore, StoredRun } from "../../store/run-store.ts";
import { isProcessGone, thisHostname } from "../../store/holding.ts";
import { runEnded, storeFailed } from "../../store/store-errors.ts";
import { foldJournal, type FoldedJournal } from "../durability/fold-journal.ts";
import type { RunStorage } from "../durability/journal.ts";
import { newOwner, recoveredJournal } from "../durability/open-journal.ts";
import type { RestoredRun } from "../durability/restored-run.ts";
import { storageIn, type Settings } from "../tree/settings.ts";
import { continueRun, readyToContinue, type Continuation } from "./continue-run.ts";
import type { LiveRuns } from "./live-runs.ts";
import { persistedResult } from "./persisted-result.ts";
import type { LiveRun } from "./live-run.ts";
import type { Run } from "./run.ts";
import type { RecoverAllOptions, RecoverOptions } from "./run-options.ts";
import type { RunResult } from "./run-result.ts";

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

/**
 * Continues a run that is kept in the store, after its process has died, or after a pause. Rejects with `unknown_run`, `run_alive`, `run_ended`,
 * `unsupported_version`, `invalid_journal` or `store_failed`, and with what continuing throws: nothing has changed then.
 */
export async function recoverRun(
  settings: Settings,
  runId: RunId,
  options: RecoverOptions & RecoverAllOptions,
): Promise<LiveRun> {
  const storage = storageOf(settings);
  const { store } = storage;
  const found = await storedRun(store, runId);
  if (found?.status === "ended") throw runEnded(runId);
  if (found?.recordCount === 0) throw nothingStored(runId);
  /** The run as its journal has it, with what it continues from; undefined: it has ended. */
  const read = async () => {
    const folded = await foldJournal(runId, storedLines(store, runId));
    const isOver = folded.status === "ended";
    return { folded, going: isOver ? undefined : await readyToRecover(settings, folded, options) };
  };
  const before = await read();
  const { takeOver = false } = options;
  const claim = { owner: newOwner(), staleAfterMs: storage.staleAfterMs, takeOver };
  const ownership = await store.claim(runId, claim);
  try {
    const { recordCount } = (await storedRun(store, runId)) ?? {};
    const isSame = recordCount === before.folded.recordCount;
    const { folded, going } = isSame ? before : await read();
    if (going === undefined) throw runEnded(runId);
    const journal = recoveredJournal(storage, ownership, folded);
    return continueRun(settings, folded.run, going, { journal, folded }).run;
  } catch (cause) {
    const isOver = EspalierError.is(cause) && cause.code === "run_ended";
    await store.release(ownership, isOver ? "ended" : "paused");
    throw cause;
  }
}

async function readyToRecover(
  settings: Settings,
  { run, status, answers: before }: FoldedJournal,
  { contextOf, answers = [], ...others }: RecoverOptions & RecoverAllOptions,
): Promise<Continuation> {
  const kept = before.filter(({ questionId }) =>
    run.questions.some((question) => question.questionId === questionId),
  );
  const context = contextOf === undefined ? others.context : await contextOfLost(run, contextOf);
  const given = { answers: [...kept, ...answers], areAllNeeded: status !== "open" };
  return readyToContinue(settings, run, { ...others, context }, given);
}

/** Recovers every run of the store that is lost, one after the other. */
export async function recoverAllRuns(
  settings: Settings,
  live: LiveRuns,
  options: RecoverAllOptions,
): Promise<RecoveredRuns> {
  const runs: Run[] = [];
  const failed: FailedRecovery[] = [];
  for (const runId of await lostRuns(storageOf(settings))) {
    if (live.find(runId) !== undefined) continue;
    try {
      const run = live.add(await recoverRun(settings, runId, options));
      run.result.catch(() => undefined); // The caller can only look at it once all are under way.
      runs.push(run);
    } catch (cause) {
      const error = failedRecovery(runId, cause);
      if (error !== undefined) failed.push({ runId, error });
    }
  }
  return { runs, failed };
}

/** The result of a run at rest, as the store has it. */
export async function storedResult(
  settings: Settings,
  runId: RunId,
): Promise<RunResult<JsonValue>> {
  const { store } = storageOf(settings);
  const found = await storedRun(store, runId);
  if (found?.recordCount === 0) throw nothingStored(runId);
  return persistedResult(await foldJournal(runId, storedLines(store, runId)));
}

/** The store of the runs. Throws `invalid_option` without one. */
export function storageOf(settings: Settings): RunStorage {
  const storage = storageIn(settings);
  if (storage !== undefined) return storage;
  throw mismatch("options.store", "a store", undefined, "Hand one to the orchestrator.");
}

/** As many as a store can have. */
const ALL_OF_THEM = 2 ** 31 - 1;

/** The runs that are open and that no process seems to lead, oldest first. Rejects with `store_failed`. */
async function lostRuns({ store, clock, staleAfterMs }: RunStorage): Promise<readonly RunId[]> {
  const open = await asked("its runs", () => store.list({ status: "open", limit: ALL_OF_THEM }));
  const nowMs = clock.nowMs();
  const lost = open.filter((run) => run.recordCount > 0 && !seemsAlive(run, nowMs, staleAfterMs));
  return lost.map(({ runId }) => runId).toReversed();
}

/** Spares the reading of a journal. The store, which has a clock of its own, decides whether the run may be claimed. */
function seemsAlive(
  { owner, heartbeatAtMs }: StoredRun,
  nowMs: number,
  staleAfterMs: number,
): boolean {
  if (owner === null || heartbeatAtMs === null) return false;
  if (owner.hostname === thisHostname() && isProcessGone(owner.processId)) return false;
  return Math.abs(nowMs - heartbeatAtMs) < staleAfterMs;
}

/** Why a lost run could not be recovered; undefined: it was not lost after all. */
function failedRecovery(runId: RunId, cause: unknown): EspalierError | undefined {
  if (!EspalierError.is(cause)) {
    const message = `Expected run ${runId} to continue, got an error: ${messageOf(cause)}. This is a fault of espalier.`;
    return new EspalierError({ code: "internal_error", message, data: { runId }, cause });
  }
  const wasNotLost = cause.code === "run_alive" || cause.code === "run_ended";
  return wasNotLost ? undefined : cause;
}

/** The context of a lost run, as the caller gives it. Rejects with `context_failed`. */
async function contextOfLost(
  { runId, agents }: RestoredRun,
  contextOf: NonNullable<RecoverAllOptions["contextOf"]>,
): Promise<unknown> {
  const [root] = agents;
  if (root === undefined) throw new Error("A run has a root.");
  const { role, task, metadata } = root;
  try {
    return await contextOf(Object.freeze({ runId, role, task: contentText(task), metadata }));
  } catch (cause) {
    const message = `Expected contextOf to give the context of run ${runId}, but it threw: ${messageOf(cause)}. The run stays as it was.`;
    throw new EspalierError({ code: "context_failed", message, data: { runId }, cause });
  }
}

/** What a store knows of a run. */
function storedRun(store: RunStore, runId: RunId): Promise<StoredRun | undefined> {
  return asked(`run ${runId}`, () => store.find(runId));
}

/** Whatever a store throws comes out as one of our errors. */
async function asked<Answer>(what: string, ask: () => Promise<Answer>): Promise<Answer> {
  try {
    return await ask();
  } catch (cause) {
    throw unread(what, cause);
  }
}

/** The journal of a run. Whatever its store throws comes out as one of our errors. */
async function* storedLines(store: RunStore, runId: RunId): AsyncGenerator<string> {
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

function nothingStored(runId: RunId): EspalierError {
  return new EspalierError({
    code: "unknown_run",
    message: `Expected a run of which something is kept, got ${runId}, whose process ended before its first record. Start it anew.`,
    data: { runId },
  });
}
