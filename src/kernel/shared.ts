// Values that are shared inside the library and never written to. `readonly` types say so. The tests run with all of them frozen, so
// that a write is found where it happens; in production freezing them would cost a fifth of a step.

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
