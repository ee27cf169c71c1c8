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
  #underWay = 0;
  #hooks: readonly TimeSpan[] = [];
  #inside: readonly TimeSpan[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#sinceMs = clock.nowMs();
  }

  /** Runs work inside the hooks. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    const leave = this.inside();
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
  inside(): () => void {
    this.#turn();
    this.#underWay += 1;
    return () => {
      this.#turn();
      this.#underWay -= 1;
    };
  }

  /** The time of the hooks so far. */
  get hooks(): readonly TimeSpan[] {
    this.#turn();
    return this.#hooks;
  }

  /** The time of the work inside the hooks so far, as time of a tool. */
  get tool(): readonly TimeSpan[] {
    this.#turn();
    return this.#inside;
  }

  #turn(): void {
    const nowMs = this.#clock.nowMs();
    if (this.#underWay === 0)
      this.#hooks = [...this.#hooks, ...toSpans("hooks", this.#sinceMs, nowMs)];
    else this.#inside = [...this.#inside, ...toSpans("tool", this.#sinceMs, nowMs)];
    this.#sinceMs = nowMs;
  }
}
