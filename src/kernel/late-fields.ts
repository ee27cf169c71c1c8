// Objects of which some fields are worked out when they are first read, once, and frozen then.

import { deepFreeze } from "./json.ts";

const SOURCE = Symbol("what works them out");

/** `console.log` shows values with it, not getters. */
const INSPECT = Symbol.for("nodejs.util.inspect.custom");

interface Source {
  /** The first that has a field computes it. */
  readonly sources: readonly object[];
  /** The values that were read. Made with the first: most objects are kept unread. */
  known: Map<string, unknown> | undefined;
}

interface Sourced {
  readonly [SOURCE]: Source;
}

/** Getters by the name of their field. All objects share them: what a getter of one object alone holds is kept until a full garbage collection. */
export type LateFields<Name extends string> = ReadonlyMap<Name, PropertyDescriptor>;

export function lateFields<const Name extends string>(names: readonly Name[]): LateFields<Name> {
  const getter = (name: Name): PropertyDescriptor => ({
    enumerable: true,
    get(this: Sourced): unknown {
      const { sources } = this[SOURCE];
      const known = (this[SOURCE].known ??= new Map());
      const source = sources.find((one) => name in one);
      if (source !== undefined && !known.has(name))
        known.set(name, deepFreeze<unknown>(Reflect.get(source, name)));
      return known.get(name);
    },
  });
  return new Map(names.map((name) => [name, getter(name)]));
}

/**
 * Gives a plain object these fields, which one of the sources has under the same names, and freezes
 * it with all that it had before.
 */
export function addLateFields<
  Known extends object,
  First extends object,
  Name extends keyof (First & Second) & string,
  Second extends object = object,
>(
  object: Known,
  fields: LateFields<Name>,
  ...sources: readonly [First, Second?]
): asserts object is Known & Pick<First & Second, Name> {
  for (const name of Object.keys(object)) deepFreeze<unknown>(Reflect.get(object, name));
  Object.defineProperty(object, SOURCE, { value: { sources, known: undefined } });
  for (const [name, getter] of fields) Object.defineProperty(object, name, getter);
  Object.defineProperty(object, INSPECT, { value: withValues });
  Object.freeze(object);
}

function withValues(this: object): object {
  return { ...this };
}
