import { ManualClock } from "../../src/testing/manual-clock.ts";

/**
 * A prime number of microseconds, a little less than a seventh of a millisecond, so that no
 * fraction repeats at once.
 */
const TICK_MS = 0.137;

/**
 * A clock on which some time passes at each reading, as on a real machine. A test advances its
 * timers.
 */
export class TickingClock extends ManualClock {
  #readings = 0;

  override monotonicMs(): number {
    this.#readings += 1;
    return super.monotonicMs() + this.#readings * TICK_MS;
  }
}
