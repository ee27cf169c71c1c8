// Engine that needs only the store: workers search the store for runs without an owner. For one
// process, or several on one database, in development and tests. Owns which runs this process
// executes, and which are to be executed again.

import { checkAmount, checkKeys } from "../kernel/argument-checks.ts";
import { systemClock, type Clock } from "../kernel/clock.ts";
import { runOutsideScopes } from "../protocol/correlation.ts";
import type { RunId } from "../protocol/ids.ts";
import {
  createUnknownRoleError,
  type Engine,
  type EngineWorker,
  type RunExecutor,
  type RunTicket,
} from "./engine.ts";

/** Options of `storeEngine`. */
export interface StoreEngineOptions {
  /**
   * Interval in milliseconds at which a worker polls the store for runs that other processes have
   * started, answered or lost.
   *
   * @default 200
   */
  readonly sweepIntervalMs?: number;
  /**
   * Clock for timers.
   *
   * @default the system clock
   */
  readonly clock?: Clock;
}

const DEFAULT_SWEEP_MS = 200;

/**
 * Creates an engine that needs only the store. Suits one machine, development and tests. A run that
 * is started in the worker's process begins at once; runs of other processes are found by polling.
 * A timed wait may end up to 30 seconds late if the process that began it is gone. In a process
 * with workers, a role that none of them ever had is rejected with `unknown_role`.
 *
 * @throws EspalierError `invalid_argument` for an option.
 *
 * @example
 * ```ts
 * const engine = storeEngine();
 * const worker = await orchestrator.startWorker(engine);
 * const client = new RunClient({ store, engine });
 * ```
 */
export function storeEngine(options: StoreEngineOptions = {}): Engine {
  checkKeys("storeEngine", options, ["sweepIntervalMs", "clock"]);
  const { sweepIntervalMs = DEFAULT_SWEEP_MS, clock = systemClock } = options;
  checkAmount("storeEngine.sweepIntervalMs", sweepIntervalMs);
  return new StoreEngine(clock, sweepIntervalMs);
}

class StoreEngine implements Engine {
  readonly exclusive = false; // Every worker finds every run.
  readonly sweepIntervalMs: number;
  readonly #clock: Clock;
  readonly #workers = new Set<LocalWorker>();
  /** Roles that workers have or had, by version. */
  readonly #roles = new Map<string, ReadonlySet<string>>();

  constructor(clock: Clock, sweepIntervalMs: number) {
    this.#clock = clock;
    this.sweepIntervalMs = sweepIntervalMs;
  }

  // Asynchronous, since the caller may have more to do first.
  async enqueue(ticket: RunTicket, atMs?: number): Promise<void> {
    const { runId, role, version } = ticket;
    const workers = [...this.#workers].filter(({ executor }) => executor.version === version);
    if (workers.length > 0 && this.#roles.get(version)?.has(role) !== true)
      throw createUnknownRoleError(ticket);
    const able = workers.filter(({ executor }) => executor.roles.includes(role));
    const worker = able.find((candidate) => candidate.leads(runId)) ?? findMostRoom(able);
    worker?.lead(runId, atMs);
  }

  async serve(executor: RunExecutor): Promise<EngineWorker> {
    const { roles, version } = executor;
    this.#roles.set(version, new Set([...(this.#roles.get(version) ?? []), ...roles]));
    const worker = new LocalWorker(executor, this.#clock, () => this.#workers.delete(worker));
    this.#workers.add(worker);
    return worker;
  }
}

function findMostRoom(workers: readonly LocalWorker[]): LocalWorker | undefined {
  return workers.toSorted((left, right) => right.room - left.room)[0];
}

class LocalWorker implements EngineWorker {
  readonly executor: RunExecutor;
  readonly #clock: Clock;
  readonly #closing: () => void;
  /** Executions in progress, by run. */
  readonly #led = new Map<RunId, { isAgain: boolean; readonly settled: Promise<void> }>();
  /** Earliest time at which a run is to be executed, by run. */
  readonly #timers = new Map<RunId, { readonly atMs: number; readonly stop: () => void }>();
  readonly #releaseController = new AbortController();

  constructor(executor: RunExecutor, clock: Clock, closing: () => void) {
    this.executor = executor;
    this.#clock = clock;
    this.#closing = closing;
  }

  /** Number of free slots. Below 0, the number of runs that wait for one. */
  get room(): number {
    return this.executor.maxRuns - this.#led.size;
  }

  /** Returns true if the worker executes the run now. */
  leads(runId: RunId): boolean {
    return this.#led.has(runId);
  }

  lead(runId: RunId, atMs?: number): void {
    if (this.#releaseController.signal.aborted) return;
    if (atMs !== undefined && atMs > this.#clock.nowMs()) return this.#schedule(runId, atMs);
    const led = this.#led.get(runId);
    if (led !== undefined) led.isAgain = true;
    else this.#begin(runId);
  }

  #schedule(runId: RunId, atMs: number): void {
    const known = this.#timers.get(runId);
    if (known !== undefined && known.atMs <= atMs) return;
    known?.stop();
    const stop = this.#clock.setTimer(atMs - this.#clock.nowMs(), () => {
      this.#timers.delete(runId);
      this.lead(runId);
    });
    this.#timers.set(runId, { atMs, stop });
  }

  #begin(runId: RunId): void {
    const settled = runOutsideScopes(() => this.#settle(runId));
    this.#led.set(runId, { isAgain: false, settled });
  }

  async #settle(runId: RunId): Promise<void> {
    try {
      const settled = await this.executor.execute(runId, this.#releaseController.signal);
      if (settled.type === "waiting" && settled.untilMs !== undefined)
        this.lead(runId, settled.untilMs);
    } catch {
      // The run stays in the store without an owner, where a worker finds it.
    }
    const isAgain = this.#led.get(runId)?.isAgain === true;
    this.#led.delete(runId);
    if (isAgain) this.lead(runId);
  }

  async close(): Promise<void> {
    this.#closing(); // Runs that arrive from now on are for other workers.
    this.#releaseController.abort();
    for (const { stop } of this.#timers.values()) stop();
    await Promise.all([...this.#led.values()].map(({ settled }) => settled));
  }
}
