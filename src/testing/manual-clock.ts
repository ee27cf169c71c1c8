import type { Clock } from "../kernel/clock.ts";

interface Timer {
  readonly atMs: number;
  readonly wake: () => void;
}

/** A clock that stands still until a test moves it. */
export class ManualClock implements Clock {
  #nowMs: number;
  /** In the order in which they were set. */
  readonly #timers = new Set<Timer>();

  constructor(startMs = 0) {
    this.#nowMs = startMs;
  }

  nowMs(): number {
    return this.#nowMs;
  }

  setTimer(delayMs: number, wake: () => void): () => void {
    const timer: Timer = { atMs: this.#nowMs + delayMs, wake };
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  }

  /** Moves time on and wakes, in order, every timer that is due on the way. What they set going runs in later ticks. */
  advance(byMs: number): void {
    const untilMs = this.#nowMs + byMs;
    for (;;) {
      const due = this.#firstUntil(untilMs);
      if (due === undefined) break;
      this.#timers.delete(due);
      this.#nowMs = Math.max(this.#nowMs, due.atMs);
      due.wake();
    }
    this.#nowMs = untilMs;
  }

  /** Timers that nobody has stopped or let run out: none may be left when a run has ended. */
  get pendingTimers(): number {
    return this.#timers.size;
  }

  /** The first that is due by then; of those due at once, the one that was set first. */
  #firstUntil(untilMs: number): Timer | undefined {
    let first: Timer | undefined;
    for (const timer of this.#timers)
      if (timer.atMs <= untilMs && (first === undefined || timer.atMs < first.atMs)) first = timer;
    return first;
  }
}
