// Goal: text is coerced to the number or boolean that it spells where the schema expects one. No
// other value ever changes.
// Method: check each text against each schema, as zod and as JSON Schema, also within lists,
// objects, records and unions. Runs show what the tool receives and what is persisted.

import { expect, test } from "vitest";
import { z } from "zod";

import { parseJson, type JsonValue } from "../../../src/kernel/json.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { compileInput, type ToolInput } from "../../../src/tools/arguments/input-schema.ts";
import { jsonSchema } from "../../../src/tools/json-schema.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";

/** Marks arguments that the schema rejects. */
const INVALID = "invalid";

/** Returns the arguments after coercion. */
function coerced(input: ToolInput, value: JsonValue, coerces = true): JsonValue {
  const checked = compileInput("t.input", input, { coerces }).check(value);
  return checked.type === "valid" ? checked.input : INVALID;
}

function bothOf(input: z.ZodType): readonly (readonly [string, ToolInput])[] {
  const shown = compileInput("t.input", input, { coerces: true }).jsonSchema;
  return [
    ["zod", input],
    ["JSON Schema", jsonSchema(shown)],
  ];
}

const NUMBERS: readonly (readonly [string, number])[] = [
  ["123", 123],
  ["0", 0],
  ["-1.5", -1.5],
  ["0.1", 0.1],
  ["9007199254740992", 2 ** 53],
  ["1e+21", 1e21],
  ["5e-324", 5e-324],
];

const NO_NUMBERS = [
  "",
  " ",
  " 1",
  "1 ",
  "+1",
  "-0",
  "01",
  "1.",
  ".5",
  "1.0",
  "1.50",
  "1e3",
  "1E+21",
  "0x10",
  "0b1",
  "1_000",
  "1,000",
  "1e999",
  "-1e999",
  "Infinity",
  "-Infinity",
  "NaN",
  "abc",
  "one",
  "true",
  "null",
  // The next integer cannot be represented exactly as a number.
  "9007199254740993",
  "0.1000000000000000055",
  "1٢",
  "１",
  "1n",
  "[1]",
  "1\n",
  "\u00a01",
];

const INTEGERS = ["123", "0", "-7", "9007199254740991"];
const NO_INTEGERS = ["1.5", "0.1", "9007199254740992", "1e+21", "1.0", ""];

for (const [kind, input] of bothOf(z.object({ x: z.number() }))) {
  for (const [text, number] of NUMBERS) {
    proves(["R106"], `${kind}: coerces ${text} to a number`, () => {
      expect(coerced(input, { x: text })).toEqual({ x: number });
    });
  }
  proves(["R106"], `${kind}: does not coerce text in an unusual number notation`, () => {
    expect(NO_NUMBERS.map((text) => [text, coerced(input, { x: text })])).toEqual(
      NO_NUMBERS.map((text) => [text, INVALID]),
    );
  });
}

for (const [kind, input] of bothOf(z.object({ x: z.int() }))) {
  proves(["R106"], `${kind}: coerces whole numbers to integers and rejects fractions`, () => {
    expect(INTEGERS.map((text) => coerced(input, { x: text }))).toEqual(
      INTEGERS.map((text) => ({ x: Number(text) })),
    );
    expect(NO_INTEGERS.map((text) => coerced(input, { x: text }))).toEqual(
      NO_INTEGERS.map(() => INVALID),
    );
  });
}

for (const [kind, input] of bothOf(z.object({ x: z.boolean() }))) {
  proves(["R106"], `${kind}: coerces only "true" and "false" to booleans`, () => {
    expect(["true", "false"].map((text) => coerced(input, { x: text }))).toEqual([
      { x: true },
      { x: false },
    ]);
    const others = ["TRUE", "True", "yes", "1", "0", "", " true", "on"];
    expect(others.map((text) => coerced(input, { x: text }))).toEqual(others.map(() => INVALID));
  });
}

// Both conversions would lose information: the text of a number, or the number of a text.
for (const [what, schema, given] of [
  ["a number to text", z.string(), 5],
  ["a boolean to text", z.string(), true],
  ["a number to a boolean", z.boolean(), 1],
  ["a boolean to a number", z.number(), true],
  ["text to null", z.null(), "null"],
  ["null to text", z.string(), null],
  ["text to a list", z.array(z.string()), "a"],
  ["JSON as text to a list", z.array(z.number()), "[1]"],
  ["JSON as text to an object", z.looseObject({}), "{}"],
  ["a list of one to its item", z.number(), [1]],
  ["a fraction to an integer", z.int(), 1.5],
  ["another case of a value", z.enum(["fast"]), "Fast"],
] as const) {
  for (const [kind, input] of bothOf(z.object({ x: schema }))) {
    test(`${kind}: does not coerce ${what}`, () => {
      expect(coerced(input, parseJson(JSON.stringify({ x: given })))).toBe(INVALID);
    });
  }
}

const NESTED: readonly (readonly [string, z.ZodType, JsonValue, JsonValue])[] = [
  ["an array", z.array(z.int()), ["1", 2, "3"], [1, 2, 3]],
  ["a list of lists", z.array(z.array(z.boolean())), [["true"], [false]], [[true], [false]]],
  ["an object", z.object({ a: z.object({ b: z.number() }) }), { a: { b: "1" } }, { a: { b: 1 } }],
  ["a record", z.record(z.string(), z.int()), { "": "1", "a/b~c": "2" }, { "": 1, "a/b~c": 2 }],
  ["a tuple", z.tuple([z.int(), z.string()]), ["1", "1"], [1, "1"]],
  ["null or a number", z.number().nullable(), "1", 1],
  ["an optional number", z.number().optional(), "1", 1],
  ["a value", z.literal(2), "2", 2],
  ["one of some values", z.literal([1, true]), "true", true],
  ["values of a union", z.union([z.number(), z.boolean()]), "false", false],
  ["a union that takes text", z.union([z.number(), z.string()]), "1", "1"],
  [
    "the form of a union that it makes fit",
    z.union([z.object({ a: z.number(), b: z.number() }), z.object({ a: z.string(), c: z.int() })]),
    { a: "1", c: "2" },
    { a: "1", c: 2 },
  ],
  [
    "the form that a tag names",
    z.discriminatedUnion("k", [
      z.object({ k: z.literal("n"), v: z.number() }),
      z.object({ k: z.literal("b"), v: z.boolean() }),
    ]),
    { k: "b", v: "true" },
    { k: "b", v: true },
  ],
  [
    "a tag that is a number",
    z.discriminatedUnion("k", [
      z.object({ k: z.literal(1), v: z.number() }),
      z.object({ k: z.literal(2), v: z.boolean() }),
    ]),
    { k: "2", v: "true" },
    { k: 2, v: true },
  ],
  [
    "unions within unions",
    z.union([z.null(), z.array(z.union([z.number(), z.object({ on: z.boolean() })]))]),
    ["1", { on: "true" }, 2],
    [1, { on: true }, 2],
  ],
  [
    "both sides of an intersection",
    z.intersection(z.object({ a: z.number() }), z.object({ b: z.boolean() })),
    { a: "1", b: "true" },
    { a: 1, b: true },
  ],
];

for (const [what, field, given, expected] of NESTED) {
  for (const [kind, input] of bothOf(z.object({ x: field }))) {
    proves(["R106"], `${kind}: coerces within ${what} and leaves other fields unchanged`, () => {
      const value = { x: given, besides: ["1", "true"] };
      const before = structuredClone(value);
      expect(coerced(input, value)).toEqual({ x: expected, besides: ["1", "true"] });
      expect(value).toEqual(before);
      expect(coerced(input, value, false)).toEqual(given === expected ? value : INVALID);
    });
  }
}

test("returns valid arguments as the same object", () => {
  const value = { x: "1", y: 2 };
  for (const [, input] of bothOf(z.object({ x: z.string(), y: z.int() }))) {
    expect(coerced(input, value)).toBe(value);
  }
});

test("coerces no argument if one of them cannot be coerced", () => {
  for (const [, input] of bothOf(z.object({ x: z.int(), y: z.int() }))) {
    expect(coerced(input, { x: "1", y: "z" })).toBe(INVALID);
  }
});

test("validates the coerced value", () => {
  const input = z.object({ x: z.int().refine((n) => n % 2 === 0) });
  expect([coerced(input, { x: "2" }), coerced(input, { x: "3" })]).toEqual([{ x: 2 }, INVALID]);
});

test("does not coerce the output of a transform or a preprocess function", () => {
  const later = z.object({
    x: z
      .string()
      .transform((text): unknown => text)
      .pipe(z.number()),
  });
  expect(coerced(later, { x: "5" })).toBe(INVALID);
  const first = z.object({
    x: z.preprocess((value) => ({ y: value }), z.object({ y: z.number() })),
  });
  expect(coerced(first, { x: "5" })).toBe(INVALID);
});

test("does not coerce a text if zod rejects only its preprocessed value", () => {
  const marked = z.preprocess((value) => (value === "5" ? "five" : value), z.number());
  expect(coerced(z.object({ x: marked }), { x: "5" })).toBe(INVALID);
  expect(coerced(z.object({ x: marked }), { x: "6" })).toEqual({ x: 6 });
});

test("coerces fields of a union member that other allOf parts constrain as well", () => {
  const union = { anyOf: [{ properties: { b: { type: "integer" } }, required: ["b"] }] };
  const part = { properties: { a: { type: "integer" } } };
  for (const allOf of [
    [union, part],
    [part, union],
  ]) {
    const input = jsonSchema({ type: "object", properties: { x: { allOf } } });
    expect(coerced(input, { x: { a: "1", b: "2" } })).toEqual({ x: { a: 1, b: 2 } });
  }
});

test("leaves z.coerce of zod unchanged", () => {
  const input = z.object({ x: z.coerce.number() });
  expect([coerced(input, { x: "0x10" }), coerced(input, { x: "abc" })]).toEqual([
    { x: "0x10" },
    INVALID,
  ]);
});

test("coerces fields whose names are inherited object properties", () => {
  const value = parseJson('{"constructor":"1","toString":"2","__proto__":"3","length":"4"}');
  const keys = ["constructor", "toString", "length"];
  const numbers = jsonSchema({ type: "object", additionalProperties: { type: "integer" } });
  const after = coerced(numbers, value);
  expect(JSON.stringify(after)).toBe('{"constructor":1,"toString":2,"__proto__":3,"length":4}');
  expect(Object.getPrototypeOf(after)).toBe(Object.prototype);
  expect(keys.map((key) => Object.hasOwn(Object.prototype, key))).toEqual([true, true, false]);
  const nested = parseJson('{"__proto__":{"admin":"true"}}');
  const flags = { type: "object", additionalProperties: { type: "boolean" } };
  coerced(jsonSchema({ type: "object", additionalProperties: flags }), nested);
  expect(Reflect.get({}, "admin")).toBeUndefined();
});

/** Runs a tool that expects a count, once with each of these arguments. */
async function counted(
  given: readonly string[],
  more: { readonly coerceArguments?: boolean } = {},
): Promise<{
  readonly seen: readonly unknown[];
  readonly kept: readonly string[];
  readonly told: readonly string[];
}> {
  const seen: unknown[] = [];
  const count = defineTool({
    name: "count",
    description: "Counts.",
    inputSchema: z.object({ n: z.int(), isLoud: z.boolean().optional() }),
    ...more,
    execute: (input) => {
      seen.push(input);
      return "counted";
    },
  });
  const script = given.map((argumentsText) => asks("count", argumentsText));
  const { role, model } = soloist([...script, says("done")], { tools: [count] });
  const { status } = await newFixture().run(role);
  expect(status).toBe("completed");
  const messages = model.requests.at(-1)?.messages ?? [];
  return {
    seen,
    kept: messages.flatMap((message) =>
      message.role === "assistant" ? message.toolCalls.map((call) => call.argumentsText) : [],
    ),
    told: messages.flatMap((message) => (message.role === "tool" ? [message.text] : [])),
  };
}

const GIVEN = ['{"n":"1.5"}', '{"n":"123"}', '{"n":"abc"}', '{"n":1,"isLoud":"true"}', '{"n":""}'];

proves(["R106"], "passes coerced arguments to the tool and persists them as written", async () => {
  const { seen, kept, told } = await counted(GIVEN);
  expect(seen).toEqual([{ n: 123 }, { n: 1, isLoud: true }]);
  expect(kept).toEqual(GIVEN);
  expect(told.map((text) => text.split("\n")[1] ?? text)).toEqual([
    '- n: expected an integer, got "1.5"',
    "counted",
    '- n: expected an integer, got "abc"',
    "counted",
    '- n: expected an integer, got ""',
  ]);
});

proves(
  ["R106"],
  "passes only exactly typed arguments to a tool with coerceArguments: false",
  async () => {
    const given = ['{"n":"123"}', '{"n":1}', '{"n":1,"isLoud":"true"}'];
    const { seen, told } = await counted(given, { coerceArguments: false });
    expect(seen).toEqual([{ n: 1 }]);
    expect(told.map((text) => text.split("\n")[1] ?? text)).toEqual([
      '- n: expected an integer, got "123"',
      "counted",
      '- isLoud: expected true or false, got "true"',
    ]);
  },
);
