import { ManualClock } from "../../src/testing/manual-clock.ts";

/** A little less than a seventh of a millisecond: a prime number of microseconds, so that no fraction comes twice in a row. */
const TICK_MS = 0.137;

/** A clock for which some time passes whenever it is read, as it does on a machine. Its timers wake when a test moves it. */
export class TickingClock extends ManualClock {
  #readings = 0;

  override monotonicMs(): number {
    this.#readings += 1;
    return super.monotonicMs() + this.#readings * TICK_MS;
  }
}
