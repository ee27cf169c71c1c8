// Clocks: the wall clock for timestamps, the monotonic clock for durations, timers for waits.

import { getErrorMessage } from "./error.ts";
import { warnOnce } from "./warn-once.ts";

/**
 * Source of time and timers. Tests pass a `ManualClock`.
 *
 * @example
 * ```ts
 * const clock: Clock = {
 *   nowMs: () => Date.now(),
 *   monotonicMs: () => performance.now(),
 *   setTimer(delayMs, wake) {
 *     const timer = setTimeout(wake, delayMs);
 *     return () => clearTimeout(timer);
 *   },
 * };
 * ```
 */
export interface Clock {
  /**
   * Returns the wall clock time in whole milliseconds since the epoch. It may jump; use it for
   * timestamps only.
   */
  nowMs(): number;
  /**
   * Returns a monotonic time in milliseconds since an arbitrary moment. Use the difference of two
   * readings as a duration.
   *
   * Fractions are kept to the microsecond in event and span times. Limits and durations count whole
   * milliseconds.
   */
  monotonicMs(): number;
  /**
   * Calls `wake` once after `delayMs` milliseconds, which may have fractions. Returns a function
   * that cancels the timer.
   */
  setTimer(delayMs: number, wake: () => void): () => void;
}

/** Maximum delay of `setTimeout`: 24.8 days. Longer delays are split. */
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

/** The clock of the machine. Its timers keep the process alive while something waits for them. */
export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  setTimer: (delayMs, wake) => setTimer(delayMs, wake, false),
};

/** System clock whose timers do not keep the process alive. */
export const idleClock: Clock = {
  ...systemClock,
  setTimer: (delayMs, wake) => setTimer(delayMs, wake, true),
};

/**
 * Rounds milliseconds to whole microseconds. Sums of rounded times must be rounded again to be free
 * of noise.
 */
export function toMicroseconds(ms: number): number {
  return Math.round(ms * 1_000) / 1_000;
}

/**
 * The clock of a run in this process. Readings and timers use whole milliseconds, and reading never
 * throws.
 *
 * `nowMs` is the wall clock at construction, advanced by the monotonic clock. So it never goes back
 * if the wall clock is set, and the difference of two readings is a duration.
 *
 * `notBeforeMs` is the last timestamp that another process gave to the run. If the wall clock of
 * this process is behind, time continues from there. By default the wall clock alone counts.
 */
export class SteadyClock implements Clock {
  readonly #clock: Clock;
  readonly #originMs: number;
  /** Last reading in whole microseconds, so that sums are exact. */
  #lastUs: number;

  constructor(clock: Clock, notBeforeMs = -Infinity) {
    this.#clock = clock;
    this.#lastUs = Math.round(clock.monotonicMs() * 1_000);
    const beginsAtMs = Math.max(Math.floor(clock.nowMs()), Math.ceil(notBeforeMs));
    this.#originMs = beginsAtMs - Math.floor(this.#lastUs / 1_000);
  }

  /**
   * Returns `nowMs` with microseconds, if the clock has them. Used for the timestamps of events.
   */
  stampMs(): number {
    this.nowMs();
    return (this.#originMs * 1_000 + this.#lastUs) / 1_000;
  }

  nowMs(): number {
    try {
      this.#lastUs = Math.round(this.#clock.monotonicMs() * 1_000);
    } catch (cause) {
      const advice = "time is frozen until it works";
      warnOnce(this.#clock, `The clock threw (${getErrorMessage(cause)}); ${advice}.`);
    }
    return this.#originMs + Math.floor(this.#lastUs / 1_000);
  }

  monotonicMs(): number {
    this.nowMs();
    return Math.floor(this.#lastUs / 1_000);
  }

  setTimer(delayMs: number, wake: () => void): () => void {
    // The delay counts from the beginning of the current millisecond, as `nowMs` does. So when the
    // timer fires, `nowMs` shows the expected time.
    this.nowMs();
    const nowMs = this.#lastUs / 1_000;
    return this.#clock.setTimer(Math.max(0, delayMs - (nowMs - Math.floor(nowMs))), wake);
  }
}

/** Timers of Node count whole milliseconds, and the first millisecond may be incomplete. */
const TIMEOUT_STEP_MS = 1;

function setTimer(delayMs: number, wake: () => void, isIdle: boolean): () => void {
  const dueMs = performance.now() + delayMs;
  // Timers use a coarser clock than durations. After the machine was suspended, a timer may fire
  // long before its time on the other clock.
  const look = (): void => {
    const leftMs = dueMs - performance.now();
    if (leftMs > TIMEOUT_STEP_MS) timer = startTimeout(look, leftMs, isIdle);
    else wake();
  };
  let timer = startTimeout(look, delayMs, isIdle);
  return () => clearTimeout(timer);
}

/**
 * Starts a timer, or the first stage of a longer one. Rounds up, since `setTimeout` drops
 * fractions.
 */
function startTimeout(look: () => void, delayMs: number, isIdle: boolean): NodeJS.Timeout {
  const timer = setTimeout(look, Math.min(Math.ceil(delayMs), LONGEST_TIMEOUT_MS));
  return isIdle ? timer.unref() : timer;
}
