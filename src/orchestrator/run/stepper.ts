// Stepper: lets the driver of a run through freely, or once for each time that somebody asks for a phase.
// Owns the demands that are not met yet and the phases that were not asked for yet, each in order. Whoever iterates gets every phase
// from then on, also those that the driver runs after it was let go.

import type { PhaseReport, PhaseStepper } from "../../agent/run-agent.ts";

type Demand = {
  readonly resolve: (result: IteratorResult<PhaseReport, undefined>) => void;
  readonly reject: (cause: unknown) => void;
};

const DONE: IteratorResult<PhaseReport, undefined> = { done: true, value: undefined };

export class Stepper implements PhaseStepper {
  #driver: "free" | "by demand" | "let go" = "free";
  #isTaken = false;
  #isOver = false;
  /** Why the run is over, if it broke off. */
  #failure: { readonly cause: unknown } | undefined;
  readonly #demands: Demand[] = [];
  readonly #undelivered: PhaseReport[] = [];
  #wakeDriver: (() => void) | undefined;

  /** True once somebody iterates: they learn how the run ended. */
  get isTaken(): boolean {
    return this.#isTaken;
  }

  /** Makes the driver wait for demands. False if somebody has done so already. */
  close(): boolean {
    if (this.#isTaken) return false;
    this.#isTaken = true;
    if (this.#driver === "free") this.#driver = "by demand";
    return true;
  }

  /** Lets the driver through for good. */
  open(): void {
    this.#driver = "let go";
    this.#wakeDriver?.();
  }

  /** Resolves when the driver may run the next phase. */
  pass(): Promise<void> {
    if (this.#driver !== "by demand" || this.#demands.length > 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#wakeDriver = resolve;
    });
  }

  async step(report: PhaseReport): Promise<void> {
    this.deliver(report);
    await this.pass();
  }

  /** Hands a phase to the first who asked for one, or keeps it for the next. */
  deliver(report: PhaseReport): void {
    const demand = this.#demands.shift();
    if (demand !== undefined) demand.resolve({ done: false, value: report });
    else if (this.#isTaken) this.#undelivered.push(report);
  }

  /** The run is over: nobody waits any longer. */
  end(): void {
    this.#isOver = true;
    for (const { resolve } of this.#demands.splice(0)) resolve(DONE);
  }

  /** The run broke off: whoever asks for a further phase has to know why. */
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
    const kept = this.#undelivered.shift();
    if (kept !== undefined) return Promise.resolve({ done: false, value: kept });
    const failure = this.#failure;
    if (this.#isOver && failure === undefined) return Promise.resolve(DONE);
    return new Promise((resolve, reject) => {
      if (failure !== undefined) {
        reject(failure.cause);
        return;
      }
      this.#demands.push({ resolve, reject });
      this.#wakeDriver?.();
    });
  }
}
