// Semaphore: bounds how many holders work at once, first come, first served. Owns the free permits.

import type { AnySignal } from "./cancel.ts";
import { TurnLine } from "./turn-line.ts";

/** Gives a permit back. Call it once. */
export type Release = () => void;

export class Semaphore {
  #free: number;
  readonly #queue = new TurnLine<undefined>({ take: () => this.#take() });

  constructor(permits: number) {
    this.#free = permits;
  }

  /** Returns a permit, or a promise if none is free. `undefined` if the signal is aborted first. */
  acquire(signal: AnySignal): Release | undefined | Promise<Release | undefined> {
    const entered = this.#queue.enter(undefined, signal);
    if (entered instanceof Promise)
      return entered.then((isAdmitted) => (isAdmitted ? this.#release : undefined));
    return entered ? this.#release : undefined;
  }

  #take(): boolean {
    if (this.#free === 0) return false;
    this.#free -= 1;
    return true;
  }

  readonly #release: Release = () => {
    this.#free += 1;
    this.#queue.serve();
  };
}
