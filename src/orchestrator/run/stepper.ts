// Stepper: holds the loop of a run between two phases until the caller asks for the next one. Made by `run.iterate()`; without one the loop
// runs freely. The caller gets every phase from then on, also those that the loop runs after it was released.

import type { PhaseReport } from "../../agent/phase-report.ts";
import type { PhaseStepper } from "../../agent/run-ports.ts";
import { deepFreeze } from "../../kernel/json.ts";
import { Feed, type DONE } from "./feed.ts";

export class Stepper
  extends Feed<PhaseReport>
  implements PhaseStepper, AsyncIterableIterator<PhaseReport, undefined>
{
  readonly #abandon: () => Promise<unknown>;
  /** The loop does not wait any more. */
  #isOpen = false;
  #wakeLoop: (() => void) | undefined;

  /** `abandon` ends the run; it is called when the caller breaks off. */
  constructor(abandon: () => Promise<unknown>) {
    super();
    this.#abandon = abandon;
  }

  /** Lets the loop through for good: what has to end must not wait for a caller that asks for no phase. */
  open(): void {
    this.#isOpen = true;
    this.#wakeLoop?.();
  }

  /** Resolves when the loop may run the next phase. */
  pass(): Promise<void> {
    if (this.#isOpen || this.isAwaited) return Promise.resolve();
    return new Promise((resolve) => {
      this.#wakeLoop = resolve;
    });
  }

  /** Gives a phase to the first caller that waits for one, or keeps it for the next; resolves when the loop may run on. */
  step(report: PhaseReport): Promise<void> {
    this.add(deepFreeze(report));
    return this.pass();
  }

  override next(): Promise<IteratorResult<PhaseReport, undefined>> {
    const next = super.next();
    if (this.isAwaited) this.#wakeLoop?.();
    return next;
  }

  async return(): Promise<typeof DONE> {
    this.clear();
    if (!this.isOver) await this.#abandon();
    return this.leave();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}
