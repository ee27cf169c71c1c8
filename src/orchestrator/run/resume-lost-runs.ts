// Recovers all lost runs of a store: runs without crashes first, then the others one by one, after
// a delay.

import { checkKeys, checkText } from "../../kernel/argument-checks.ts";
import { EspalierError, getErrorMessage } from "../../kernel/error.ts";
import { omitUndefined } from "../../kernel/json.ts";
import { sleep } from "../../kernel/cancel-signal.ts";
import type { RunId } from "../../protocol/ids.ts";
import { createRunEndedError, createUnknownRunError } from "../../store/store-errors.ts";
import { requireStorage } from "../tree/orchestrator-settings.ts";
import type { LiveRuns } from "./live-runs.ts";
import { openQuarantine } from "./quarantine.ts";
import {
  assertFree,
  readRun,
  findLostRuns,
  prepareRecovery,
  findStoredRun,
} from "./recover-run.ts";
import type { RunHandle } from "./run-handle.ts";
import { sendMail } from "./run-mail.ts";
import type { Run } from "./run.ts";
import type { ResumeLostRunsOptions } from "./run-options.ts";

/**
 * Result of `orchestrator.resumeLostRuns`.
 *
 * @example
 * ```ts
 * const { runs, delayed, failed } = await orchestrator.resumeLostRuns();
 * console.log(`${runs.length} runs resumed, ${delayed.length} later.`);
 * for (const { runId, error } of failed) console.error(runId, error.message);
 * ```
 */
export interface ResumedRuns<out Output = unknown> {
  /** Resumed runs: those with the fewest crashes first, and among these the oldest. */
  readonly runs: readonly Run<Output>[];
  /**
   * Runs whose processes crashed repeatedly. They are resumed later, while the orchestrator is
   * open.
   */
  readonly delayed: readonly {
    readonly runId: RunId;
    /** Number of crashes in a row. */
    readonly crashCount: number;
    /**
     * Time at which the run is resumed, in milliseconds since the epoch. It is resumed later if
     * another run is on trial then.
     */
    readonly dueAtMs: number;
    /**
     * Resolves with the run once it is resumed. Need not be awaited. Rejects with the errors of
     * `resume`, and with `invalid_state` once the orchestrator is closed.
     */
    readonly run: Promise<Run<Output>>;
  }[];
  /** Runs that could not be resumed, with the error. They stay as they were. */
  readonly failed: readonly { readonly runId: RunId; readonly error: EspalierError }[];
}

/** See `Orchestrator.resumeLostRuns`. */
export async function resumeLostRuns(
  live: LiveRuns,
  options: ResumeLostRunsOptions,
): Promise<ResumedRuns> {
  const storage = requireStorage(live.settings);
  const runs: Run[] = [];
  const delayed: ResumedRuns["delayed"][number][] = [];
  const failed: ResumedRuns["failed"][number][] = [];
  for (const lostRun of await findLostRuns(storage)) {
    const { runId, recordCount, crashCount } = lostRun;
    if (recordCount === 0 || live.find(runId) !== undefined) continue;
    const delayMs = await openQuarantine(live).computeDelay(lostRun, storage);
    if (delayMs > 0) {
      const dueAtMs = Math.ceil(storage.clock.nowMs() + delayMs);
      const run = recoverLater(live, { runId, delayMs }, options);
      run.catch(() => undefined); // The caller may never read it.
      delayed.push({ runId, crashCount, dueAtMs, run });
      continue;
    }
    try {
      runs.push(await recoverNow(live, runId, options));
    } catch (cause) {
      const error = createRecoveryError(runId, cause);
      if (error !== undefined) failed.push({ runId, error });
    }
  }
  return { runs, delayed, failed };
}

async function recoverNow(
  live: LiveRuns,
  runId: RunId,
  { context: contextOf }: ResumeLostRunsOptions,
): Promise<RunHandle> {
  try {
    const prepared = await prepareRecovery(live.settings, runId, omitUndefined({ contextOf }));
    const run = live.start(prepared, undefined, omitUndefined({ contextOf }));
    run.result.catch(() => undefined); // The caller can read the result only once all recoveries are in progress.
    return run;
  } catch (cause) {
    openQuarantine(live).end(runId);
    throw cause;
  }
}

async function recoverLater(
  live: LiveRuns,
  { runId, delayMs: firstMs }: { readonly runId: RunId; readonly delayMs: number },
  options: ResumeLostRunsOptions,
): Promise<RunHandle> {
  const storage = requireStorage(live.settings);
  for (let delayMs = firstMs; delayMs > 0;) {
    await sleep(storage.clock, delayMs, live.closing);
    live.assertOpen();
    const stored = await findStoredRun(storage.store, runId);
    if (stored === undefined) throw createUnknownRunError(runId);
    if (stored.status !== "open") throw createRunEndedError(runId);
    assertFree(stored, storage); // Another process may have been faster.
    delayMs = await openQuarantine(live).computeDelay(stored, storage);
  }
  return await live.during(() => recoverNow(live, runId, options));
}

/**
 * Returns the reason why a lost run could not be recovered. `undefined` if it was not lost after
 * all.
 */
function createRecoveryError(runId: RunId, cause: unknown): EspalierError | undefined {
  if (!EspalierError.is(cause)) {
    const message = `Expected run ${runId} to continue, got an error: ${getErrorMessage(cause)}. This is a bug in espalier.`;
    return new EspalierError({ code: "internal_error", message, data: { runId }, cause });
  }
  const wasNotLost = cause.code === "run_active" || cause.code === "run_ended";
  return wasNotLost ? undefined : cause;
}

/** Cancels a run; see `Orchestrator.cancel`. */
export async function cancelRun(
  live: LiveRuns,
  runId: RunId,
  options: { readonly message?: string; readonly context?: unknown },
): Promise<void> {
  checkKeys("cancel options", options, ["message", "context"]);
  const { message = "The caller cancelled the run.", context } = options;
  checkText("message", message);
  const storage = requireStorage(live.settings);
  const { store } = storage;
  const here = live.find(runId);
  if (here !== undefined) {
    await here.cancel(message);
    return;
  }
  const number = await sendMail(store, runId, { type: "cancel", message });
  const stored = await findStoredRun(store, runId);
  // The run has no records. Its mail cancels it before it begins.
  if (stored === undefined || stored.recordCount === 0) return;
  try {
    assertFree(stored, storage); // Checked first, since a run of another process needs no roles here.
    const run = await live.during(async () =>
      live.start(await prepareRecovery(live.settings, runId, { context }), undefined),
    );
    await run.settled;
  } catch (cause) {
    const code = EspalierError.is(cause) ? cause.code : undefined;
    if (code === "run_active") return;
    if (code !== "run_ended") throw cause;
    const { folded } = await readRun(storage, runId);
    if (!folded.posts.includes(number)) throw cause; // Otherwise another process has cancelled the run in the meantime.
  }
}
