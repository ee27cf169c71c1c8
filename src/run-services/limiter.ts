// How many model calls and tool bodies of one run are under way at once.
// S1: only leaf effects enter; an agent that waits for its children would deadlock a tree as deep as the slots are few.

import type { AnySignal } from "../kernel/cancel.ts";
import { Semaphore, type Release } from "../kernel/semaphore.ts";
import type { Throttle } from "../kernel/throttle.ts";

/** How much of a run may be under way at once, over the whole tree. */
export interface Concurrency {
  /** Default 1,024. */
  readonly modelCalls: number;
  /** Default 1,024. */
  readonly toolCalls: number;
}

export const DEFAULT_CONCURRENCY: Concurrency = Object.freeze({
  modelCalls: 1_024,
  toolCalls: 1_024,
});

/** Counts the calls under way. A call that waits for a slot is not under way. */
interface WorkCount {
  workBegins(): void;
  workEnds(): void;
}

export class RunLimiter {
  readonly #count: WorkCount | undefined;
  readonly #throttle: Throttle;
  readonly #models: Semaphore;
  readonly #tools: Semaphore;

  /**
   * `throttle`: shared by all runs of the orchestrator, so that a thousand calls requested at once do
   * not block the event loop.
   */
  constructor({ modelCalls, toolCalls }: Concurrency, throttle: Throttle, count?: WorkCount) {
    this.#count = count;
    this.#throttle = throttle;
    this.#models = new Semaphore(modelCalls);
    this.#tools = new Semaphore(toolCalls);
  }

  /** Lets no further call begin until `resume`. */
  hold(): void {
    this.#models.pause();
    this.#tools.pause();
  }

  resume(): void {
    this.#models.resume();
    this.#tools.resume();
  }

  /**
   * Returns the slot of a model call, at once if one is free. Gives `undefined` if `signal` is
   * aborted first.
   */
  model(signal: AnySignal): Acquired {
    const turn = this.#throttle.turn();
    if (turn !== undefined) return turn.then(() => this.#enter(this.#models, signal));
    return this.#enter(this.#models, signal);
  }

  /** Returns the slot of a tool body in the same way. */
  tool(signal: AnySignal): Acquired {
    return this.#enter(this.#tools, signal);
  }

  #enter(slots: Semaphore, signal: AnySignal): Acquired {
    const acquired = slots.acquire(signal);
    if (this.#count === undefined || !(acquired instanceof Promise)) return acquired;
    return uncounted(acquired, this.#count);
  }
}

type Acquired = Release | undefined | Promise<Release | undefined>;

/** Takes a call out of the count while it waits. */
async function uncounted<T>(waiting: Promise<T>, count: WorkCount): Promise<T> {
  count.workEnds();
  try {
    return await waiting;
  } finally {
    count.workBegins();
  }
}
