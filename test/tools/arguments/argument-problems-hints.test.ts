// Goal: a model that misspelt a parameter name reads which name was meant. Rules that only zod has
// are described in words.
// Method: test each schema twice, as zod and as its JSON Schema; compare the lines that the model
// reads.

import { expect, test } from "vitest";
import { z } from "zod";

import { isMisspelt } from "../../../src/kernel/misspelling.ts";
import type { JsonValue } from "../../../src/kernel/json.ts";
import { describeProblemLines } from "../../../src/tools/arguments/argument-problems.ts";
import { compileInput, type ToolInput } from "../../../src/tools/arguments/input-schema.ts";
import { jsonSchema } from "../../../src/tools/json-schema.ts";
import { proves } from "../../harness/proves.ts";

const LENIENT = { coerces: true };

function lines(input: ToolInput, value: JsonValue): readonly string[] {
  const checked = compileInput("t.input", input, LENIENT).check(value);
  return checked.type === "invalid" ? describeProblemLines("arguments", checked.problems) : [];
}

function bothOf(input: z.ZodType): readonly (readonly [string, ToolInput])[] {
  return [
    ["zod", input],
    ["JSON Schema", jsonSchema(compileInput("t.input", input, LENIENT).jsonSchema)],
  ];
}

const STRICT = z.strictObject({
  maxResults: z.int().optional(),
  filter: z.strictObject({ color: z.string() }).optional(),
});

for (const [kind, input] of bothOf(STRICT)) {
  proves(["D667"], `${kind}: suggests the known name for an unknown one`, () => {
    expect([
      lines(input, { max_results: 3 }),
      lines(input, { filter: { color: "red", colour: "red" } }),
      lines(input, { fitler: {} }),
      lines(input, { query: "x" }),
    ]).toEqual([
      [
        'max_results: expected nothing: there is no such parameter, got 3. Did you mean "maxResults"?',
      ],
      ['filter.colour: expected nothing: there is no such parameter, got "red"'],
      ['fitler: expected nothing: there is no such parameter, got {}. Did you mean "filter"?'],
      ['query: expected nothing: there is no such parameter, got "x"'],
    ]);
  });
}

for (const [kind, input] of bothOf(z.object({ count: z.int(), from: z.string().optional() }))) {
  proves(["D667"], `${kind}: suggests the written name for a missing one`, () => {
    expect([lines(input, { cuont: 1 }), lines(input, { number: 1 }), lines(input, {})]).toEqual([
      ['count: expected an integer, but it is missing. Is "cuont" meant for it?'],
      ["count: expected an integer, but it is missing"],
      ["count: expected an integer, but it is missing"],
    ]);
  });
}

proves(["D667"], "does not suggest a name that the schema has itself", () => {
  const input = jsonSchema({
    type: "object",
    properties: { date: { type: "string" }, data: { type: "string" } },
    required: ["date"],
  });
  expect(lines(input, { data: "x" })).toEqual(["date: expected text, but it is missing"]);
});

proves(
  ["D667"],
  "suggests the known name for a property that no part of a schema evaluates",
  () => {
    const input = jsonSchema({
      type: "object",
      properties: { count: { type: "integer" } },
      unevaluatedProperties: false,
    });
    expect(lines(input, { cuont: 1 })).toEqual([
      'cuont: expected nothing: there is no such parameter, got 1. Did you mean "count"?',
    ]);
  },
);

test("looks for a misspelt name in its own object only", () => {
  const input = z.object({ rows: z.array(z.strictObject({ width: z.int() })) });
  expect([
    lines(input, { widht: 1, rows: [{}] }),
    lines(input, { rows: [{ widht: 1 }] }),
    lines(input, { rows: [{ ["widht".repeat(100_000)]: 1 }] })[0]?.length,
  ]).toEqual([
    ["rows[0].width: expected an integer, but it is missing"],
    [
      'rows[0].width: expected an integer, but it is missing. Is "widht" meant for it?',
      'rows[0].widht: expected nothing: there is no such parameter, got 1. Did you mean "width"?',
    ],
    "rows[0].width: expected an integer, but it is missing".length,
  ]);
});

test("distinguishes misspelt names from unrelated names", () => {
  const pairs = [
    ["count", "Count"],
    ["max_items", "maxItems"],
    ["colour", "color"],
    ["form", "from"],
    ["cuont", "count"],
    ["id", "ID"],
    ["id", "it"],
    ["x", "y"],
    ["", "a"],
    ["minimum", "maximum"],
    ["start", "end"],
    ["abcdef", "fedcba"],
  ] as const;
  expect(pairs.filter(([name, other]) => isMisspelt(name, other))).toEqual(pairs.slice(0, 6));
  expect(pairs.filter(([name, other]) => isMisspelt(other, name))).toEqual(pairs.slice(0, 6));
});

proves(["D712"], "describes a substring rule and an exact size in the words of zod", () => {
  const input = z.object({
    start: z.string().startsWith("ab"),
    end: z.string().endsWith("ab"),
    part: z.string().includes("ab"),
    size: z.string().length(3),
    list: z.array(z.int()).length(1),
  });
  expect(lines(input, { start: "x", end: "x", part: "x", size: "x", list: [1, 2] })).toEqual([
    'start: expected a value that its check accepts (Invalid string: must start with "ab"), got "x"',
    'end: expected a value that its check accepts (Invalid string: must end with "ab"), got "x"',
    'part: expected a value that its check accepts (Invalid string: must include "ab"), got "x"',
    'size: expected a value that its check accepts (Too small: expected string to have exactly 3 characters), got "x"',
    "list: expected a value that its check accepts (Too big: expected array to have exactly 1 items), got [1,2]",
  ]);
});

test("includes the author's messages for the forms of a union", () => {
  const input = z.object({ u: z.union([z.literal("a", "Say a."), z.number("Or a number.")]) });
  expect(lines(input, { u: true })).toEqual([
    'u: expected a number or "a" (Say a. Or a number.), got true',
  ]);
});

test("describes in words the rules that a transformed value breaks", () => {
  const list = z.array(z.any());
  const input = z.object({
    big: z.string().transform(BigInt).pipe(z.bigint().min(5n).multipleOf(3n)),
    map: list.transform(() => new Map([["k", 2]])).pipe(z.map(z.string(), z.number().min(3))),
    set: list.transform(() => new Set([1])).pipe(z.set(z.number()).min(3)),
  });
  expect(lines(input, { big: "4", map: [], set: [] })).toEqual([
    'big: expected at least 5, got "4"',
    'big: expected a value that its check accepts (Invalid number: must be a multiple of 3), got "4"',
    "map[k]: expected at least 3, but it is missing",
    "set: expected a length of at least 3, got []",
  ]);
});
