// `z` of zod for schemas at the top of a module: each is built when it is first used. Most of ours are for runs that are kept and for what
// foreign code gives; to build them all would take as long as importing all the rest.
// L1. What stands for a schema can do all that it can, and has its type. Code that is handed one may take it for the schema.
// L2. A schema is built of schemas, never of what stands for one: checking costs what it always does.

import { z as zod } from "zod";

/** Names of `z` that make a schema. All others are zod's own. */
const MAKING: ReadonlySet<PropertyKey> = new Set(
  `array boolean custom discriminatedUnion enum int json literal looseObject number object partialRecord preprocess record strictObject
  string union unknown`.split(/\s+/),
);
/** Methods of a schema that make another one. */
const REMAKING: ReadonlySet<PropertyKey> = new Set(
  `brand default exactOptional exclude extend max merge min nonnegative nullable omit optional partial positive readonly refine regex
  superRefine transform trim`.split(/\s+/),
);

type Build = () => object;

/** By what stands for a schema. */
const builds = new WeakMap<object, Build>();

export const z: typeof zod = new Proxy(
  { ...zod },
  {
    get: (target, name): unknown =>
      MAKING.has(name)
        ? (...given: unknown[]) => late(target, name, given)
        : Reflect.get(target, name),
  },
);

/** Its types, which a constant cannot have. */
export declare namespace z {
  type infer<Schema> = zod.infer<Schema>;
  type ZodType<Output = unknown, Input = unknown> = zod.ZodType<Output, Input>;
  type RefinementCtx<Output = unknown> = zod.RefinementCtx<Output>;
  type ZodRawShape = zod.ZodRawShape;
  type ZodObject<Shape extends ZodRawShape, Config extends core.$strict> = zod.ZodObject<
    Shape,
    Config
  >;
  namespace core {
    type $strict = zod.core.$strict;
    type $ZodType<Output = unknown, Input = unknown> = zod.core.$ZodType<Output, Input>;
  }
}

/** What stands for the schema that `of[name](...given)` gives. */
function late(of: object, name: PropertyKey, given: readonly unknown[]): object {
  let built: object | undefined;
  const build = (): object => {
    if (built !== undefined) return built;
    const from = builds.get(of)?.() ?? of;
    const make: unknown = Reflect.get(from, name);
    const schema: unknown =
      typeof make === "function" ? Reflect.apply(make, from, given.map(whole)) : undefined;
    if (typeof schema !== "object" || schema === null)
      throw new TypeError(`Expected ${String(name)} to make a schema.`);
    built = schema;
    return schema;
  };
  const placeholder: object = new Proxy(
    {},
    {
      get: (_target, key): unknown =>
        REMAKING.has(key)
          ? (...more: unknown[]) => late(placeholder, key, more)
          : Reflect.get(build(), key),
      has: (_target, key) => Reflect.has(build(), key),
      getPrototypeOf: () => Reflect.getPrototypeOf(build()),
    },
  );
  builds.set(placeholder, build);
  return placeholder;
}

/** A value with schemas in the place of what stands for them (L2). */
function whole(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  const build = builds.get(value);
  if (build !== undefined) return build();
  if (Array.isArray(value)) return value.map(whole);
  if (Object.getPrototypeOf(value) !== Object.prototype) return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, whole(one)]));
}
