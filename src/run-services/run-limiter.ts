// Limits the concurrent model calls and tool bodies of a run.
//
// S1. Only leaf effects enter. If agents that wait for their children held slots, a tree as deep as
// the number of slots would deadlock.

import type { AnySignal } from "../kernel/cancel-signal.ts";
import { Semaphore, type Release, type WorkCount } from "../kernel/semaphore.ts";
import type { Throttle } from "../kernel/throttle.ts";

/**
 * Maximum number of operations that one run executes at the same time, over all its agents.
 *
 * @example
 * ```ts
 * const orchestrator = new Orchestrator({ concurrency: { modelCalls: 10, toolCalls: 50 } });
 * ```
 */
export interface Concurrency {
  /**
   * Maximum number of concurrent model calls.
   *
   * @default 1_024
   */
  readonly modelCalls: number;
  /**
   * Maximum number of concurrent executions of tools. Delegations do not count.
   *
   * @default 1_024
   */
  readonly toolCalls: number;
}

export const DEFAULT_CONCURRENCY: Concurrency = Object.freeze({
  modelCalls: 1_024,
  toolCalls: 1_024,
});

export class RunLimiter {
  readonly #throttle: Throttle;
  readonly #models: Semaphore;
  readonly #tools: Semaphore;

  /**
   * `throttle` is shared by all runs of the orchestrator, so that a thousand simultaneous calls do
   * not block the event loop.
   */
  constructor({ modelCalls, toolCalls }: Concurrency, throttle: Throttle, count?: WorkCount) {
    this.#throttle = throttle;
    this.#models = new Semaphore(modelCalls, count);
    this.#tools = new Semaphore(toolCalls, count);
  }

  /** Prevents further calls from starting until `resume`. */
  pause(): void {
    this.#models.pause();
    this.#tools.pause();
  }

  resume(): void {
    this.#models.resume();
    this.#tools.resume();
  }

  /**
   * Returns the slot of a model call, synchronously if one is free. Returns `undefined` if `signal`
   * is aborted first.
   */
  acquireModelSlot(signal: AnySignal): Acquired {
    const turn = this.#throttle.turn();
    if (turn !== undefined) return turn.then(() => this.#models.acquire(signal));
    return this.#models.acquire(signal);
  }

  /** Returns the slot of a tool's execution, like `acquireModelSlot`, but without the throttle. */
  acquireToolSlot(signal: AnySignal): Acquired {
    return this.#tools.acquire(signal);
  }
}

type Acquired = Release | undefined | Promise<Release | undefined>;
