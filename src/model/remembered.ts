import { findGrowth, type Growth } from "../kernel/grown.ts";

/** What `make` gives for a key, which is made once and kept for as long as the key lives. */
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

/** What is made of each value of a list: once for as long as the value lives, and of a list that has grown only for what is new. */
export class RememberedEach<Key extends object, Value> {
  readonly #each = new WeakMap<Key, Value>();
  readonly #grown = new WeakMap<Growth, Value[]>();

  /** In the order of the list. */
  of(list: readonly Key[], make: (key: Key) => Value): readonly Value[] {
    const growth = findGrowth(list);
    if (growth === undefined) return list.map((key) => getOrCompute(this.#each, key, make));
    const made = getOrCompute(this.#grown, growth, () => []);
    for (const key of list.slice(made.length)) made.push(getOrCompute(this.#each, key, make));
    return made.slice(0, list.length);
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
