// Port for engines: an engine makes sure that some worker executes each run that has work to do,
// until the run has ended or is paused. An engine knows ids, roles and versions. The request,
// history, mail and result of a run are in the store.
//
// An enqueued run whose `execute` has not resolved is executed again: at least once, on any worker.
// Executing a run without work is harmless.
//
// As far as the engine knows, at most one `execute` of a run is in progress. If the engine errs,
// the store decides: the last process to claim the run writes it.

import { EspalierError } from "../kernel/error.ts";
import type { RunId } from "../protocol/ids.ts";

/**
 * Reference to a run that an engine passes to a worker. At most 1 KiB as JSON.
 *
 * @example
 * ```ts
 * const ticket: RunTicket = { runId: toRunId("order-4711"), role: "buyer", version: "v3" };
 * ```
 */
export interface RunTicket {
  readonly runId: RunId;
  /** Name of the root's role. Only workers that have the role can execute the run. */
  readonly role: string;
  /** Version of the roles. Only workers with the same `rolesVersion` execute the run. */
  readonly version: string;
}

/**
 * Result of executing a run once.
 *
 * @example
 * ```ts
 * function describe(result: ExecutorResult): string {
 *   if (result.type === "ended") return "remove the ticket";
 *   if (result.untilMs === undefined) return "wait for the next enqueue";
 *   return `execute again at ${new Date(result.untilMs).toISOString()}`;
 * }
 * ```
 */
export type ExecutorResult =
  /** Nothing is left to do: the run has ended, or its lasting error is recorded. */
  | { readonly type: "ended" }
  /**
   * The run is paused until the next `enqueue`, or until `untilMs`, in milliseconds since the
   * epoch.
   */
  | { readonly type: "waiting"; readonly untilMs?: number };

/**
 * Executor of runs that a worker passes to `Engine.serve`.
 *
 * @example
 * ```ts
 * async function execute(executor: RunExecutor, { runId }: RunTicket): Promise<void> {
 *   const result = await executor.execute(runId, AbortSignal.timeout(3_600_000));
 *   if (result.type === "waiting") console.log("paused until", result.untilMs ?? "it is enqueued");
 * }
 * ```
 */
export interface RunExecutor {
  /** Names of the roles that the worker has. */
  readonly roles: readonly string[];
  /** Version of the roles. */
  readonly version: string;
  /** Maximum number of concurrent runs. Further calls of `execute` wait. */
  readonly maxRuns: number;
  /**
   * Executes a run until it has ended or is paused. After `releaseSignal` is aborted, the executor
   * releases the run within the worker's `graceMs`, and rejects. Rejects with transient errors
   * only: the engine must execute the run again later, here or on another worker.
   *
   * @throws EspalierError `run_released` if the run was released.
   * @throws EspalierError `run_active` if another process owns the run.
   * @throws EspalierError `run_fenced` if another process has taken the run over.
   * @throws EspalierError `store_failed` if the store fails.
   */
  execute(runId: RunId, releaseSignal: AbortSignal): Promise<ExecutorResult>;
}

/** Worker of an engine that accepts runs. `Engine.serve` returns it. */
export interface EngineWorker {
  /**
   * Stops accepting runs, aborts the `releaseSignal` of every current `execute` call, and waits for
   * these calls.
   */
  close(): Promise<void>;
}

/**
 * Port for engines: job queues that distribute runs over workers. Pass an engine to
 * `orchestrator.startWorker` and `RunClient`. To implement one, test it with `engineContract` of
 * `espalier/testing`.
 *
 * @example
 * ```ts
 * const engine: Engine = storeEngine();
 * const worker = await orchestrator.startWorker(engine);
 * const client = new RunClient({ store, engine });
 * ```
 */
export interface Engine {
  /**
   * Queues a run for execution as soon as possible, or at `atMs` in milliseconds since the epoch.
   * Resolves once the engine has persisted the ticket. A ticket that is queued already may be
   * merged with an equal one. If the run is executing, it must be executed once more afterwards.
   *
   * @throws EspalierError `unknown_role` if no worker ever had the role in this version.
   * @throws EspalierError `engine_failed` if the engine does not accept the ticket.
   */
  enqueue(ticket: RunTicket, atMs?: number): Promise<void>;
  /**
   * Executes queued runs with `executor` until the returned worker is closed.
   *
   * @throws EspalierError `invalid_argument` if the engine is not set up to serve.
   * @throws EspalierError `engine_failed` if the engine cannot be reached.
   */
  serve(executor: RunExecutor): Promise<EngineWorker>;
  /**
   * Whether the engine assigns each run to one worker at a time. If `true`, a worker takes a run
   * over from its previous owner after `takeOverAfterMs`. If `false`, several workers may get the
   * same run, and `execute` rejects with `run_active` while another process owns it.
   *
   * @default true
   */
  readonly exclusive?: boolean;
  /**
   * Interval in milliseconds at which workers search the store for runs that the engine does not
   * report.
   *
   * @default 30_000
   */
  readonly sweepIntervalMs?: number;
  /** Closes connections. Absent if the engine has none. */
  close?(): Promise<void>;
}

/** Returns the error for a role that no worker of an engine ever had. */
export function createUnknownRoleError({ role, version }: RunTicket): EspalierError {
  return new EspalierError({
    code: "unknown_role",
    message: `Cannot start the run: no worker has served the role ${JSON.stringify(role)} in version ${version}. Start a worker with this role and version first, or correct the name.`,
    data: { role, version },
  });
}
