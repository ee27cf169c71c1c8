// Goal: whatever a model writes, arguments are checked without an exception, reach a tool only if
// its schema accepts them, and are coerced only where they did not fit, without loss. A zod schema
// and its JSON Schema decide alike.
// Method: arbitrary schemas with values that nearly fit; arbitrary JSON, text and JSON Schemas. The
// schema itself is the oracle.

import * as fc from "fast-check";
import { expect, test } from "vitest";
import { z } from "zod";

import { EspalierError } from "../../src/kernel/error.ts";
import { deepFreeze, type JsonObject, type JsonValue } from "../../src/kernel/json.ts";
import { bindCall } from "../../src/tools/bind-call.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { describeProblems } from "../../src/tools/arguments/argument-problems.ts";
import { compileInput } from "../../src/tools/arguments/input-schema.ts";
import { jsonSchema } from "../../src/tools/json-schema.ts";
import { proves } from "../harness/proves.ts";

const RUNS = { numRuns: Number(process.env["FC_RUNS"] ?? 800) };
/** Creating the check of a JSON Schema is more expensive. */
const FEWER_RUNS = { numRuns: Number(process.env["FC_RUNS"] ?? 200) };
const LENIENT = { coerces: true };
const STRICT = { coerces: false };

/** A schema with values of which many fit or nearly fit. */
interface Kind {
  readonly schema: z.ZodType;
  readonly values: fc.Arbitrary<JsonValue>;
}

/** Field names as models write them, and hostile names. */
const KEYS = ["a", "b", "tags", "x y", "0", "length", "ключ"] as const;

const anyJson: fc.Arbitrary<JsonValue> = fc
  .jsonValue({ maxDepth: 3 })
  .map((value) => z.json().parse(value));

/** Values that fit, the same as text, and arbitrary values. */
function nearly(fitting: fc.Arbitrary<JsonValue>): fc.Arbitrary<JsonValue> {
  return fc.oneof(
    { weight: 16, arbitrary: fitting },
    { weight: 12, arbitrary: fitting.map(spelled) },
    { weight: 1, arbitrary: anyJson },
    {
      weight: 1,
      arbitrary: fc.constantFrom("", " 1", "0x10", "1e999", "1.0", "-0", "TRUE", "NaN"),
    },
  );
}

/** Scalars only: a container as text fits nowhere. */
function spelled(value: JsonValue): JsonValue {
  return typeof value === "object" ? value : String(value);
}

const numbers = fc.oneof(fc.integer(), fc.double({ noNaN: true, noDefaultInfinity: true }));
const texts = fc.string({ maxLength: 6 });

const scalar: fc.Arbitrary<Kind> = fc.constantFrom<Kind[]>(
  { schema: z.string(), values: nearly(texts) },
  { schema: z.string().min(2).max(4), values: nearly(texts) },
  { schema: z.number(), values: nearly(numbers) },
  { schema: z.number().min(0).lt(100), values: nearly(numbers) },
  { schema: z.int(), values: nearly(numbers) },
  { schema: z.int().min(-3).max(3), values: nearly(fc.integer({ min: -4, max: 4 })) },
  { schema: z.boolean(), values: nearly(fc.boolean()) },
  { schema: z.null(), values: nearly(fc.constant(null)) },
  { schema: z.enum(["a", "b", "1", "true"]), values: nearly(fc.constantFrom("a", "1", "true")) },
  { schema: z.literal([1, 2, true]), values: nearly(fc.constantFrom(1, 2, true)) },
  { schema: z.json(), values: anyJson },
);

/**
 * Every form of a schema except unions: a union takes the first form that fits, so its coercion is
 * not minimal.
 */
function kindsOf(part: fc.Arbitrary<Kind>): readonly fc.Arbitrary<Kind>[] {
  const fields = fc.dictionary(fc.constantFrom(...KEYS), fc.tuple(part, fc.boolean()), {
    maxKeys: 4,
  });
  return [
    fields.map((inner) => objectKind(inner, false)),
    fields.map((inner) => objectKind(inner, true)),
    part.map(({ schema, values }) => ({
      schema: z.array(schema).max(3),
      values: nearly(fc.array(values, { maxLength: 4 })),
    })),
    part.map(({ schema, values }) => ({
      schema: z.record(z.string(), schema),
      values: nearly(fc.dictionary(fc.constantFrom(...KEYS, "constructor"), values)),
    })),
    part.map(({ schema, values }) => ({
      schema: schema.nullable(),
      values: fc.oneof(fc.constant(null), values),
    })),
    fc.tuple(part, part).map(([first, second]) => ({
      schema: z.tuple([first.schema, second.schema]),
      values: nearly(fc.tuple(first.values, second.values)),
    })),
  ];
}

function objectKind(
  fields: Readonly<Record<string, readonly [Kind, boolean]>>,
  isStrict: boolean,
): Kind {
  const shape = Object.fromEntries(
    Object.entries(fields).map(([key, [{ schema }, isOptional]]) => [
      key,
      isOptional ? schema.optional() : schema,
    ]),
  );
  const given = Object.fromEntries(
    Object.entries(fields).map(([key, [{ values }]]) => [key, values]),
  );
  const required = Object.entries(fields).flatMap(([key, [, isOptional]]) =>
    isOptional ? [] : [key],
  );
  const extra = fc.dictionary(fc.constantFrom("extra", "toString"), anyJson, { maxKeys: 1 });
  const whole = fc
    .tuple(fc.record(given, { requiredKeys: required }), fc.oneof(fc.constant({}), extra))
    .map(([own, more]): JsonValue => ({ ...own, ...more }));
  return {
    schema: isStrict ? z.strictObject(shape) : z.object(shape),
    values: fc.oneof({ weight: 20, arbitrary: whole }, { weight: 1, arbitrary: anyJson }),
  };
}

/** Forms that a tag distinguishes, and forms without a tag. */
function unionsOf(part: fc.Arbitrary<Kind>): readonly fc.Arbitrary<Kind>[] {
  return [
    fc.tuple(part, part).map(([first, second]) => ({
      schema: z.union([first.schema, second.schema]),
      values: fc.oneof(first.values, second.values),
    })),
    fc.tuple(part, part).map(([first, second]) => ({
      schema: z.discriminatedUnion("k", [
        z.object({ k: z.literal("one"), a: first.schema }),
        z.object({ k: z.literal(2), a: second.schema }),
      ]),
      values: fc.oneof(
        first.values.map((a): JsonValue => ({ k: "one", a })),
        second.values.map((a): JsonValue => ({ k: 2, a })),
        second.values.map((a): JsonValue => ({ k: "2", a })),
        anyJson,
      ),
    })),
  ];
}

function treesOf(hasUnions: boolean): fc.Arbitrary<Kind> {
  const { part } = fc.letrec<{ part: Kind }>((tie) => ({
    part: fc.oneof(
      { maxDepth: 3, withCrossShrink: true },
      { weight: 3, arbitrary: scalar },
      ...kindsOf(tie("part")),
      ...(hasUnions ? unionsOf(tie("part")) : []),
    ),
  }));
  return fc
    .dictionary(fc.constantFrom(...KEYS), fc.tuple(part, fc.boolean()), { maxKeys: 4 })
    .map((fields) => objectKind(fields, false));
}

interface Case {
  readonly schema: z.ZodType;
  readonly value: JsonValue;
}

function casesOf(hasUnions: boolean): fc.Arbitrary<Case> {
  return treesOf(hasUnions).chain(({ schema, values }) =>
    values.map((value) => ({ schema, value: deepFreeze(structuredClone(value)) })),
  );
}

const anyCase = casesOf(true);

/** Returns the paths at which two values differ, with both parts. */
function differences(
  before: unknown,
  after: unknown,
  path: readonly string[] = [],
): readonly {
  readonly path: readonly string[];
  readonly before: unknown;
  readonly after: unknown;
}[] {
  if (Object.is(before, after)) return [];
  if (!isWhole(before) || !isWhole(after) || Array.isArray(before) !== Array.isArray(after)) {
    return [{ path, before, after }];
  }
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...keys].flatMap((key) =>
    differences(Reflect.get(before, key), Reflect.get(after, key), [...path, key]),
  );
}

function isWhole(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

proves(["R103"], "accepts exactly what the schema itself accepts, with the same result", () => {
  fc.assert(
    fc.property(anyCase, ({ schema, value }) => {
      const checked = compileInput("t.input", schema, LENIENT).check(value);
      const own = schema.safeParse(checked.type === "valid" ? checked.input : value);
      expect(own.success).toBe(checked.type === "valid");
      if (checked.type === "valid") expect(checked.value).toEqual(own.data);
    }),
    RUNS,
  );
});

proves(["R106"], "coerces without loss and only once, and leaves fitting values unchanged", () => {
  const seen = { coerced: 0, asWritten: 0, invalid: 0 };
  fc.assert(
    fc.property(anyCase, ({ schema, value }) => {
      const input = compileInput("t.input", schema, LENIENT);
      const checked = input.check(value);
      const isAsWritten = schema.safeParse(value).success;
      if (checked.type === "invalid") seen.invalid += 1;
      else if (isAsWritten) seen.asWritten += 1;
      else seen.coerced += 1;
      if (checked.type === "invalid") return;
      if (isAsWritten) expect(checked.input).toBe(value);
      for (const { before, after } of differences(value, checked.input)) {
        expect([typeof before, String(after)]).toEqual(["string", before]);
        expect(["number", "boolean"]).toContain(typeof after);
      }
      expect(input.check(checked.input)).toEqual(checked);
    }),
    RUNS,
  );
  expect(Math.min(...Object.values(seen)), "cases of each kind").toBeGreaterThan(RUNS.numRuns / 20);
});

proves(["R106"], "does not coerce text that the schema accepts as text", () => {
  fc.assert(
    fc.property(casesOf(false), ({ schema, value }) => {
      const checked = compileInput("t.input", schema, LENIENT).check(value);
      if (checked.type === "invalid") return;
      for (const { path, before } of differences(value, checked.input)) {
        const undone = structuredClone(checked.input);
        const owner = path
          .slice(0, -1)
          .reduce<unknown>((at, key) => Reflect.get(Object(at), key), undone);
        Reflect.set(Object(owner), path.at(-1) ?? "", before);
        expect(schema.safeParse(undone).success).toBe(false);
      }
    }),
    RUNS,
  );
});

proves(["R106"], "accepts what a strict schema accepts, without coercion", () => {
  fc.assert(
    fc.property(anyCase, ({ schema, value }) => {
      for (const input of [
        compileInput("t.input", schema, STRICT),
        compileInput("t.input", asJsonSchema(schema), STRICT),
      ]) {
        const checked = input.check(value);
        expect(checked.type === "valid").toBe(schema.safeParse(value).success);
        if (checked.type === "valid") expect(checked.input).toBe(value);
      }
    }),
    FEWER_RUNS,
  );
});

test("decides and coerces alike for a zod schema and its JSON Schema", () => {
  fc.assert(
    fc.property(casesOf(false), ({ schema, value }) => {
      const byZod = compileInput("t.input", schema, LENIENT).check(value);
      const byAjv = compileInput("t.input", asJsonSchema(schema), LENIENT).check(value);
      expect(byAjv.type).toBe(byZod.type);
      if (byZod.type === "valid") expect(byAjv).toMatchObject({ input: byZod.input });
      if (byAjv.type === "valid") expect(byAjv.value).toEqual(byAjv.input);
    }),
    FEWER_RUNS,
  );
});

// If a form of a union fails late, for example at a bound, zod reports only that form, so less can
// be coerced.
test("accepts by JSON Schema whatever the zod schema with unions accepts", () => {
  fc.assert(
    fc.property(anyCase, ({ schema, value }) => {
      const byZod = compileInput("t.input", schema, LENIENT).check(value);
      const byAjv = compileInput("t.input", asJsonSchema(schema), LENIENT).check(value);
      if (byZod.type === "valid") expect(byAjv.type).toBe("valid");
    }),
    FEWER_RUNS,
  );
});

function asJsonSchema(schema: z.ZodType): ReturnType<typeof jsonSchema> {
  return jsonSchema(compileInput("t.input", schema, LENIENT).jsonSchema);
}

proves(["R161"], "reports invalid arguments in few, short lines about the written text", () => {
  fc.assert(
    fc.property(anyCase, ({ schema, value }) => {
      for (const input of [schema, asJsonSchema(schema)]) {
        const checked = compileInput("t.input", input, LENIENT).check(value);
        if (checked.type === "valid") continue;
        expect(checked.problems.length).toBeGreaterThan(0);
        for (const { parameter, expected, received } of checked.problems) {
          expect(expected).not.toBe("");
          expect(`${parameter}${expected}${received}`).not.toMatch(/[\n\r]|undefinedundefined/);
          expect(received?.length ?? 0).toBeLessThanOrEqual(61);
        }
        const text = describeProblems("t", checked.problems);
        expect(text.split("\n").length).toBeLessThanOrEqual(13);
        expect(text.isWellFormed()).toBe(true);
      }
    }),
    FEWER_RUNS,
  );
});

proves(
  ["R103"],
  "never throws on model text, and passes only validated arguments to a tool",
  () => {
    const text = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.json({ maxDepth: 4 }),
      anyCase.map(({ value }) => JSON.stringify(value)),
      fc.constantFrom("[".repeat(100_000), '{"__proto__":{"a":1}}', '{"a":1e999}', '"\\ud800"', ""),
    );
    fc.assert(
      fc.property(treesOf(true), text, ({ schema }, argumentsText) => {
        const tool = defineTool({
          name: "work",
          description: "Works.",
          inputSchema: schema,
          execute: () => "done",
        });
        const bound = bindCall(tool, argumentsText);
        if (bound.type === "rejected") expect(bound.text).toMatch(/^The arguments of work /);
        else expect("input" in bound && schema.safeParse(bound.input).success).toBe(true);
      }),
      RUNS,
    );
  },
);

const KEYWORDS =
  "properties required $ref $id $defs anyOf oneOf allOf not if then items prefixItems additionalProperties patternProperties \
propertyNames enum const format pattern minimum $dynamicRef unevaluatedProperties contains dependentRequired $schema $async id \
nullable discriminator type $anchor".split(" ");

test("accepts any JSON as a schema that checks, or refuses it with the reason", () => {
  const part = fc.oneof(
    anyJson,
    treesOf(true).map(({ schema }) => z.json().parse(z.toJSONSchema(schema))),
  );
  const keyword = fc.constantFrom(...KEYWORDS);
  const value = fc.oneof(
    part,
    fc.array(part, { maxLength: 2 }),
    fc.constantFrom("#", "#/$defs/a", "a"),
  );
  const schemas = fc
    .dictionary(keyword, value, { maxKeys: 4 })
    .map((more): JsonObject => ({ type: "object", ...more }));
  fc.assert(
    fc.property(schemas, anyJson, (schema, json) => {
      let input;
      try {
        input = compileInput("t.input", jsonSchema(schema), LENIENT);
      } catch (cause) {
        expect(EspalierError.is(cause) && cause.code).toBe("invalid_argument");
        return;
      }
      for (const given of [json, {}, { a: json, b: { a: "1" } }]) {
        expect(["valid", "invalid"]).toContain(input.check(given).type);
      }
    }),
    RUNS,
  );
});
