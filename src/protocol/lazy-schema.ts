// Schemas that are built on first use. Most schemas are for persisted runs and for values of
// foreign code. Building them all would take as long as importing everything else.

import { z } from "zod";

export { z };

/** Returns a function that builds a schema, or an object of schemas, on its first call. */
export function lazySchema<Schema extends object>(build: () => Schema): () => Schema {
  let built: Schema | undefined;
  return () => {
    built ??= build();
    return built;
  };
}

/** Returns a function that builds the schema of an object with these fields and no others. */
export function lazyObject<Shape extends z.core.$ZodLooseShape>(
  shape: () => Shape,
): () => z.ZodObject<Shape, z.core.$strict> {
  return lazySchema(() => z.strictObject(shape()));
}

/** Returns a function that builds a discriminated union. */
export function lazyUnion<
  const Options extends readonly [z.core.$ZodTypeDiscriminable, ...z.core.$ZodTypeDiscriminable[]],
  Key extends string,
>(key: Key, options: () => Options): () => z.ZodDiscriminatedUnion<Options, Key> {
  return lazySchema(() => z.discriminatedUnion(key, options()));
}

/** Returns one schema for several fields. */
export function repeatSchema<Schema, Name extends string>(
  schema: Schema,
  ...names: readonly Name[]
): Readonly<Record<Name, Schema>>;
export function repeatSchema(schema: unknown, ...names: readonly string[]): object {
  return Object.fromEntries(names.map((name) => [name, schema]));
}

/** A whole number of at least 0. */
export const CountSchema = lazySchema(() => z.int().nonnegative());
