// Goal: whatever matches the strict form of a zod schema matches the schema itself, once the added
// nulls are removed.
// Method: random schemas of every kind that has a strict form, without rules that a strict form
// cannot express; values generated from the strict form alone.

import { Ajv2020 } from "ajv/dist/2020.js";
import * as fc from "fast-check";
import { expect } from "vitest";
import { z } from "zod";

import { isRecord, type JsonValue } from "../../src/kernel/json.ts";
import { finishTool } from "../../src/agent/typed-result.ts";
import { toStrictSchema, removeAddedNulls } from "../../src/model/strict-schema.ts";
import { compileInput } from "../../src/tools/arguments/input-schema.ts";
import { proves } from "../harness/proves.ts";

const RUNS = 300;
const KEYS = ["a", "b", "c"];

const { schema: schemas } = fc.letrec<{ schema: z.ZodType; leaf: z.ZodType }>((tie) => ({
  leaf: fc.constantFrom<z.ZodType>(
    z.string(),
    z.number().min(-5).max(5),
    z.int().max(3),
    z.boolean(),
    z.null(),
    z.enum(["x", "y"]),
    z.literal(["x", 1, true]),
    z.literal("y"),
  ),
  schema: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    tie("leaf"),
    tie("leaf").map((leaf) => leaf.describe("A leaf.")),
    tie("schema").map((item) => z.array(item).max(3)),
    tie("schema").map((inner) => z.nullable(inner)),
    fc.array(tie("schema"), { minLength: 1, maxLength: 3 }).map((options) => z.union(options)),
    objectOf(tie("schema")),
    fc
      .tuple(objectOf(tie("schema")), objectOf(tie("schema")))
      .map(([left, right]) =>
        z.discriminatedUnion("kind", [
          left.extend({ kind: z.literal("left") }),
          right.extend({ kind: z.literal("right") }),
        ]),
      ),
  ),
}));

/** Keys that are required, optional, or have a default. */
function objectOf(schemas: fc.Arbitrary<z.ZodType>): fc.Arbitrary<z.ZodObject> {
  const property = fc.tuple(schemas, fc.constantFrom("required", "optional", "nullish", "default"));
  return fc
    .dictionary(fc.constantFrom(...KEYS), property, { maxKeys: 3 })
    .map((properties) =>
      z.object(
        Object.fromEntries(
          Object.entries(properties).map(([key, [schema, presence]]) => [
            key,
            present(schema, presence),
          ]),
        ),
      ),
    );
}

function present(schema: z.ZodType, presence: string): z.ZodType {
  switch (presence) {
    case "optional":
      return schema.optional();
    case "nullish":
      return schema.nullish();
    case "default":
      return z.string().default("x");
    default:
      return schema;
  }
}

/** Values that match a schema in strict form. */
function valuesOf(schema: JsonValue | undefined): fc.Arbitrary<JsonValue> {
  const words = isRecord(schema) ? schema : {};
  const { anyOf, enum: values, type, properties, items, minimum, maximum } = words;
  if (isList(anyOf)) return fc.oneof(...anyOf.map(valuesOf));
  if (isList(values)) return fc.constantFrom(...values);
  if (isList(type)) return fc.oneof(...type.map((one) => valuesOf({ ...words, type: one })));
  switch (type) {
    case "string":
      return fc.constantFrom("", "x", "y", "left", "1");
    case "number": {
      const [min, max] = [Number(minimum ?? -9), Number(maximum ?? 9)];
      return fc.double({ min, max, noNaN: true });
    }
    case "integer":
      return fc.integer({ min: -9, max: Math.min(9, Number(maximum ?? 9)) });
    case "boolean":
      return fc.boolean();
    case "null":
      return fc.constant(null);
    case "array":
      return fc.array(valuesOf(items), { maxLength: 3 });
    default: {
      const parts = isRecord(properties) ? Object.entries(properties) : [];
      return fc.record(Object.fromEntries(parts.map(([key, part]) => [key, valuesOf(part)])));
    }
  }
}

function isList(value: JsonValue | undefined): value is readonly JsonValue[] {
  return Array.isArray(value);
}

/** The requirements of providers for each object. */
function objectsIn(schema: unknown): readonly Readonly<Record<string, unknown>>[] {
  if (Array.isArray(schema)) return schema.flatMap(objectsIn);
  if (!isRecord(schema)) return [];
  const within = Object.values(schema).flatMap(objectsIn);
  return isRecord(schema["properties"]) && schema["type"] === "object"
    ? [schema, ...within]
    : within;
}

const inputs = fc
  .dictionary(fc.constantFrom(...KEYS), schemas, { minKeys: 1, maxKeys: 3 })
  .chain((properties) => objectOf(schemas).map((object) => object.extend(properties)))
  .chain((input) => {
    const { jsonSchema } = compileInput("test", input, { coerces: false });
    const strict = toStrictSchema(jsonSchema);
    if (!strict.isStrict) throw new Error(`Expected a strict form: ${strict.reason}`);
    const { schema } = strict;
    return valuesOf(schema).map((value) => ({ input, jsonSchema, schema, value }));
  });

proves(["M19"], "accepts values of the strict form once the added nulls are removed", () => {
  fc.assert(
    fc.property(inputs, ({ input, jsonSchema, schema, value }) => {
      expect(new Ajv2020({ strict: false }).validate(schema, value)).toBe(true);
      const read = input.safeParse(removeAddedNulls(value, jsonSchema));
      expect(read.error?.issues ?? []).toEqual([]);
    }),
    { numRuns: RUNS },
  );
});

proves(["M19"], "requires every key of a strict form and permits no others", () => {
  fc.assert(
    fc.property(inputs, ({ schema }) => {
      for (const { properties, required, additionalProperties } of objectsIn(schema)) {
        expect([required, additionalProperties]).toEqual([Object.keys(properties ?? {}), false]);
      }
    }),
    { numRuns: RUNS },
  );
});

/** A result of any root type that has a strict form, with a matching value. */
const results = fc
  .oneof(
    objectOf(schemas),
    schemas.map((item) => z.array(item)),
    fc.array(schemas, { minLength: 1, maxLength: 3 }).map((options) => z.union(options)),
  )
  .chain((output) => {
    const finish = finishTool("test.output", output);
    const strict = toStrictSchema(finish.inputSchema);
    if (!strict.isStrict) throw new Error(`Expected a strict form: ${strict.reason}`);
    return valuesOf(strict.schema).map((value) => ({ output, finish, value }));
  });

proves(["M56"], "accepts values of the strict form of a result, wrapped or not", () => {
  fc.assert(
    fc.property(results, ({ output, finish, value }) => {
      const bound = finish.bind(value);
      expect(bound.type).toBe("valid");
      if (bound.type === "valid") expect(output.safeParse(bound.use).error).toBeUndefined();
    }),
    { numRuns: RUNS },
  );
});
