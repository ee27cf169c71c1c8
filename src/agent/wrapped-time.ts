// Splits a period into the time of hooks around some work and the time of the work inside them.

import type { Clock } from "../kernel/clock.ts";
import { toSpans, type TimeSpan } from "../protocol/step-timing.ts";

/**
 * Measures from its creation on. The time counts for the hooks whenever no work inside them is in
 * progress.
 */
export class WrappedTime {
  readonly #clock: Clock;
  #sinceMs: number;
  #depth = 0;
  #hookSpans: readonly TimeSpan[] = [];
  #insideSpans: readonly TimeSpan[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#sinceMs = clock.nowMs();
  }

  /** Runs work inside the hooks. */
  async runInside<T>(work: () => Promise<T>): Promise<T> {
    const leave = this.enter();
    try {
      return await work();
    } finally {
      leave();
    }
  }

  /**
   * Begins work inside the hooks. Returns the function that ends it. Several may be in progress at
   * once.
   */
  enter(): () => void {
    this.#closeSpan();
    this.#depth += 1;
    return () => {
      this.#closeSpan();
      this.#depth -= 1;
    };
  }

  /** The time of the hooks so far. */
  get hooks(): readonly TimeSpan[] {
    this.#closeSpan();
    return this.#hookSpans;
  }

  /** The time of the work inside the hooks so far, as time of a tool. */
  get tool(): readonly TimeSpan[] {
    this.#closeSpan();
    return this.#insideSpans;
  }

  #closeSpan(): void {
    const nowMs = this.#clock.nowMs();
    if (this.#depth === 0)
      this.#hookSpans = [...this.#hookSpans, ...toSpans("hooks", this.#sinceMs, nowMs)];
    else this.#insideSpans = [...this.#insideSpans, ...toSpans("tool", this.#sinceMs, nowMs)];
    this.#sinceMs = nowMs;
  }
}
