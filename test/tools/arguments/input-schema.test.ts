// Goal: an input schema is validated when the tool is defined, shown as plain JSON Schema, and
// checked alike whether it came from zod or from elsewhere.
// Method: test each schema twice, as zod and as its JSON Schema, and unusable schemas with one
// fault each.

import { expect, test } from "vitest";
import { z } from "zod";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { ScriptedModel } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { parseJson, type JsonObject, type JsonValue } from "../../../src/kernel/json.ts";
import type { ArgumentProblem } from "../../../src/tools/arguments/argument-problems.ts";
import type { Checked } from "../../../src/tools/arguments/check-input.ts";
import { compileInput, type ToolInput } from "../../../src/tools/arguments/input-schema.ts";
import {
  compileJsonSchemaInput,
  copyObjectSchema,
} from "../../../src/tools/arguments/json-schema-input.ts";
import { jsonSchema } from "../../../src/tools/json-schema.ts";
import { proves } from "../../harness/proves.ts";
import { unfrozenParts } from "../../support/frozen.ts";
import { thrownBy } from "../../support/thrown.ts";

const LENIENT = { coerces: true };

function check(input: ToolInput, value: JsonValue): Checked<unknown> {
  return compileInput("t.input", input, LENIENT).check(value);
}

function problems(input: ToolInput, value: JsonValue): readonly ArgumentProblem[] {
  const checked = check(input, value);
  return checked.type === "invalid" ? checked.problems : [];
}

function problem(parameter: string, expected: string, received?: string): ArgumentProblem {
  return { parameter, expected, received };
}

proves(["R105"], "accepts unknown fields unless the schema forbids them", () => {
  const given = { x: "a", more: 1 };
  // By default, zod strips unknown fields and JSON Schema passes them through.
  expect(check(z.object({ x: z.string() }), given)).toEqual({
    type: "valid",
    value: { x: "a" },
    input: given,
  });
  expect(check(z.looseObject({ x: z.string() }), given)).toMatchObject({ value: given });
  const open: JsonObject = { type: "object", properties: { x: { type: "string" } } };
  expect(check(jsonSchema(open), given)).toEqual({ type: "valid", value: given, input: given });
  const told = [problem("more", "nothing: there is no such parameter", "1")];
  expect(problems(z.strictObject({ x: z.string() }), given)).toEqual(told);
  expect(problems(jsonSchema({ ...open, additionalProperties: false }), given)).toEqual(told);
  expect(problems(jsonSchema({ ...open, unevaluatedProperties: false }), given)).toEqual(told);
});

function valueOf(owner: unknown, key: string): unknown {
  return Reflect.get(Object(owner), key);
}

test("does not log changes that a tool makes to its arguments", () => {
  for (const input of [z.object({ x: z.any() }), jsonSchema({ type: "object" })]) {
    const given = { x: { deep: [1] } };
    const checked = check(input, given);
    if (checked.type === "invalid") expect.unreachable("it fits");
    expect(checked).toEqual({ type: "valid", value: given, input: given });
    Reflect.set(Object(valueOf(checked.value, "x")), "deep", "changed");
    expect(given).toEqual({ x: { deep: [1] } });
    expect(checked.input).toEqual({ x: { deep: [1] } });
  }
});

test("applies defaults and transforms of zod, but not the defaults of a JSON Schema", () => {
  const own = z.object({ x: z.int().default(3), y: z.string().transform((text) => text.length) });
  expect(check(own, { y: "four" })).toEqual({
    type: "valid",
    value: { x: 3, y: 4 },
    input: { y: "four" },
  });
  const schema = { type: "object", properties: { x: { type: "integer", default: 3 } } };
  expect(check(jsonSchema(schema), {})).toEqual({ type: "valid", value: {}, input: {} });
});

test("exposes a frozen copy of the schema without its dialect", () => {
  const given = {
    $schema: "http://json-schema.org/draft-07/schema#",
    type: "object",
    properties: { x: { type: "string" } },
  };
  const marker = jsonSchema(given);
  const { jsonSchema: shown } = compileInput("t.input", marker, LENIENT);
  given.properties.x.type = "number";
  expect(shown).toEqual({ type: "object", properties: { x: { type: "string" } } });
  expect([...unfrozenParts(shown), ...unfrozenParts(marker)]).toEqual([]);
  expect(
    unfrozenParts(compileInput("t.input", z.object({ x: z.array(z.int()) }), LENIENT).jsonSchema),
  ).toEqual([]);
});

test("shows the type of a zod schema with an id at the top level", () => {
  interface Node {
    readonly next?: Node | undefined;
  }
  const node: z.ZodType<Node> = z.object({
    get next() {
      return node.optional();
    },
  });
  const { jsonSchema: shown } = compileInput("t.input", node.meta({ id: "Node_T" }), LENIENT);
  expect(shown["type"]).toBe("object");
  expect(check(jsonSchema(shown), { next: { next: {} } }).type).toBe("valid");
  expect(problems(jsonSchema(shown), { next: { next: 1 } })).toEqual([
    problem("next.next", "an object", "1"),
  ]);
});

const UNUSABLE_ZOD: readonly (readonly [string, () => unknown, string])[] = [
  ["a date", () => z.object({ a: z.date() }), "Date cannot be represented in JSON Schema"],
  ["a bigint", () => z.object({ a: z.bigint() }), "BigInt cannot be represented in JSON Schema"],
  ["a map", () => z.object({ a: z.map(z.string(), z.string()) }), "Map cannot be represented"],
  ["a set", () => z.object({ a: z.set(z.string()) }), "Set cannot be represented"],
  ["a custom type", () => z.object({ a: z.custom() }), "Custom types cannot be represented"],
  ["undefined", () => z.object({ a: z.undefined() }), "Undefined cannot be represented"],
  ["a file", () => z.object({ a: z.file() }), "A file cannot be expressed as JSON"],
  [
    "a promise",
    () => z.object({ a: z.promise(z.string()) }),
    "A promise cannot be expressed as JSON",
  ],
  ["an asynchronous check", () => z.object({ a: z.string().refine(async () => true) }), "An asyn"],
  ["an asynchronous transform", () => z.object({}).transform(async () => 1), "An asynchronous"],
  ["an asynchronous step before", () => z.preprocess(async (v) => v, z.object({})), "An async"],
];

/** Cases in which the schema as a whole cannot be used. */
const UNUSABLE_WHOLE = new Set(["an asynchronous transform", "an asynchronous step before"]);

proves(
  ["S7.37"],
  "reports a date in a schema with its path and a replacement, for a tool and for a typed result",
  () => {
    const visits = z.object({
      items: z.array(z.object({ properties: z.object({ when: z.coerce.date().optional() }) })),
    });
    const advice =
      "Date cannot be represented in JSON Schema. Use z.iso.datetime(): models write dates as text, and new Date(text) makes a Date of it.";
    const about = (place: string): string =>
      `Expected ${place} to be a schema that JSON Schema can express, got another one: ${advice}`;
    const model = new ScriptedModel([]);
    const tool = () =>
      defineTool({ name: "visit", description: "Visits.", inputSchema: visits, execute: () => "" });
    expect(thrownBy(tool).message).toBe(about("visit.inputSchema.items[].properties.when"));
    const role = () => defineAgent({ name: "guide", instructions: "Work.", model, output: visits });
    expect(thrownBy(role).message).toBe(about("guide.output.items[].properties.when"));
    const either = z.object({ at: z.union([z.string(), z.tuple([z.date()])]) });
    expect(thrownBy(() => compileInput("t.input", either, LENIENT)).message).toBe(
      about("t.input.at"),
    );
  },
);

for (const [what, make, reason] of UNUSABLE_ZOD) {
  test(`refuses ${what} in a zod schema when the tool is defined`, () => {
    const { code, message, data } = thrownBy(() =>
      Reflect.apply(compileInput, undefined, ["t.input", make(), LENIENT]),
    );
    const place = UNUSABLE_WHOLE.has(what) ? "t.input" : "t.input.a";
    expect([code, data]).toEqual(["invalid_argument", { field: place }]);
    expect(message).toContain(
      `Expected ${place} to be a schema that JSON Schema can express, got another one: ${reason}`,
    );
  });
}

for (const [what, make, got] of [
  ["text", () => z.string(), '"string"'],
  ["a union", () => z.discriminatedUnion("k", [z.object({ k: z.literal(1) })]), '"union"'],
  ["a JSON Schema as it is", () => ({ type: "object" }), "an object"],
  ["nothing", () => undefined, "undefined"],
] as const) {
  test(`refuses ${what}, which is not an object schema`, () => {
    const { code, message } = thrownBy(() =>
      Reflect.apply(compileInput, undefined, ["t.input", make(), LENIENT]),
    );
    const start = `Expected t.input to be a zod object schema, got ${got}. Use z.object({ … })`;
    expect([code, message.slice(0, start.length)]).toEqual(["invalid_argument", start]);
  });
}

const X = (x: JsonValue, more: JsonObject = {}): JsonObject => ({
  type: "object",
  properties: { x },
  ...more,
});

const UNUSABLE_JSON: readonly (readonly [string, JsonObject, string])[] = [
  ["a type that there is not", X({ type: "strin" }), "/properties/x/type must be equal to one of"],
  ["a list of fields in words", X({}, { required: "x" }), "/required must be array"],
  ["draft 4", X({ exclusiveMinimum: true }), "/properties/x/exclusiveMinimum must be number"],
  ["another document", X({ $ref: "https://example.com/s" }), "can't resolve reference https://exa"],
  ["a part that is missing", X({ $ref: "#/$defs/no" }), "can't resolve reference #/$defs/no"],
  ["a pattern that is none", X({ pattern: "(" }), "Invalid regular expression: /(/"],
  ["a pattern of another language", X({ pattern: "^a\\Z" }), "Invalid regular expression: /^a\\Z"],
  [
    "one id twice",
    { ...X({}), $defs: { a: { $id: "q" }, b: { $id: "q" } } },
    'reference "q" resol',
  ],
  ["an asynchronous schema", X({}, { $async: true }), "async schema referenced by sync schema"],
  ["a circle", X({}, { $ref: "#" }), "it refers to itself without end"],
  ["a name that objects mind", X(parseJson('{"__proto__":{}}')), "a key is named __proto__"],
];

for (const [what, schema, reason] of UNUSABLE_JSON) {
  test(`refuses ${what} in a JSON Schema when the tool is defined`, () => {
    const thrown = thrownBy(() =>
      compileJsonSchemaInput("t.input", copyObjectSchema("t.input", schema), true),
    );
    expect([thrown.code, thrown.data["field"]]).toEqual(["invalid_argument", "t.input"]);
    expect(thrown.message).toContain(
      `Expected t.input to be a JSON Schema that can be checked, got one that cannot: ${reason}`,
    );
  });
}

test("refuses a schema that is too long or nested too deeply", () => {
  let deep: JsonObject = {};
  for (let level = 0; level < 200; level += 1) deep = { properties: { x: deep } };
  const messages = [X({ description: "x".repeat(200_000) }), X(deep)].map(
    (schema) => thrownBy(() => jsonSchema(schema)).message,
  );
  expect(messages).toEqual([
    "Expected jsonSchema.schema to be a JSON Schema that can be checked, got one that cannot: it is longer than 200000 characters. Use a smaller schema.",
    "Expected jsonSchema.schema to be a JSON Schema that can be checked, got one that cannot: it is nested too deeply. Use a smaller schema.",
  ]);
});

for (const [what, schema, got] of [
  ["null", null, "null"],
  ["an array", [], "an array"],
  ["an empty object", {}, "an object"],
  ["the schema of text", { type: "string" }, '"string"'],
  ["a function", () => 1, "a function"],
] as const) {
  test(`refuses ${what}, which is not the JSON Schema of an object`, () => {
    const { code, message } = thrownBy(() => Reflect.apply(jsonSchema, undefined, [schema]));
    expect([code, message.split(". ")[0]]).toEqual([
      "invalid_argument",
      `Expected jsonSchema.schema to be a JSON Schema of an object, got ${got}`,
    ]);
  });
}

test("refuses a schema with a cycle or with a getter that throws", () => {
  const circle: Record<string, unknown> = { type: "object" };
  circle["self"] = circle;
  const trap = {
    get type(): string {
      throw new Error("no");
    },
  };
  for (const schema of [circle, trap]) {
    const { code } = thrownBy(() => Reflect.apply(jsonSchema, undefined, [schema]));
    expect(code).toBe("invalid_argument");
  }
});

test("keeps two schemas with the same $id separate", () => {
  const one = jsonSchema({ ...X({ type: "string" }), $id: "https://example.com/s" });
  const two = jsonSchema({ ...X({ type: "null" }), $id: "https://example.com/s" });
  expect([check(one, { x: "a" }).type, check(two, { x: "a" }).type]).toEqual(["valid", "invalid"]);
  expect(check(jsonSchema({ ...X({}), $id: "input:" }), {}).type).toBe("valid");
});

test("applies the rules of draft 7 if the schema declares or uses that draft", () => {
  const list = X({ type: "array", items: [{ type: "integer" }], additionalItems: false });
  const said = jsonSchema({ $schema: "http://json-schema.org/draft-07/schema#", ...list });
  for (const input of [said, jsonSchema(list)]) {
    expect(check(input, { x: ["1"] })).toMatchObject({ type: "valid", input: { x: [1] } });
    expect(check(input, { x: [1, 2] }).type).toBe("invalid");
  }
  const definitions = { y: { type: "integer" } };
  const referring = jsonSchema({ ...X({ $ref: "#/definitions/y" }), definitions });
  expect(problems(referring, { x: "z" })).toEqual([problem("x", "an integer", '"z"')]);
});

test("ignores unknown keywords and formats without a warning", () => {
  const schema = X({ type: "string", format: "colour", "x-hint": 1, example: "red" });
  expect(check(jsonSchema(schema), { x: "red" }).type).toBe("valid");
});

test("accepts patterns that are invalid in Unicode mode", () => {
  const input = jsonSchema(X({ type: "string", pattern: "^\\_[\\w\\-]{1,3}\\@}$" }));
  expect([check(input, { x: "_a-@}" }).type, check(input, { x: "a" }).type]).toEqual([
    "valid",
    "invalid",
  ]);
});
