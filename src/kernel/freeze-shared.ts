// Values that are shared within the library and never written to, as their `readonly` types
// require. Tests freeze all shared values, so that a write fails where it happens. In production,
// freezing would cost a fifth of a step.

import { deepFreeze } from "./json.ts";

let isFrozen = false;

/** Makes `shared` freeze all values from now on, deeply. For the test harness. */
export function freezeShared(): void {
  isFrozen = true;
}

/**
 * Returns a value that is shared within the library, frozen in tests. Values that leave the library
 * are frozen by `deepFreeze` at that point.
 */
export function freezeInTests<T>(value: T): T {
  return isFrozen ? deepFreeze(value) : value;
}
