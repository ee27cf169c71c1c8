// Quarantine: decides when a run may be executed again after processes that executed it have
// crashed. A poison run, which crashes every process that executes it, must not keep the other runs
// from completing.
//
// Owns the run on trial. Of the runs that crashed twice in a row, a process executes one at a time,
// until that run has completed a step or has settled. So the next crash counts for the run that
// causes it, and not for the runs beside it.

import { EspalierError } from "../../kernel/error.ts";
import { getPendingCalls } from "../../agent/agent-state.ts";
import type { RunId } from "../../protocol/ids.ts";
import type { ClaimOptions, Ownership, RunStore, StoredRun } from "../../store/run-store.ts";
import type { FoldedRun } from "../durability/fold-journal.ts";
import { retry, type RunStorage } from "../durability/journal.ts";
import { createOwner } from "../durability/open-journal.ts";
import { requireStorage, type Settings } from "../tree/orchestrator-settings.ts";
import { sendMail, createRefusal } from "./run-mail.ts";

/** Delay after the first counted crash. It doubles with each further crash. */
const FIRST_DELAY_MS = 1_000;
const LAST_DELAY_MS = 60_000;
/** Crashes in a row after which a run is executed on trial. */
const CRASHES_BEFORE_TRIAL = 2;
/** Interval at which a run checks whether the trial of another run has ended. */
const TRIAL_LOOK_MS = 1_000;

/**
 * Returns the delay after the last crash of the run in milliseconds, or 0 if the run is due. A
 * released run is due at once.
 */
export function backoffMs(
  { owner, crashCount: crashes, lastCrashAtMs }: StoredRun,
  nowMs: number,
): number {
  if (owner === null || crashes === 0 || lastCrashAtMs === null) return 0;
  const delayMs = Math.min(FIRST_DELAY_MS * 2 ** (crashes - 1), LAST_DELAY_MS);
  // Prevents a clock that was set back from delaying the run by as much.
  const elapsedMs = Math.abs(nowMs - lastCrashAtMs);
  return Math.max(0, delayMs - elapsedMs);
}

export class Quarantine {
  #onTrial: RunId | undefined;

  /**
   * Returns the delay before the run may be executed, in milliseconds. At 0, it may be executed
   * now, and is on trial until `end` if it crashed often enough.
   */
  async computeDelay(run: StoredRun, storage: RunStorage): Promise<number> {
    const { runId, crashCount: crashes, owner, isQueued } = run;
    const nextCrashes = owner === null || isQueued ? crashes : crashes + 1;
    const delayMs = backoffMs(run, storage.clock.nowMs());
    if (delayMs > 0 || nextCrashes < CRASHES_BEFORE_TRIAL) return delayMs;
    for (;;) {
      const onTrial = this.#onTrial;
      if (onTrial === undefined || onTrial === runId) break;
      const other = await storage.store.find(onTrial);
      if (this.#onTrial !== onTrial) continue;
      if (other?.status === "open" && other.crashCount > 0) return TRIAL_LOOK_MS;
      break;
    }
    this.#onTrial = runId;
    return 0;
  }

  /** Records that the run has settled, or is not executed here after all. */
  end(runId: RunId): void {
    if (this.#onTrial === runId) this.#onTrial = undefined;
  }
}

/** Returns the quarantine of an orchestrator's runs, created when it is first needed. */
export function openQuarantine(runs: { quarantine: Quarantine | undefined }): Quarantine {
  runs.quarantine ??= new Quarantine();
  return runs.quarantine;
}

/** Ownership of a run whose former owner may have crashed. */
export interface ClaimedRun {
  readonly ownership: Ownership;
  /** Consecutive crashes, including the crash that this claim has counted. */
  readonly crashes: number;
}

/**
 * Claims a run before it is read and before user code runs, so that every crash from here on is
 * counted. Rejects like the store. Rejects with `crash_loop`, and pauses the run, if processes
 * crashed even while they failed the run, or more often than `mostCrashes`.
 */
export async function takeOwnership(
  settings: Settings,
  runId: RunId,
  options: Pick<ClaimOptions, "takeOver" | "ownerLost">,
  mostCrashes = settings.maxCrashes,
): Promise<ClaimedRun> {
  const { store, clock, staleAfterMs } = requireStorage(settings);
  const { takeOver = false, ownerLost = false } = options;
  const claim = { owner: createOwner(), staleAfterMs, takeOver, ownerLost };
  // If the acknowledgement is lost, this process owns the run nevertheless.
  const ownership = await retry(clock, () => store.claim(runId, claim));
  try {
    const { crashCount: crashes = 0 } = (await store.find(runId)) ?? {};
    if (crashes <= mostCrashes) return { ownership, crashes };
    const cause = createCrashLoopError(runId, crashes);
    await pauseUntilMail(store, ownership, cause);
    throw cause;
  } catch (cause) {
    if (!isCrashLoop(cause))
      await retry(clock, () => store.release(ownership, "open")).catch(() => undefined);
    throw cause;
  }
}

/** Records why the run cannot be executed, and pauses it until mail arrives. */
export async function pauseUntilMail(
  store: RunStore,
  ownership: Ownership,
  cause: EspalierError,
): Promise<void> {
  const lastMail = await sendMail(store, ownership.runId, createRefusal(cause));
  await store.release(ownership, "paused", lastMail);
}

export function isCrashLoop(cause: unknown): boolean {
  return EspalierError.is(cause) && cause.code === "crash_loop";
}

/** Number of calls in progress that an error names. */
const NAMED_CALLS = 3;

/**
 * Returns the error of a run that crashes the processes that execute it. `folded` is the run if it
 * fails. Without it, the run is paused and may be tried again.
 */
export function createCrashLoopError(
  runId: RunId,
  crashes: number,
  folded?: FoldedRun,
): EspalierError {
  const calls = (folded?.run.agents ?? []).flatMap(({ agentPath, state }) =>
    getPendingCalls(state).map(({ toolName }) => `${toolName} of ${agentPath}`),
  );
  // Calls of the deepest agents first: they run within the calls of their parents.
  const named = [...new Set(calls.toReversed())].slice(0, NAMED_CALLS);
  const where = named.length === 0 ? "" : ` Calls in flight: ${named.join(", ")}.`;
  const remedy = folded === undefined ? "resume the run" : "start a new run";
  const message = `Cannot continue run ${runId}: ${crashes} processes in a row died while running it, without completing a step or a tool call.${where} Find the cause of the crash, such as process.exit, lack of memory or a native crash. Fix it and ${remedy}.`;
  return new EspalierError({ code: "crash_loop", message, data: { runId, crashes, calls: named } });
}
