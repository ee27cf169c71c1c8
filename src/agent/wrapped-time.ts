// The time of hooks that go around something, computed from the time of what they go around.

import type { Clock } from "../kernel/clock.ts";
import { toSpans, type TimeSpan } from "../protocol/step-timing.ts";

/** Begins when it is made: the hooks are at work whenever nothing inside them is. */
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

  /** Runs a part of what they go around. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    const leave = this.inside();
    try {
      return await work();
    } finally {
      leave();
    }
  }

  /** What they go around begins, and ends when this is called. Both may happen several times, also at once. */
  inside(): () => void {
    this.#turn();
    this.#underWay += 1;
    return () => {
      this.#turn();
      this.#underWay -= 1;
    };
  }

  /** The time so far. What is still under way inside counts up to now. */
  get hooks(): readonly TimeSpan[] {
    this.#turn();
    return this.#hooks;
  }

  /** The same for what they go around: as a tool. */
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
