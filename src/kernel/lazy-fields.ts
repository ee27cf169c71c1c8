// Objects with fields that are computed on first read, memoised and frozen.

import { deepFreeze } from "./json.ts";

const SOURCE = Symbol("source of the fields");

/** `console.log` calls this method and so shows values, not getters. */
const INSPECT = Symbol.for("nodejs.util.inspect.custom");

interface Sourced {
  readonly [SOURCE]: {
    readonly source: unknown;
    /** Values that were read. Created with the first value, because most objects are never read. */
    known: Map<string, unknown> | undefined;
  };
}

/**
 * Returns a function that adds these fields, computed from a source, to a plain object, and freezes
 * the object with all its earlier fields.
 *
 * All objects share the getters. A getter per object would retain its values until a full garbage
 * collection.
 */
export function defineLazyFields<Source, Values extends object>(compute: {
  readonly [Name in keyof Values]: (source: Source) => Values[Name];
}): <Known extends object>(known: Known, source: Source) => Known & Readonly<Values>;
export function defineLazyFields(
  compute: Readonly<Record<string, (source: unknown) => unknown>>,
): (object: object, source: unknown) => object {
  const getters: PropertyDescriptorMap = { [INSPECT]: { value: readValues } };
  for (const [name, valueOf] of Object.entries(compute))
    getters[name] = {
      enumerable: true,
      get(this: Sourced): unknown {
        const memo = this[SOURCE];
        memo.known ??= new Map();
        if (!memo.known.has(name)) memo.known.set(name, deepFreeze<unknown>(valueOf(memo.source)));
        return memo.known.get(name);
      },
    };
  return (object, source) => {
    for (const name of Object.keys(object)) deepFreeze<unknown>(Reflect.get(object, name));
    Object.defineProperty(object, SOURCE, { value: { source, known: undefined } });
    return Object.freeze(Object.defineProperties(object, getters));
  };
}

function readValues(this: object): object {
  return { ...this };
}
