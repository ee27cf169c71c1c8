// Semaphore: limits the number of concurrent holders, FIFO. Owns the free permits.

import type { AnySignal } from "./cancel-signal.ts";
import { TurnQueue } from "./turn-queue.ts";

/** Gives a permit back. Call it once. */
export type Release = () => void;

/** Counts the active holders. A holder that waits for a permit is not active. */
export interface WorkCount {
  beginWork(): void;
  endWork(): void;
}

export class Semaphore {
  #free: number;
  readonly #count: WorkCount | undefined;
  #isPaused = false;
  /** Created for the first call that has to wait. */
  #queue: TurnQueue | undefined;

  constructor(permits: number, count?: WorkCount) {
    this.#free = permits;
    this.#count = count;
  }

  /** Returns a permit, or a promise if none is free. `undefined` if the signal is aborted first. */
  acquire(signal: AnySignal): Release | undefined | Promise<Release | undefined> {
    if (signal.aborted) return undefined;
    const release = this.#queue === undefined ? this.take() : undefined;
    return release ?? this.#wait(signal);
  }

  #wait(signal: AnySignal): Release | undefined | Promise<Release | undefined> {
    this.#queue ??= new TurnQueue();
    const entered = this.#queue.enter(this, signal);
    const isWaiting = this.#count !== undefined && entered instanceof Promise;
    return isWaiting ? waitUncounted(entered, this.#count) : entered;
  }

  /** Returns a permit if one is free. */
  take(): Release | undefined {
    if (this.#free === 0 || this.#isPaused) return undefined;
    this.#free -= 1;
    return this.#release;
  }

  /** Gives no more permits until `resume`. */
  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
    this.#queue?.serve();
  }

  readonly #release: Release = () => {
    this.#free += 1;
    this.#queue?.serve();
  };
}

/** Takes a holder out of the count while it waits. */
async function waitUncounted<T>(waiting: Promise<T>, count: WorkCount): Promise<T> {
  count.endWork();
  try {
    return await waiting;
  } finally {
    count.beginWork();
  }
}
