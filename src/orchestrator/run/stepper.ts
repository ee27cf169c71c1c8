// Stepper: holds the loop of a run between two phases until the caller asks for the next one. Made by `run.iterate()`; without one the loop
// runs freely. Owns the demands that are not met yet and the phases that were not asked for yet, each in order: the caller gets every phase
// from then on, also those that the loop runs after it was released.

import type { PhaseReport } from "../../agent/phase-report.ts";
import type { PhaseStepper } from "../../agent/run-ports.ts";

type Demand = {
  readonly resolve: (result: IteratorResult<PhaseReport, undefined>) => void;
  readonly reject: (cause: unknown) => void;
};

const DONE: IteratorResult<PhaseReport, undefined> = { done: true, value: undefined };

export class Stepper implements PhaseStepper {
  /** The loop does not wait any more. */
  #isOpen = false;
  #isOver = false;
  /** Why the run is over, if it broke off. */
  #failure: { readonly cause: unknown } | undefined;
  readonly #demands: Demand[] = [];
  readonly #undelivered: PhaseReport[] = [];
  #wakeLoop: (() => void) | undefined;

  /** Lets the loop through for good: what has to end must not wait for a caller who asks for nothing. */
  open(): void {
    this.#isOpen = true;
    this.#wakeLoop?.();
  }

  /** Resolves when the loop may run the next phase. */
  pass(): Promise<void> {
    if (this.#isOpen || this.#demands.length > 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#wakeLoop = resolve;
    });
  }

  /** Gives a phase to the first who asked for one, or keeps it for the next; resolves when the loop may run on. */
  step(report: PhaseReport): Promise<void> {
    const demand = this.#demands.shift();
    if (demand === undefined) this.#undelivered.push(report);
    else demand.resolve({ done: false, value: report });
    return this.pass();
  }

  /** The run is over: there is no further phase. */
  end(): void {
    this.#isOver = true;
    for (const { resolve } of this.#demands.splice(0)) resolve(DONE);
  }

  /** The run broke off: a further phase is answered with the reason. */
  fail(cause: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#failure = { cause };
    for (const { reject } of this.#demands.splice(0)) reject(cause);
  }

  /** The caller's side. `abandon` ends the run; it is called when the caller breaks off. */
  iterator(abandon: () => Promise<void>): AsyncIterableIterator<PhaseReport, undefined> {
    const iterator: AsyncIterableIterator<PhaseReport, undefined> = {
      next: () => this.#demand(),
      return: async () => {
        this.#undelivered.length = 0;
        if (!this.#isOver) await abandon();
        this.#undelivered.length = 0;
        return DONE;
      },
      [Symbol.asyncIterator]: () => iterator,
    };
    return iterator;
  }

  #demand(): Promise<IteratorResult<PhaseReport, undefined>> {
    const report = this.#undelivered.shift();
    if (report !== undefined) return Promise.resolve({ done: false, value: report });
    const failure = this.#failure;
    if (this.#isOver && failure === undefined) return Promise.resolve(DONE);
    return new Promise((resolve, reject) => {
      if (failure !== undefined) {
        reject(failure.cause);
        return;
      }
      this.#demands.push({ resolve, reject });
      this.#wakeLoop?.();
    });
  }
}
