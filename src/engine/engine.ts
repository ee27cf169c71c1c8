// The port to engines: what sees to it that some process leads each run that has something to do, until it rests. An engine knows ids, roles
// and versions; the order of a run, its history, its mail and its result are in the store.
//
// G1. What was led, and has not settled, is led again: at least once, anywhere. Leading a run that has nothing to do is harmless.
// G2. Of one run, one `settle` is under way at a time as far as the engine can tell. Where it errs the store decides: the last to claim a run
//     writes it.

import { EspalierError } from "../kernel/error.ts";
import type { RunId } from "../protocol/ids.ts";

/** A run that has something to do, and who can do it. At most 1 KiB as JSON. */
export interface RunTicket {
  readonly runId: RunId;
  /** The role at its root: only workers that have it are of use. */
  readonly role: string;
  /** The version of the roles that it was ordered for: a worker of another one leaves it alone. */
  readonly version: string;
}

/** What came of leading a run. */
export type ExecutorResult =
  /** Nothing is left to be done, or what is wrong with the run is on record: it would be wrong again. */
  | { readonly type: "ended" }
  /** It rests until something is in its mailbox: the process that posts asks the engine to lead it. `untilMs`: or until then, since the epoch. */
  | { readonly type: "waiting"; readonly untilMs?: number };

/** What a worker hands to its engine: leads one run from wherever it is. */
export interface RunExecutor {
  /** The names of the roles that it has. */
  readonly roles: readonly string[];
  /** Of the orchestrator's roles. */
  readonly version: string;
  /** So many runs are led at once at most: more of them wait in `settle`. */
  readonly maxRuns: number;
  /**
   * Resolves once the run rests. When `releaseSignal` is aborted it gives the run up within the grace period of the worker, and rejects. Rejects with
   * what may be gone at another time or in another process (`run_released`, `run_active`, `run_fenced`, `store_failed`): the engine has it led
   * again, later. Never rejects with anything else.
   */
  execute(runId: RunId, releaseSignal: AbortSignal): Promise<ExecutorResult>;
}

/** A worker that serves. */
export interface EngineWorker {
  /** Takes nothing more, aborts `releaseSignal` of all that is under way, and resolves when that has settled. */
  close(): Promise<void>;
}

/** An engine, as its user makes it and hands it to `orchestrator.work` and to `RunClient`. */
export interface Engine {
  /**
   * Has the run led: soon, or at `atMs` (since the epoch). Resolves once the engine will not forget it. The same ticket once more while the
   * first waits may count as one; while its run is led it counts as another, since what it came for may not have been seen.
   *
   * Rejects with `unknown_role` if the engine knows that no worker ever had the role in this version, and with `engine_failed`.
   */
  enqueue(ticket: RunTicket, atMs?: number): Promise<void>;
  /** Leads runs with `executor` until it is closed. Rejects with `invalid_option` or `engine_failed` if it cannot. */
  serve(executor: RunExecutor): Promise<EngineWorker>;
  /**
   * False: it may hand one run to several workers at once, so that a run which another process seems to lead is left to that one
   * (`settle` rejects with `run_active`) until it is lost. Default true: the engine has given up the former worker of a run that it hands out,
   * and the run is taken over after the `takeOverAfterMs` of the worker.
   */
  readonly exclusive?: boolean;
  /** How often workers have to search the store for runs of which the engine does not notify them, in milliseconds. Default 30,000. */
  readonly sweepIntervalMs?: number;
  /** Releases connections. Default: there are none. */
  close?(): Promise<void>;
}

/** A role that no worker of an engine ever had. */
export function unknownRole({ role, version }: RunTicket): EspalierError {
  return new EspalierError({
    code: "unknown_role",
    message: `Cannot start the run: no worker has served the role ${JSON.stringify(role)} in version ${version}. Start a worker with this role and version first, or correct the name.`,
    data: { role, version },
  });
}
