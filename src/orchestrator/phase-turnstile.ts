// PhaseTurnstile: lets the driver of a run through freely, or once for each time that somebody asks for a phase.
// Owns the demands that are not met yet, in order. After the end every demand is answered with "done".

import type { PhaseReport } from "../agent/run-agent.ts";

type Demand = (result: IteratorResult<PhaseReport, undefined>) => void;

const DONE: IteratorResult<PhaseReport, undefined> = { done: true, value: undefined };

export class PhaseTurnstile {
  #mode: "free" | "by demand" | "released" | "ended" = "free";
  readonly #demands: Demand[] = [];
  #wakeDriver: (() => void) | undefined;

  /** Makes the driver wait for demands. False if somebody has done so already. */
  close(): boolean {
    if (this.#mode === "by demand" || this.#mode === "released") return false;
    if (this.#mode === "free") this.#mode = "by demand";
    return true;
  }

  /** Lets the driver through for good. */
  open(): void {
    if (this.#mode === "by demand") this.#mode = "released";
    this.#wakeDriver?.();
  }

  /** Resolves when the driver may run the next phase. */
  pass(): Promise<void> {
    if (this.#mode !== "by demand" || this.#demands.length > 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#wakeDriver = resolve;
    });
  }

  /** Hands a phase to the first who asked for one. */
  deliver(report: PhaseReport): void {
    this.#demands.shift()?.({ done: false, value: report });
  }

  /** The run is over: nobody waits any longer. */
  end(): void {
    this.#mode = "ended";
    for (const demand of this.#demands.splice(0)) demand(DONE);
  }

  /** The caller's side. `abandon` ends the run; it is called when the caller breaks off. */
  iterator(abandon: () => Promise<void>): AsyncIterableIterator<PhaseReport, undefined> {
    const iterator: AsyncIterableIterator<PhaseReport, undefined> = {
      next: () => this.#demand(),
      return: async () => {
        if (this.#mode !== "ended") await abandon();
        return DONE;
      },
      [Symbol.asyncIterator]: () => iterator,
    };
    return iterator;
  }

  #demand(): Promise<IteratorResult<PhaseReport, undefined>> {
    if (this.#mode === "ended") return Promise.resolve(DONE);
    return new Promise((resolve) => {
      this.#demands.push(resolve);
      this.#wakeDriver?.();
    });
  }
}
