// Goal: a model that wrote invalid arguments reads which parameter is wrong, what was expected and
// what it sent. The tool does not run. zod and JSON Schema report the same problems.
// Method: test each schema twice, as zod and as its JSON Schema, in scripted runs and by calling
// the check directly.

import { expect, test } from "vitest";
import { z } from "zod";

import { parseJson, type JsonObject, type JsonValue } from "../../../src/kernel/json.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import {
  describeProblems,
  type ArgumentProblem,
} from "../../../src/tools/arguments/argument-problems.ts";
import { compileInput, type ToolInput } from "../../../src/tools/arguments/input-schema.ts";
import { jsonSchema } from "../../../src/tools/json-schema.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";

const LENIENT = { coerces: true };

function problems(input: ToolInput, value: JsonValue): readonly ArgumentProblem[] {
  const checked = compileInput("t.input", input, LENIENT).check(value);
  return checked.type === "invalid" ? checked.problems : [];
}

function problem(parameter: string, expected: string, received?: string): ArgumentProblem {
  return { parameter, expected, received };
}

/** The schema of one field, as zod and as JSON Schema. */
function bothOf(field: z.ZodType): readonly (readonly [string, ToolInput])[] {
  const schema = z.object({ x: field });
  const shown = compileInput("t.input", schema, LENIENT).jsonSchema;
  return [
    ["zod", schema],
    ["JSON Schema", jsonSchema(shown)],
  ];
}

const SEARCH = z.object({
  count: z.int(),
  mode: z.enum(["fast", "deep"]),
  filter: z.object({ years: z.array(z.int()), label: z.string().min(2).optional() }),
});

/** Returns the text that the model reads about its call, and how often the tool ran. */
async function told(
  input: ToolInput,
  given: object,
): Promise<{ readonly text: string; readonly ran: number; readonly status: string }> {
  let ran = 0;
  const search = defineTool({
    name: "search",
    description: "Searches.",
    inputSchema: input,
    execute: () => (ran += 1),
  });
  const { role, model } = soloist([asks("search", given), says("done")], { tools: [search] });
  const { status } = await newFixture().run(role);
  const last = model.requests[1]?.messages.at(-1);
  return { text: last?.role === "tool" ? last.text : "", ran, status };
}

const BOTH: readonly (readonly [string, ToolInput])[] = [
  ["zod", SEARCH],
  ["JSON Schema", jsonSchema(compileInput("t.input", SEARCH, LENIENT).jsonSchema)],
];

const FITTING = { count: 1, mode: "fast", filter: { years: [1999] } };

for (const [kind, input] of BOTH) {
  proves(
    ["R103", "R161"],
    `${kind}: rejects a value of the wrong type without running the tool`,
    async () => {
      expect(await told(input, { ...FITTING, count: "x" })).toEqual({
        text: [
          "The arguments of search do not fit its schema:",
          '- count: expected an integer, got "x"',
          "Correct them and call search again.",
        ].join("\n"),
        ran: 0,
        status: "completed",
      });
    },
  );

  proves(["R103"], `${kind}: checks types within objects and lists`, async () => {
    const given = { ...FITTING, filter: { years: [1999, "two", 3.5], label: 5 } };
    const { text, ran } = await told(input, given);
    expect([ran, text.split("\n").slice(1, -1).toSorted()]).toEqual([
      0,
      [
        "- filter.label: expected text, got 5",
        '- filter.years[1]: expected an integer, got "two"',
        "- filter.years[2]: expected an integer, got 3.5",
      ],
    ]);
  });

  proves(["R104"], `${kind}: lists the allowed values for a value outside an enum`, async () => {
    const { text, ran } = await told(input, { ...FITTING, mode: "slow" });
    expect([ran, text.split("\n")[1]]).toEqual([
      0,
      '- mode: expected one of "fast", "deep", got "slow"',
    ]);
  });

  proves(["R105"], `${kind}: names a missing field`, async () => {
    const { text, ran } = await told(input, { count: 1, mode: "deep" });
    expect([ran, text.split("\n")[1]]).toEqual([
      0,
      "- filter: expected an object, but it is missing",
    ]);
  });

  test(`${kind}: runs the tool once with valid arguments`, async () => {
    expect(await told(input, FITTING)).toEqual({ text: "1", ran: 1, status: "completed" });
  });
}

const CONSTRAINTS: readonly (readonly [string, z.ZodType, JsonValue, string])[] = [
  ["a least number", z.number().min(3), 2, "at least 3"],
  ["a greatest number", z.int().max(3), 4, "at most 3"],
  ["whole numbers", z.int(), 1.5, "an integer"],
  ["a least length", z.string().min(2), "a", "a length of at least 2"],
  ["a greatest length", z.string().max(1), "ab", "a length of at most 1"],
  ["a least number of items", z.array(z.any()).min(1), [], "a length of at least 1"],
  ["a greatest number of items", z.array(z.any()).max(2), [1, 2, 3], "a length of at most 2"],
  ["a single value", z.literal("go"), "stop", '"go"'],
  ["a list of values", z.literal([1, 2]), 3, "one of 1, 2"],
  ["true or false", z.boolean(), "yes", "true or false"],
  ["nothing but null", z.null(), 0, "null"],
  ["scalars", z.union([z.number(), z.boolean()]), "x", "a number or true or false"],
  ["an object", z.record(z.string(), z.any()), [], "an object"],
];

for (const [what, field, given, expected] of CONSTRAINTS) {
  proves(["R104"], `${what}: zod and JSON Schema report the same problem`, () => {
    for (const [, input] of bothOf(field)) {
      expect(problems(input, { x: given })).toEqual([
        problem("x", expected, JSON.stringify(given)),
      ]);
    }
  });
}

/** A rule, zod's message for it, and the message for the JSON Schema keyword. */
const RARE_RULES: readonly (readonly [z.ZodType, JsonValue, string, string])[] = [
  [z.number().gt(3), 3, "Too small: expected number to be >3", "exclusiveMinimum: 3"],
  [z.number().lt(3), 3, "Too big: expected number to be <3", "exclusiveMaximum: 3"],
  [z.number().multipleOf(5), 7, "Invalid number: must be a multiple of 5", "multipleOf: 5"],
  [z.string().regex(/^a+$/), "b", "Invalid string: must match pattern /^a+$/", "pattern: /^a+$/"],
  [z.email(), "a", "Invalid email address", "format: email"],
];

for (const [field, given, words, keyword] of RARE_RULES) {
  proves(["R104", "D712"], `reports zod's message, or the JSON Schema keyword: ${keyword}`, () => {
    const [byZod, byAjv] = bothOf(field).map(([, input]) => problems(input, { x: given }));
    const received = JSON.stringify(given);
    expect(byZod).toEqual([problem("x", `a value that its check accepts (${words})`, received)]);
    // zod reports an email address as a pattern, too.
    expect(byAjv).toContainEqual(problem("x", `a value that fits ${keyword}`, received));
  });
}

test("describes the expected type of a missing field as far as its schema defines it", () => {
  const fields = {
    a: z.string().nullable(),
    b: z.literal("go"),
    c: z.array(z.string()),
    d: z.union([z.int(), z.object({ n: z.number() })]),
  };
  const expected = ["text or null", '"go"', "an array", "an integer or an object"];
  const shown = compileInput("t.input", z.object(fields), LENIENT).jsonSchema;
  expect(problems(jsonSchema(shown), {})).toEqual(
    Object.keys(fields).map((key, index) => problem(key, expected[index] ?? "")),
  );
});

test("reports required names that every object inherits as missing", () => {
  const required = ["constructor", "toString", "__proto__", "hasOwnProperty"];
  const schema = jsonSchema({ type: "object", required });
  expect(problems(schema, {})).toEqual(required.map((key) => problem(key, "a value")));
});

// Careless parsing drops the promise, and its unhandled rejection ends the process.
test("reports an asynchronous check as a validation issue and handles its rejection", async () => {
  const input = z.object({ x: z.string().refine(() => Promise.reject(new Error("broken"))) });
  expect(problems(input, { x: "a" })).toEqual([
    problem("", "a value that its check accepts (no asynchronous check can run)", '{"x":"a"}'),
  ]);
  await new Promise((resolve) => setImmediate(resolve));
});

function throwing(): never {
  throw new Error("line 1\nline 2");
}

test("rejects the arguments if a refinement or transform of the schema throws", () => {
  for (const input of [
    z.object({ x: z.string().refine(throwing) }),
    z.object({ x: z.string().transform(throwing) }),
    z.object({ x: z.union([z.number(), z.string().refine(throwing)]) }),
  ]) {
    const [first] = problems(input, { x: "a" });
    expect(first?.expected).toContain("a value that its check accepts (line 1 line 2)");
  }
});

test("reports a validation issue if the schema's error callback throws", () => {
  const input = z.object({
    x: z.number({
      error: () => {
        throw new Error("worded badly");
      },
    }),
  });
  expect(problems(input, { x: "a" })).toEqual([
    problem("", "a value that its check accepts (worded badly)", '{"x":"a"}'),
  ]);
});

test("rejects a value that is not JSON", () => {
  const circle: Record<string, unknown> = {};
  circle["self"] = circle;
  for (const value of [undefined, circle, () => 1, 5n, Symbol("s"), { x: () => 1 }]) {
    for (const input of [SEARCH, jsonSchema({ type: "object", required: ["y"] })]) {
      const { check } = compileInput("t.input", input, LENIENT);
      expect(Reflect.apply(check, undefined, [value])).toMatchObject({ type: "invalid" });
    }
  }
});

test("names the expected type and the received value in the text for the model", () => {
  expect(describeProblems("t", problems(SEARCH, []))).toBe(
    [
      "The arguments of t do not fit its schema:",
      "- arguments: expected an object, got []",
      "Correct them and call t again.",
    ].join("\n"),
  );
});

const FORMS = z.object({
  u: z.union([
    z.int(),
    z.object({ kind: z.literal("one"), n: z.number() }),
    z.object({ kind: z.literal("two"), on: z.boolean() }),
  ]),
});

const FORM_PROBLEMS: readonly (readonly [string, object, ArgumentProblem])[] = [
  ["none at all", {}, problem("u", "an integer or an object")],
  ["of no type", { u: "x" }, problem("u", "an integer or an object", '"x"')],
  ["an unknown tag", { u: { kind: "3" } }, problem("u.kind", 'one of "one", "two"', '"3"')],
  ["no tag", { u: { n: 1 } }, problem("u.kind", 'one of "one", "two"')],
  ["a known tag", { u: { kind: "two", on: 3 } }, problem("u.on", "true or false", "3")],
  ["a missing part", { u: { kind: "one", on: true } }, problem("u.n", "a number")],
  ["a missing part of a later form", { u: { kind: "two" } }, problem("u.on", "true or false")],
];

for (const [what, given, expected] of FORM_PROBLEMS) {
  test(`reports problems for the form of a union that was meant: ${what}`, () => {
    const shown = compileInput("t.input", FORMS, LENIENT).jsonSchema;
    const value = z.json().parse(given);
    expect(problems(FORMS, value)).toEqual([expected]);
    expect(problems(jsonSchema(shown), value)).toEqual([expected]);
  });
}

test("distinguishes forms behind a $ref and forms within forms", () => {
  const schema: JsonObject = {
    type: "object",
    properties: { u: { $ref: "#/$defs/any of~these %" } },
    $defs: {
      "any of~these %": { anyOf: [{ $ref: "#/$defs/leaf" }, { $ref: "#/$defs/node" }] },
      leaf: { type: "object", properties: { leaf: { type: "integer" } }, required: ["leaf"] },
      node: {
        type: "object",
        properties: { node: { $ref: "#/$defs/any of~these %" } },
        required: ["node"],
        additionalProperties: false,
      },
    },
  };
  const pointer = { ...schema, properties: { u: { $ref: "#/$defs/any%20of~0these%20%25" } } };
  const text = JSON.stringify(pointer).replaceAll(
    '{"$ref":"#/$defs/any of~these %"}',
    '{"$ref":"#/$defs/any%20of~0these%20%25"}',
  );
  const input = jsonSchema(z.record(z.string(), z.json()).parse(JSON.parse(text)));
  expect(problems(input, { u: { node: { node: { leaf: "x" } } } })).toEqual([
    problem("u.node.node.leaf", "an integer", '"x"'),
  ]);
  const { check } = compileInput("t.input", input, LENIENT);
  expect(check({ u: { node: { node: { leaf: "7" } } } })).toMatchObject({
    type: "valid",
    input: { u: { node: { node: { leaf: 7 } } } },
  });
});

proves(
  ["D712"],
  "reports a violation of any other JSON Schema keyword once, at its own path",
  () => {
    const input = jsonSchema({
      type: "object",
      properties: {
        contains: { contains: { type: "object", required: ["deep"] } },
        unique: { uniqueItems: true },
        not: { not: { type: "number" } },
        if: parseJson('{"if":{"type":"string"},"then":{"minLength":3}}'),
        no: false,
        all: { allOf: [{ minimum: 3 }, { minimum: 3 }, { type: "integer" }] },
      },
      propertyNames: { pattern: "^.{1,9}$" },
      dependentRequired: { no: ["because"] },
      maxProperties: 3,
    });
    const given = {
      contains: [1],
      unique: [1, 1],
      not: 1,
      if: "a",
      no: 0,
      all: 1,
      "too long a name": 1,
    };
    const other = "another name: its schema does not accept this one";
    const deep = '{"type":"object","required":["deep"]}';
    const found = problems(input, given).map(
      ({ parameter, expected }) => `${parameter}: ${expected}`,
    );
    expect(found.toSorted()).toEqual(
      [
        ": a value that fits maxProperties: 3",
        `["too long a name"]: ${other}`,
        "all: at least 3",
        "because: a value",
        `contains: a value that fits contains: ${deep}`,
        "if: a length of at least 3",
        "no: nothing: there is no such parameter",
        'not: a value that fits not: {"type":"number"}',
        "unique: a value that fits uniqueItems: true",
      ].toSorted(),
    );
  },
);

test("appends the message of the zod schema's author", () => {
  const input = z.object({
    a: z.string().min(3, "Give three letters."),
    b: z.number().refine((n) => n % 2 === 0, "must be even"),
    c: z.email("No address."),
    d: z.number().refine(() => false),
  });
  expect(problems(input, { a: "x", b: 3, c: "c", d: 1 })).toEqual([
    problem("a", "a length of at least 3 (Give three letters.)", '"x"'),
    problem("b", "a value that its check accepts (must be even)", "3"),
    problem("c", "a value that its check accepts (No address.)", '"c"'),
    problem("d", "a value that its check accepts", "1"),
  ]);
});

proves(["R161"], "shows the received value as JSON, shortened between characters", () => {
  const input = z.object({ x: z.number() });
  const shown = (x: JsonValue): string | undefined => problems(input, { x })[0]?.received;
  expect([shown("a\n\u2028b"), shown("\ud800"), shown([{ a: null }])]).toEqual([
    '"a\\n\u2028b"',
    '"\\ud800"',
    '[{"a":null}]',
  ]);
  expect(shown("x".repeat(1_000_000))).toBe(`"${"x".repeat(59)}…`);
  expect([shown("x".repeat(58)), shown("x".repeat(59))]).toEqual([
    `"${"x".repeat(58)}"`,
    `"${"x".repeat(59)}…`,
  ]);
  // A cut at 60 would split the thirtieth surrogate pair.
  expect(shown("😀".repeat(40))).toBe(`"${"😀".repeat(29)}…`);
});

function strays(count: number): JsonObject {
  return Object.fromEntries(Array.from({ length: count }, (_one, index) => [`k${index}`, 1]));
}

proves(["R161"], "reports ten problems and the number of the remaining ones", () => {
  const input = z.strictObject({});
  const ends = [10, 11, 49, 50, 100_000].map((count) =>
    describeProblems("t", problems(input, strays(count)))
      .split("\n")
      .slice(11, -1),
  );
  expect(ends).toEqual([
    [],
    ["… and 1 more"],
    ["… and 39 more"],
    ["… and at least 40 more"],
    ["… and at least 40 more"],
  ]);
});

test("quotes unusual property names in the path of a problem", () => {
  const input = z.object({ list: z.array(z.record(z.string(), z.number())) });
  const names = ["plain", "with-dash", "ключ", "a b", "a.b", "0", "", 'q"q', "line\nbreak"];
  const given = { list: [{}, Object.fromEntries(names.map((name) => [name, "x"]))] };
  expect(
    problems(input, given)
      .map(({ parameter }) => parameter)
      .toSorted(),
  ).toEqual(
    [
      "list[1].plain",
      "list[1].with-dash",
      "list[1].ключ",
      'list[1]["a b"]',
      'list[1]["a.b"]',
      'list[1]["0"]',
      'list[1][""]',
      'list[1]["q\\"q"]',
      'list[1]["line\\nbreak"]',
    ].toSorted(),
  );
  const [long] = problems(z.strictObject({}), { ["x".repeat(100_000)]: 1 });
  expect(long?.parameter).toBe(`["${"x".repeat(59)}…]`);
});

test("lists 20 allowed values and the number of the remaining ones", () => {
  const values = Array.from({ length: 25 }, (_one, index) => `v${index}`);
  for (const [, input] of bothOf(z.enum(values))) {
    const [found] = problems(input, { x: "y" });
    expect(found?.expected).toBe(
      `one of ${values
        .slice(0, 20)
        .map((value) => `"${value}"`)
        .join(", ")} … and 5 more`,
    );
  }
});

test("reports a rule violation of a coerced value, but not the coercion", () => {
  const input = z.object({ a: z.int().max(5), b: z.int() });
  expect(problems(input, { a: "9", b: "3" })).toEqual([problem("a", "at most 5", '"9"')]);
});
