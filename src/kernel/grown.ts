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

/** The list with more at its end. */
export function grown<T>(list: readonly T[], added: readonly T[]): readonly T[] {
  // Not spread: a list that is spread and added to has room for many more.
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

/** The list and all in it, frozen. Of a list that has grown only what is new is looked at. */
export function frozenList<T>(list: readonly T[]): readonly T[] {
  if (Object.isFrozen(list)) return list;
  const growth = growths.get(list);
  for (const value of list.slice(growth?.frozen)) deepFreeze(value);
  if (growth !== undefined) growth.frozen = Math.max(growth.frozen ?? 0, list.length);
  return Object.freeze(list);
}

/** The growth of a long list that has grown; undefined: it is short, or has not grown. */
export function growthOf(list: readonly unknown[]): Growth | undefined {
  return growths.get(list);
}
