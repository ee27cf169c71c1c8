// ManualClock: a clock that tests move by hand. Owns its time, how far the wall clock is off it, and the timers that are not due yet.

import { checkAmount, mismatch } from "../kernel/check.ts";
import { toMicroseconds, type Clock } from "../kernel/clock.ts";

interface Timer {
  /** Of the monotonic clock. */
  readonly dueMs: number;
  readonly wake: () => void;
}

/**
 * A clock that stands still until a test moves it. Its monotonic clock begins at 0 and counts microseconds: `advance(0.3)` is time for
 * events and spans. Its wall clock shows whole milliseconds, as that of a machine does.
 */
export class ManualClock implements Clock {
  #monotonicMs = 0;
  /** What the wall clock shows when the monotonic clock shows 0. */
  #originMs: number;
  /** In the order in which they were set. */
  readonly #timers = new Set<Timer>();

  /**
   * `startMs`: what the wall clock shows at first, in milliseconds since the epoch.
   *
   * @throws EspalierError `invalid_option` for what is no finite number.
   */
  constructor(startMs = 0) {
    checkTime("startMs", startMs);
    this.#originMs = startMs;
  }

  nowMs(): number {
    return Math.floor(toMicroseconds(this.#originMs + this.#monotonicMs));
  }

  monotonicMs(): number {
    return this.#monotonicMs;
  }

  setTimer(delayMs: number, wake: () => void): () => void {
    const timer: Timer = { dueMs: toMicroseconds(this.#monotonicMs + delayMs), wake };
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  }

  /**
   * Sets the wall clock, to milliseconds since the epoch. No time passes: the monotonic clock and timers stay as they are.
   *
   * @throws EspalierError `invalid_option` for what is no finite number.
   */
  setWallClock(toMs: number): void {
    checkTime("toMs", toMs);
    this.#originMs = toMs - this.#monotonicMs;
  }

  /**
   * Moves time on and wakes, in order, every timer that is due on the way. What they start runs in later ticks.
   *
   * @throws EspalierError `invalid_option` for what is no finite number from 0 up: time does not go back.
   */
  advance(byMs: number): void {
    checkAmount("byMs", byMs, "Time cannot go back. Use setWallClock to change the shown time.");
    const untilMs = toMicroseconds(this.#monotonicMs + byMs);
    for (;;) {
      const due = this.#firstUntil(untilMs);
      if (due === undefined) break;
      this.#timers.delete(due);
      this.#monotonicMs = Math.max(this.#monotonicMs, due.dueMs);
      due.wake();
    }
    this.#monotonicMs = untilMs;
  }

  /** Timers that neither were stopped nor ran out: none may be left when a run has ended. */
  get pendingTimers(): number {
    return this.#timers.size;
  }

  /** The first that is due by then; of those due at once, the one that was set first. */
  #firstUntil(untilMs: number): Timer | undefined {
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
