// Stepper: holds the loop of a run between two phases until the caller asks for the next one. Made by `run.iterate()`; without one the loop
// runs freely. The caller gets every phase from then on, also those that the loop runs after it was released.

import type { PhaseReport } from "../../agent/phase-report.ts";
import type { PhaseStepper } from "../../agent/run-ports.ts";
import { Feed, type FeedFailure } from "./feed.ts";

export class Stepper implements PhaseStepper {
  /** The loop does not wait any more. */
  #isOpen = false;
  readonly #feed = new Feed<PhaseReport>();
  #wakeLoop: (() => void) | undefined;

  /** Lets the loop through for good: what has to end must not wait for a caller who asks for nothing. */
  open(): void {
    this.#isOpen = true;
    this.#wakeLoop?.();
  }

  /** Resolves when the loop may run the next phase. */
  pass(): Promise<void> {
    if (this.#isOpen || this.#feed.isAwaited) return Promise.resolve();
    return new Promise((resolve) => {
      this.#wakeLoop = resolve;
    });
  }

  /** Gives a phase to the first who asked for one, or keeps it for the next; resolves when the loop may run on. */
  step(report: PhaseReport): Promise<void> {
    this.#feed.add(report);
    return this.pass();
  }

  /** The run is over: there is no further phase. `failure`: it broke off, and a further phase is answered with the reason. */
  end(failure?: FeedFailure): void {
    this.#feed.end(failure);
  }

  /** The caller's side. `abandon` ends the run; it is called when the caller breaks off. */
  iterator(abandon: () => Promise<void>): AsyncIterableIterator<PhaseReport, undefined> {
    const feed = this.#feed;
    const iterator: AsyncIterableIterator<PhaseReport, undefined> = {
      next: () => {
        const next = feed.next();
        if (feed.isAwaited) this.#wakeLoop?.();
        return next;
      },
      return: async () => {
        feed.clear();
        if (!feed.isOver) await abandon();
        return feed.leave();
      },
      [Symbol.asyncIterator]: () => iterator,
    };
    return iterator;
  }
}
