// Values that are shared within the library and never written to, as their `readonly` types state.
// Tests freeze all of them, so that a write fails where it happens. In production, freezing would
// cost a fifth of a step.

import { deepFreeze } from "./json.ts";

let isFrozen = false;

/** For the test harness: shared values are frozen from now on, whole. */
export function freezeShared(): void {
  isFrozen = true;
}

/** A value that is shared from now on. What leaves the library is frozen where it leaves: see `deepFreeze`. */
export function shared<T>(value: T): T {
  return isFrozen ? deepFreeze(value) : value;
}
