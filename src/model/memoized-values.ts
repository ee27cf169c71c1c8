import { findGrowth, type Growth } from "../kernel/append-only-list.ts";

/** Memoises the result of `make` by the key, for as long as the key is reachable. */
export function getOrCompute<Key extends object, Value>(
  known: WeakMap<Key, Value>,
  key: Key,
  make: (key: Key) => Value,
): Value {
  const earlier = known.get(key);
  if (earlier !== undefined) return earlier;
  const value = make(key);
  known.set(key, value);
  return value;
}

/**
 * Memoises a value for each item of a list. For a list that grew by appending, only the new items
 * are read.
 */
export class MemoizedList<Key extends object, Value> {
  readonly #each = new WeakMap<Key, Value>();
  readonly #grown = new WeakMap<Growth, Value[]>();

  /** Returns the values in the order of the list. */
  getAll(list: readonly Key[], make: (key: Key) => Value): readonly Value[] {
    const growth = findGrowth(list);
    if (growth === undefined) return list.map((key) => getOrCompute(this.#each, key, make));
    const values = getOrCompute(this.#grown, growth, () => []);
    for (const key of list.slice(values.length)) values.push(getOrCompute(this.#each, key, make));
    return values.slice(0, list.length);
  }
}

/** Returns the object with further fields, which are computed whenever they are read. */
export function addComputedFields<Known extends object, Values extends object>(
  known: Known,
  compute: { readonly [Name in keyof Values]: () => Values[Name] },
): Known & Readonly<Values>;
export function addComputedFields(
  known: object,
  compute: Readonly<Record<string, () => unknown>>,
): object {
  for (const [name, get] of Object.entries(compute))
    Object.defineProperty(known, name, { enumerable: true, get });
  return known;
}
