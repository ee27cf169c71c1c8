// Append-only lists. A list is never written to: a longer list replaces it.
// A long list is known to begin with its predecessor, without comparing their items.

import { deepFreeze } from "./json.ts";

/** Lists that share a beginning: each is a prefix of all longer ones. */
export interface Growth {
  /** Length of the longest list. */
  length: number;
  /** Number of leading values that are frozen. Absent if unknown. */
  frozen?: number;
}

const growths = new WeakMap<readonly unknown[], Growth>();
const LONG = 16;

/** Returns the list with more items at its end. */
export function appendToList<T>(list: readonly T[], added: readonly T[]): readonly T[] {
  // `concat`, because an array literal with a spread reserves room for many more items.
  const longer = list.concat(added);
  if (longer.length < LONG) return longer;
  let growth = growths.get(list);
  if (growth?.length !== list.length) {
    growth = { length: list.length };
    if (!growths.has(list)) growths.set(list, growth);
  }
  growth.length = longer.length;
  growths.set(longer, growth);
  return longer;
}

/** Freezes the list and its items. If the list has grown, only the new items are visited. */
export function deepFreezeList<T>(list: readonly T[]): readonly T[] {
  if (Object.isFrozen(list)) return list;
  const growth = growths.get(list);
  for (const value of list.slice(growth?.frozen)) deepFreeze(value);
  if (growth !== undefined) growth.frozen = Math.max(growth.frozen ?? 0, list.length);
  return Object.freeze(list);
}

/** Returns the growth of a long list. `undefined` if the list is short or has not grown. */
export function findGrowth(list: readonly unknown[]): Growth | undefined {
  return growths.get(list);
}
