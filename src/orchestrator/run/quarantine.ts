// Quarantine: decides when a run may be led again after processes that led it have died. A run that
// ends each process that leads it, a poison run, must not keep the other runs from completing.
//
// Owns the run on trial. Of the runs that crashed twice in a row, a process leads one at a time,
// until that run has completed something or rests. So the next crash counts for the run that causes
// it, and not for the runs beside it.

import { EspalierError } from "../../kernel/error.ts";
import { pendingCallsOf } from "../../agent/agent-state.ts";
import type { RunId } from "../../protocol/ids.ts";
import type { ClaimOptions, Ownership, RunStore, StoredRun } from "../../store/run-store.ts";
import type { FoldedRun } from "../durability/fold-journal.ts";
import { tried, type RunStorage } from "../durability/journal.ts";
import { newOwner } from "../durability/open-journal.ts";
import { requireStorage, type Settings } from "../tree/settings.ts";
import { postMail, makeRefusal } from "./run-mail.ts";

/** The delay after the first crash that was counted. It doubles with each further crash. */
const FIRST_DELAY_MS = 1_000;
const LAST_DELAY_MS = 60_000;
/** Crashes in a row from which on a run is led on trial. */
const CRASHES_BEFORE_TRIAL = 2;
/** How soon a run asks again whether the trial of another run is over. */
const TRIAL_LOOK_MS = 1_000;

/**
 * Returns how long the run has to wait after its last crash, in milliseconds; 0 if it is due. A run
 * that its last process has given up by itself is due at once.
 */
export function backoffMs({ owner, crashes, lastCrashAtMs }: StoredRun, nowMs: number): number {
  if (owner === null || crashes === 0 || lastCrashAtMs === null) return 0;
  const delayMs = Math.min(FIRST_DELAY_MS * 2 ** (crashes - 1), LAST_DELAY_MS);
  // A clock that was set back must not hold the run up for as long.
  const elapsedMs = Math.abs(nowMs - lastCrashAtMs);
  return Math.max(0, delayMs - elapsedMs);
}

export class Quarantine {
  #onTrial: RunId | undefined;

  /**
   * Returns how long to wait before the run may be led, in milliseconds. At 0 it may be led now, and
   * is on trial until `end` if it crashed often enough.
   */
  async delayMs(run: StoredRun, storage: RunStorage): Promise<number> {
    const { runId, crashes, owner } = run;
    const nextCrashes = owner === null ? crashes : crashes + 1;
    const delayMs = backoffMs(run, storage.clock.nowMs());
    if (delayMs > 0 || nextCrashes < CRASHES_BEFORE_TRIAL) return delayMs;
    for (;;) {
      const onTrial = this.#onTrial;
      if (onTrial === undefined || onTrial === runId) break;
      const other = await storage.store.find(onTrial);
      if (this.#onTrial !== onTrial) continue;
      if (other?.status === "open" && other.crashes > 0) return TRIAL_LOOK_MS;
      break;
    }
    this.#onTrial = runId;
    return 0;
  }

  /** The run rests, or is not led here after all. */
  end(runId: RunId): void {
    if (this.#onTrial === runId) this.#onTrial = undefined;
  }
}

/** Returns the quarantine of an orchestrator's runs, created when it is first needed. */
export function openQuarantine(runs: { quarantine: Quarantine | undefined }): Quarantine {
  return (runs.quarantine ??= new Quarantine());
}

/** The right to write a run whose former owner may have died. */
export interface ClaimedRun {
  readonly ownership: Ownership;
  /** Crashes in a row, including the one that this claim has counted. */
  readonly crashes: number;
}

/**
 * Claims a run before anything of it is read, and before any code of the user's runs: whatever kills
 * the process from here on is counted. Rejects like the store. Rejects with `crash_loop` if processes
 * have died even while they ended the run for its crashes, or more than `mostCrashes`; the run rests then.
 */
export async function takeOwnership(
  settings: Settings,
  runId: RunId,
  how: Pick<ClaimOptions, "takeOver" | "isOwnerLost">,
  mostCrashes = settings.maxCrashes,
): Promise<ClaimedRun> {
  const { store, clock, staleAfterMs } = requireStorage(settings);
  const { takeOver = false, isOwnerLost = false } = how;
  const claim = { owner: newOwner(), staleAfterMs, takeOver, isOwnerLost };
  // If the acknowledgement is lost, this process owns the run all the same, and no other does.
  const ownership = await tried(clock, () => store.claim(runId, claim));
  try {
    const { crashes = 0 } = (await store.find(runId)) ?? {};
    if (crashes <= mostCrashes) return { ownership, crashes };
    const cause = makeCrashLoopError(runId, crashes);
    await layToRest(store, ownership, cause);
    throw cause;
  } catch (cause) {
    if (!isCrashLoop(cause))
      await tried(clock, () => store.release(ownership, "open")).catch(() => undefined);
    throw cause;
  }
}

/** Puts on record why the run cannot be led. The run rests until something is posted to it. */
export async function layToRest(
  store: RunStore,
  ownership: Ownership,
  cause: EspalierError,
): Promise<void> {
  const lastPost = await postMail(store, ownership.runId, makeRefusal(cause));
  await store.release(ownership, "paused", lastPost);
}

export function isCrashLoop(cause: unknown): boolean {
  return EspalierError.is(cause) && cause.code === "crash_loop";
}

/** How many of the calls under way an error names. */
const NAMED_CALLS = 3;

/**
 * Returns the error of a run that ends the processes that lead it. `folded`: the run, if it fails.
 * Without it the run rests, and may be tried again.
 */
export function makeCrashLoopError(
  runId: RunId,
  crashes: number,
  folded?: FoldedRun,
): EspalierError {
  const calls = (folded?.run.agents ?? []).flatMap(({ agentPath, state }) =>
    pendingCallsOf(state).map(({ toolName }) => `${toolName} of ${agentPath}`),
  );
  // Those of the deepest agents first: they are under way in the calls of their parents.
  const named = [...new Set(calls.toReversed())].slice(0, NAMED_CALLS);
  const where = named.length === 0 ? "" : ` Calls in flight: ${named.join(", ")}.`;
  const remedy = folded === undefined ? "resume the run" : "start a new run";
  const message = `Cannot continue run ${runId}: ${crashes} processes in a row died while running it, without completing a step or a tool call.${where} Find the cause of the crash, such as process.exit, lack of memory or a native crash. Fix it and ${remedy}.`;
  return new EspalierError({ code: "crash_loop", message, data: { runId, crashes, calls: named } });
}
