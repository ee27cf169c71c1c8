// Recovers all lost runs of a store: healthy ones first, those that crashed before later and one by one.

import { EspalierError, messageOf } from "../../kernel/error.ts";
import { sleep } from "../../kernel/cancel.ts";
import type { RunId } from "../../protocol/ids.ts";
import { runEnded, unknownRun } from "../../store/store-errors.ts";
import { requireStorage, type Settings } from "../tree/settings.ts";
import { continuedByMail } from "./continue-by-mail.ts";
import type { LiveRun } from "./live-run.ts";
import type { LiveRuns } from "./live-runs.ts";
import { quarantineIn } from "./quarantine.ts";
import { assertFree, lostRuns, recoverRun, storedRun } from "./recover.ts";
import type { Run } from "./run.ts";
import type { RecoverAllOptions } from "./start-options.ts";

/** What became of the runs of a store that were lost. */
export interface RecoveredRuns<out Output = unknown> {
  /** Those that are under way again: the ones with the fewest crashes first, and the oldest of these. */
  readonly runs: readonly Run<Output>[];
  /** Those that crashed before and are recovered later, while the orchestrator is open. */
  readonly delayed: readonly DelayedRecovery<Output>[];
  /** Those that could not be recovered. They stay as they were. */
  readonly failed: readonly FailedRecovery[];
}

/** A run that could not be recovered. */
export interface FailedRecovery {
  readonly runId: RunId;
  readonly error: EspalierError;
}

/** A run that is recovered later, since processes that led it have died. */
export interface DelayedRecovery<out Output = unknown> {
  readonly runId: RunId;
  /** How often in a row that was counted. */
  readonly crashes: number;
  /** When the run is recovered, in milliseconds since the epoch; later, while another run is on trial. */
  readonly dueAtMs: number;
  /**
   * Resolves with the run once it is under way. Rejects with what `recover` rejects with, and with
   * `invalid_state` once the orchestrator was closed. Nobody has to await it.
   */
  readonly run: Promise<Run<Output>>;
}

/** See `Orchestrator.recoverAll`. */
export async function recoverAllRuns(
  settings: Settings,
  live: LiveRuns,
  options: RecoverAllOptions,
): Promise<RecoveredRuns> {
  const storage = requireStorage(settings);
  const runs: Run[] = [];
  const delayed: DelayedRecovery[] = [];
  const failed: FailedRecovery[] = [];
  const recovering = new Recovering(settings, live, options);
  for (const found of await lostRuns(storage)) {
    const { runId, recordCount, crashes } = found;
    if (recordCount === 0 || live.find(runId) !== undefined) continue;
    const delayMs = await quarantineIn(live).delayMs(found, storage);
    if (delayMs > 0) {
      const dueAtMs = Math.ceil(storage.clock.nowMs() + delayMs);
      const run = recovering.later(runId, delayMs);
      run.catch(() => undefined); // The caller need not look at it.
      delayed.push({ runId, crashes, dueAtMs, run });
      continue;
    }
    try {
      runs.push(await recovering.now(runId));
    } catch (cause) {
      const error = failedRecovery(runId, cause);
      if (error !== undefined) failed.push({ runId, error });
    }
  }
  return { runs, delayed, failed };
}

class Recovering {
  readonly #settings: Settings;
  readonly #live: LiveRuns;
  readonly #options: RecoverAllOptions;

  constructor(settings: Settings, live: LiveRuns, options: RecoverAllOptions) {
    this.#settings = settings;
    this.#live = live;
    this.#options = options;
  }

  async now(runId: RunId): Promise<LiveRun> {
    const live = this.#live;
    try {
      const how = { contextOf: this.#options.context };
      const recovered = await recoverRun(this.#settings, runId, how);
      const isClosed = (): boolean => live.isClosed;
      const run = live.add(continuedByMail(this.#settings, recovered, { options: how, isClosed }));
      run.result.catch(() => undefined); // The caller can only look at it once all are under way.
      return run;
    } catch (cause) {
      quarantineIn(live).end(runId);
      throw cause;
    }
  }

  async later(runId: RunId, firstDelayMs: number): Promise<LiveRun> {
    const live = this.#live;
    const storage = requireStorage(this.#settings);
    let delayMs = firstDelayMs;
    while (delayMs > 0) {
      await sleep(storage.clock, delayMs, live.closing);
      live.assertOpen();
      const found = await storedRun(storage.store, runId);
      if (found === undefined) throw unknownRun(runId);
      if (found.status !== "open") throw runEnded(runId);
      assertFree(found, storage); // Another process may have been faster.
      delayMs = await quarantineIn(live).delayMs(found, storage);
    }
    return await live.during(() => this.now(runId));
  }
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
