// Goal: a schema is converted to strict form if it has one; otherwise the reason is reported.
// Method: zod schemas of every kind, and JSON Schemas that zod does not write; whole schemas are
// compared.

import { describe, expect, test } from "vitest";
import { z } from "zod";

import type { JsonObject } from "../../src/kernel/json.ts";
import { toStrictSchema, removeAddedNulls } from "../../src/model/strict-schema.ts";
import { compileInput } from "../../src/tools/arguments/input-schema.ts";
import { proves } from "../harness/proves.ts";

function schemaOf(input: z.ZodType): JsonObject {
  return compileInput("test", input, { coerces: true }).jsonSchema;
}

function propertyOf(input: z.ZodType): unknown {
  const strict = toStrictSchema(schemaOf(z.object({ k: input })));
  if (!strict.isStrict) return strict.reason;
  const { properties, ...rest } = strict.schema;
  expect(rest).toEqual({ type: "object", required: ["k"], additionalProperties: false });
  return Object.entries(properties ?? {})[0]?.[1];
}

const NULL = { type: "null" };

describe("a schema in strict form", () => {
  test.each<[string, z.ZodType, unknown]>([
    [
      "an optional key is required, and may be null",
      z.string().optional(),
      { anyOf: [{ type: "string" }, NULL] },
    ],
    [
      "so is one with a default, which is ours to fill in",
      z.boolean().default(true),
      { anyOf: [{ type: "boolean" }, NULL] },
    ],
    [
      "one that may be null anyway is only required",
      z.string().nullish(),
      { type: ["string", "null"] },
    ],
    ["a literal is an enum", z.literal("x"), { type: "string", enum: ["x"] }],
    ["an enum stays", z.enum(["x", "y"]), { type: "string", enum: ["x", "y"] }],
    ["lengths go, zod still checks them", z.string().min(1).max(5), { type: "string" }],
    ["bounds stay", z.number().min(1).max(5), { type: "number", minimum: 1, maximum: 5 }],
    [
      "so do the lengths of lists",
      z.array(z.string()).min(1),
      { type: "array", items: { type: "string" }, minItems: 1 },
    ],
    [
      "a description stays",
      z.string().describe("A word."),
      { type: "string", description: "A word." },
    ],
    [
      "a format that providers know stays",
      z.uuid(),
      expect.objectContaining({ type: "string", format: "uuid" }),
    ],
    ["one that they do not goes", z.url(), { type: "string" }],
    ["a pattern stays", z.string().regex(/^a+$/), { type: "string", pattern: "^a+$" }],
    ["unless it looks around", z.string().regex(/^(?!b)a+$/), { type: "string" }],
    [
      "an object within is one, too",
      z.object({ a: z.string() }).optional(),
      {
        anyOf: [
          {
            type: "object",
            properties: { a: { type: "string" } },
            required: ["a"],
            additionalProperties: false,
          },
          NULL,
        ],
      },
    ],
    [
      "a discriminated union is a choice",
      z.discriminatedUnion("t", [z.object({ t: z.literal("x") }), z.object({ t: z.literal("y") })]),
      {
        anyOf: ["x", "y"].map((value) => ({
          type: "object",
          properties: { t: { type: "string", enum: [value] } },
          required: ["t"],
          additionalProperties: false,
        })),
      },
    ],
  ])("%s", (_what, input, expected) => {
    expect(propertyOf(input)).toEqual(expected);
  });

  proves(["M19"], "preserves recursion", () => {
    const Node = z.object({
      value: z.string(),
      get next() {
        return Node.optional();
      },
    });
    expect(toStrictSchema(schemaOf(z.object({ first: Node })))).toEqual({
      isStrict: true,
      schema: {
        type: "object",
        properties: { first: { $ref: "#/$defs/__schema0" } },
        required: ["first"],
        additionalProperties: false,
        $defs: {
          __schema0: {
            type: "object",
            properties: {
              value: { type: "string" },
              next: { anyOf: [{ $ref: "#/$defs/__schema0" }, NULL] },
            },
            required: ["value", "next"],
            additionalProperties: false,
          },
        },
      },
    });
  });
});

describe("the reason why a schema has no strict form", () => {
  const wide = (count: number): JsonObject => ({
    type: "object",
    properties: Object.fromEntries(
      Array.from({ length: count }, (_key, index) => [`k${index}`, { type: "string" }]),
    ),
  });
  const deep = (levels: number): JsonObject =>
    levels === 1
      ? { type: "object", properties: {} }
      : { type: "object", properties: { k: deep(levels - 1) } };
  const values = (count: number): JsonObject => ({
    type: "object",
    properties: { k: { enum: Array.from({ length: count }, (_value, index) => index) } },
  });
  const within = (k: JsonObject): JsonObject => ({ type: "object", properties: { k } });

  test.each<[string, JsonObject | z.ZodType, string | undefined]>([
    ["a record", z.object({ m: z.record(z.string(), z.number()) }), ".m: a record of any keys"],
    [
      "an object from elsewhere that names no keys",
      within({ type: "object" }),
      ".k: a record of any keys",
    ],
    ["a loose object", z.object({ m: z.looseObject({}) }), ".m: an object that allows other keys"],
    ["anything", z.object({ m: z.object({ n: z.any() }) }), ".m.n: anything"],
    ["a list of anything", within({ type: "array" }), ".k[]: anything"],
    ["a tuple", z.object({ m: z.array(z.tuple([z.string()])) }), ".m[]: a tuple"],
    ["an old tuple", within({ type: "array", items: [{ type: "string" }] }), ".k: a tuple"],
    [
      "an intersection",
      within({ allOf: [{ type: "string" }, { type: "number" }] }),
      ".k: an intersection",
    ],
    ["a negation", within({ not: { type: "string" } }), ".k: a negation (not)"],
    ["a pattern of keys", within({ patternProperties: {} }), ".k: a record of any keys"],
    ["a root that is a choice", { anyOf: [{ type: "object" }] }, ".: not an object schema"],
    [
      "a key that is required and not described",
      { ...within({ type: "string" }), required: ["x"] },
      ".x: anything",
    ],
    ["a definition that has none", { ...deep(1), $defs: { d: {} } }, ".$defs.d: anything"],
    ["too many keys", wide(5001), ".: more than 5000 keys"],
    ["just as many as there may be", wide(5000), undefined],
    ["too many levels", deep(11), `${".k".repeat(10)}: deeper than 10 levels`],
    ["just as many as there may be", deep(10), undefined],
    ["too many values", values(1001), ".k: more than 1000 enum values"],
    ["just as many as there may be", values(1000), undefined],
  ])("%s", (_what, input, reason) => {
    const strict = toStrictSchema(input instanceof z.ZodType ? schemaOf(input) : input);
    expect(strict.isStrict ? undefined : strict.reason).toBe(reason);
  });

  test("is not given for an intersection of one schema, which is unwrapped", () => {
    const schema = within({ allOf: [{ type: "string" }], description: "A word." });
    expect(toStrictSchema({ ...schema, required: ["k"] })).toMatchObject({
      schema: { properties: { k: { type: "string", description: "A word." } } },
    });
  });
});

proves(["M19"], "removes only nulls that stand for omitted values", () => {
  const input = z.object({
    optional: z.string().optional(),
    nullable: z.string().nullable().optional(),
    list: z.array(z.object({ deep: z.number().optional() })),
    choice: z.union([
      z.object({ a: z.number().max(1), b: z.string().optional() }),
      z.object({ a: z.number(), b: z.string().nullable() }),
    ]),
  });
  const left = { list: [{ deep: null }], choice: { a: 0, b: null }, other: null };
  expect(removeAddedNulls({ optional: null, nullable: null, ...left }, schemaOf(input))).toEqual({
    nullable: null,
    list: [{}],
    choice: { a: 0, b: null },
    other: null,
  });
  const bounded = z.object({
    choice: z.union([
      z.object({ a: z.number().max(1), b: z.string().optional(), c: z.string().nullable() }),
      z.object({ a: z.number(), b: z.string().nullable(), c: z.string().optional() }),
    ]),
  });
  const between = { choice: { a: 5, b: null, c: null } };
  expect(removeAddedNulls(between, schemaOf(bounded))).toEqual({ choice: { a: 5, b: null } });
  expect(removeAddedNulls({ list: null, optional: 7 }, schemaOf(input))).toEqual({
    list: null,
    optional: 7,
  });
});

test("returns the value unchanged if a schema refers only to itself or to nothing", () => {
  const schema = {
    type: "object",
    properties: { k: { $ref: "#/$defs/loop" }, n: { $ref: "#/$defs/none" } },
    required: ["k"],
    $defs: { loop: { anyOf: [{ $ref: "#/$defs/loop" }] } },
  };
  expect(removeAddedNulls({ k: { a: null }, n: null }, schema)).toEqual({
    k: { a: null },
    n: null,
  });
});
