// The engine that needs nothing but the store: workers look there for runs that no process leads. For one process, or several on one database,
// in development and tests. Owns which runs are led in this process, and which are to be led again.

import { systemClock, type Clock } from "../kernel/clock.ts";
import { outsideScopes } from "../protocol/correlation.ts";
import type { RunId } from "../protocol/ids.ts";
import {
  unknownRole,
  type Engine,
  type EngineWorker,
  type RunExecutor,
  type RunTicket,
} from "./engine.ts";

/** What an engine on the store works with. */
export interface StoreEngineOptions {
  /** How often a worker looks for runs that other processes have ordered, answered or lost, in milliseconds. Default 200. */
  readonly sweepMs?: number;
  /** Default: the clock of the machine. */
  readonly clock?: Clock;
}

const DEFAULT_SWEEP_MS = 200;

/**
 * An engine on the store alone. Within a process a run is led at once; of other processes a worker learns when it next looks into the store.
 * A wait that ends at a time ends up to 30 s later if the process in which it began is gone. A role that the worker of this process does not have is
 * refused (`unknown_role`): order it from a process without a worker, if another one has it.
 */
export function storeEngine(options: StoreEngineOptions = {}): Engine {
  const { sweepMs = DEFAULT_SWEEP_MS, clock = systemClock } = options;
  return new StoreEngine(clock, sweepMs);
}

class StoreEngine implements Engine {
  readonly isExclusive = false; // Every worker finds every run.
  readonly sweepMs: number;
  readonly #clock: Clock;
  #worker: LocalWorker | undefined;

  constructor(clock: Clock, sweepMs: number) {
    this.#clock = clock;
    this.sweepMs = sweepMs;
  }

  // Not at once: who asks for it may have more to do first.
  async lead(ticket: RunTicket, atMs?: number): Promise<void> {
    const worker = this.#worker;
    if (worker === undefined || worker.version !== ticket.version) return;
    if (!worker.roles.includes(ticket.role)) throw unknownRole(ticket);
    worker.lead(ticket.runId, atMs);
  }

  async serve(executor: RunExecutor): Promise<EngineWorker> {
    const worker = new LocalWorker(executor, this.#clock, () => {
      if (this.#worker === worker) this.#worker = undefined;
    });
    this.#worker = worker;
    return worker;
  }
}

class LocalWorker implements EngineWorker {
  readonly #executor: RunExecutor;
  readonly #clock: Clock;
  readonly #closed: () => void;
  /** By run: what waits until it has settled. */
  readonly #led = new Map<RunId, { isAgain: boolean; readonly settled: Promise<void> }>();
  readonly #timers = new Set<() => void>();
  readonly #leave = new AbortController();

  constructor(executor: RunExecutor, clock: Clock, closed: () => void) {
    this.#executor = executor;
    this.#clock = clock;
    this.#closed = closed;
  }

  get roles(): readonly string[] {
    return this.#executor.roles;
  }

  get version(): string {
    return this.#executor.version;
  }

  lead(runId: RunId, atMs?: number): void {
    if (this.#leave.signal.aborted) return;
    const delayMs = atMs === undefined ? 0 : atMs - this.#clock.nowMs();
    if (delayMs > 0) return this.#later(runId, delayMs);
    const led = this.#led.get(runId);
    if (led !== undefined) led.isAgain = true;
    else this.#begin(runId);
  }

  #later(runId: RunId, delayMs: number): void {
    const stop = this.#clock.setTimer(delayMs, () => {
      this.#timers.delete(stop);
      this.lead(runId);
    });
    this.#timers.add(stop);
  }

  #begin(runId: RunId): void {
    const settled = outsideScopes(() => this.#settle(runId)).then(() => {
      const { isAgain = false } = this.#led.get(runId) ?? {};
      this.#led.delete(runId);
      if (isAgain) this.lead(runId);
    });
    this.#led.set(runId, { isAgain: false, settled });
  }

  async #settle(runId: RunId): Promise<void> {
    try {
      const settled = await this.#executor.settle(runId, this.#leave.signal);
      if (settled.type === "waiting" && settled.untilMs !== undefined)
        this.lead(runId, settled.untilMs);
    } catch {
      // It stays in the store, without a leader: a worker finds it there.
    }
  }

  async close(): Promise<void> {
    this.#leave.abort();
    for (const stop of this.#timers) stop();
    await Promise.all([...this.#led.values()].map(({ settled }) => settled));
    this.#closed();
  }
}
