import type { Clock } from "../kernel/clock.ts";

interface Timer {
  readonly atMs: number;
  readonly wake: () => void;
}

/** A clock that stands still until a test moves it. */
export class ManualClock implements Clock {
  #nowMs: number;
  #timers: readonly Timer[] = [];

  constructor(startMs = 0) {
    this.#nowMs = startMs;
  }

  nowMs(): number {
    return this.#nowMs;
  }

  setTimer(delayMs: number, wake: () => void): () => void {
    const timer: Timer = { atMs: this.#nowMs + delayMs, wake };
    this.#timers = [...this.#timers, timer];
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }

  /** Moves time on and wakes, in order, every timer that is due on the way. What they set going runs in later ticks. */
  advance(byMs: number): void {
    const untilMs = this.#nowMs + byMs;
    for (;;) {
      const due = this.#timers
        .filter((timer) => timer.atMs <= untilMs)
        .toSorted((left, right) => left.atMs - right.atMs)[0];
      if (due === undefined) break;
      this.#timers = this.#timers.filter((other) => other !== due);
      this.#nowMs = Math.max(this.#nowMs, due.atMs);
      due.wake();
    }
    this.#nowMs = untilMs;
  }

  /** Timers that nobody has stopped or let run out: none may be left when a run has ended. */
  get pendingTimers(): number {
    return this.#timers.length;
  }
}
