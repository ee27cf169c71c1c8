// ManualClock: a clock that tests move by hand. Owns its time, the offset of the wall clock, and
// the pending timers.

import { checkAmount, mismatch } from "../kernel/argument-checks.ts";
import { toMicroseconds, type Clock } from "../kernel/clock.ts";

interface Timer {
  /** Time on the monotonic clock. */
  readonly dueMs: number;
  readonly wake: () => void;
}

/**
 * Clock for tests that moves only with `advance`. The monotonic clock begins at 0 and counts
 * microseconds, so that `advance(0.3)` is visible in events and spans. The wall clock shows whole
 * milliseconds.
 *
 * @example
 * ```ts
 * const clock = new ManualClock(Date.parse("2026-09-23T08:00:00Z"));
 * const orchestrator = new Orchestrator({ clock });
 * clock.advance(30_000); // wakes every timer that is due within these 30 seconds
 * ```
 */
export class ManualClock implements Clock {
  #monotonicMs = 0;
  /** Time of the wall clock when the monotonic clock shows 0. */
  #originMs: number;
  /** In the order in which they were set. */
  readonly #timers = new Set<Timer>();

  /**
   * Creates a clock. `startMs` is the first time of the wall clock, in milliseconds since the
   * epoch.
   *
   * @throws EspalierError `invalid_argument` if `startMs` is not a finite number.
   */
  constructor(startMs = 0) {
    checkTime("startMs", startMs);
    this.#originMs = startMs;
  }

  /** Returns the time of the wall clock, in milliseconds since the epoch. */
  nowMs(): number {
    return Math.floor(toMicroseconds(this.#originMs + this.#monotonicMs));
  }

  /** Returns the time of the monotonic clock, in milliseconds since the clock was created. */
  monotonicMs(): number {
    return this.#monotonicMs;
  }

  /**
   * Calls `wake` when the clock has advanced by `delayMs`. The returned function cancels the timer.
   */
  setTimer(delayMs: number, wake: () => void): () => void {
    const timer: Timer = { dueMs: toMicroseconds(this.#monotonicMs + delayMs), wake };
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  }

  /**
   * Sets the wall clock to `toMs`, in milliseconds since the epoch. The monotonic clock and all
   * timers stay unchanged.
   *
   * @throws EspalierError `invalid_argument` if `toMs` is not a finite number.
   *
   * @example
   * ```ts
   * const clock = new ManualClock();
   * clock.setWallClock(Date.parse("2026-10-25T03:00:00+01:00"));
   * console.log(clock.monotonicMs()); // 0
   * ```
   */
  setWallClock(toMs: number): void {
    checkTime("toMs", toMs);
    this.#originMs = toMs - this.#monotonicMs;
  }

  /**
   * Advances both clocks by `byMs` milliseconds, and calls in order every timer that is due on the
   * way. Promises that a timer resolves continue later; await `flushEventLoop()` for them.
   *
   * @throws EspalierError `invalid_argument` if `byMs` is negative or not a finite number.
   */
  advance(byMs: number): void {
    checkAmount("byMs", byMs, "Time cannot go back. Use setWallClock to change the shown time.");
    const untilMs = toMicroseconds(this.#monotonicMs + byMs);
    for (;;) {
      const due = this.#findFirstUntil(untilMs);
      if (due === undefined) break;
      this.#timers.delete(due);
      this.#monotonicMs = Math.max(this.#monotonicMs, due.dueMs);
      due.wake();
    }
    this.#monotonicMs = untilMs;
  }

  /** Number of timers that were neither called nor cancelled. It is 0 when a run has ended. */
  get pendingTimers(): number {
    return this.#timers.size;
  }

  /**
   * Returns the first timer that is due by then. Of timers due at the same time, it returns the one
   * that was set first.
   */
  #findFirstUntil(untilMs: number): Timer | undefined {
    let first: Timer | undefined;
    for (const timer of this.#timers)
      if (timer.dueMs <= untilMs && (first === undefined || timer.dueMs < first.dueMs))
        first = timer;
    return first;
  }
}

function checkTime(field: string, value: unknown): void {
  if (typeof value === "number" && Number.isFinite(value)) return;
  throw mismatch(field, "milliseconds since the epoch", value, "Use Date.parse.");
}
