// Goal: a stored typed result is checked against the current schema, and rejected only if that
// schema excludes it.
// Method: a result is parsed by one schema, stored, and checked against another; the problems are
// compared as lines.

import { expect } from "vitest";
import { z } from "zod";

import {
  finishTool,
  createParsedOutput,
  findOutputProblems,
} from "../../src/agent/typed-result.ts";
import type { JsonValue } from "../../src/kernel/json.ts";
import { describeProblemLines } from "../../src/tools/arguments/argument-problems.ts";
import type { ToolInput } from "../../src/tools/arguments/input-schema.ts";
import { jsonSchema } from "../../src/tools/json-schema.ts";
import { proves } from "../harness/proves.ts";
import { soloist } from "../harness/soloist.ts";

function roleWith(output: ToolInput) {
  return soloist([], { output }).role;
}

function stored(schema: ToolInput, written: JsonValue) {
  const tool = finishTool("role.output", schema);
  const bound = tool.bind(written);
  if (bound.type === "invalid") throw new Error("The result fits the first schema.");
  const { output = null, outputParse } = createParsedOutput(schema, bound);
  return { output, outputParse };
}

/** Returns the problem lines of a result that `former` parsed, under the schema `present`. */
function problems(former: ToolInput, written: JsonValue, present: ToolInput): readonly string[] {
  const { output, outputParse } = stored(former, written);
  const found = findOutputProblems(roleWith(present), output, outputParse);
  return describeProblemLines("the result", found);
}

const count = z.object({ count: z.number() });
const read = z.object({ count: z.string().transform(Number) });
const numbers = z.array(z.number());

proves(["D416"], "accepts a result that the current schema leaves unchanged", () => {
  expect({
    "the same schema": problems(count, { count: 1 }, count),
    "another description": problems(count, { count: 1 }, count.describe("A count.")),
    "a field that may be left out": problems(
      count,
      { count: 1 },
      z.object({ count: z.number(), note: z.string().optional() }),
    ),
    "a wider field": problems(
      count,
      { count: 1 },
      z.object({ count: z.union([z.number(), z.string()]) }),
    ),
    "an array": problems(numbers, [1], z.array(z.union([z.number(), z.string()]))),
    "a list under its key": problems(numbers, { result: [1] }, numbers.describe("Counts.")),
    "a JSON Schema": problems(
      jsonSchema({ type: "object", properties: { count: { type: "number" } } }),
      { count: 1 },
      jsonSchema({ type: "object", properties: { count: { type: "integer" } } }),
    ),
  }).toEqual({
    "the same schema": [],
    "another description": [],
    "a field that may be left out": [],
    "a wider field": [],
    "an array": [],
    "a list under its key": [],
    "a JSON Schema": [],
  });
});

proves(["D416"], "accepts a transformed result by the value that the model wrote", () => {
  let parses = 0;
  const numbered = z
    .object({ name: z.string() })
    .transform(({ name }) => ({ name, id: (parses += 1) }));
  const unpacked = z.object({ result: z.number() }).transform(({ result }) => result);
  expect({
    "the same transform": problems(read, { count: "5" }, read),
    "the same transform, described": problems(read, { count: "5" }, read.describe("A count.")),
    "a type without the transform": problems(read, { count: "5" }, count),
    "a value that each parse makes anew": problems(numbered, { name: "a" }, numbered),
    "a value under the key of lists": problems(unpacked, { result: 5 }, unpacked.describe("Five.")),
  }).toEqual({
    "the same transform": [],
    "the same transform, described": [],
    "a type without the transform": [],
    "a value that each parse makes anew": [],
    "a value under the key of lists": [],
  });
});

proves(["D416"], "stores the written value only if parsing changed it", () => {
  const writtenOf = (schema: ToolInput, written: JsonValue): unknown =>
    stored(schema, written).outputParse?.written;
  expect([
    writtenOf(count, { count: 1 }),
    writtenOf(numbers, [1]),
    writtenOf(numbers, { result: [1] }),
    writtenOf(read, { count: "5" }),
  ]).toEqual([undefined, undefined, undefined, { count: "5" }]);
});

proves(["D416"], "names each field of a rejected result", () => {
  const two = z.object({ count: z.number(), note: z.string() });
  const hundredfold = z.object({
    count: z
      .string()
      .min(1)
      .transform((text) => Number(text) * 100),
  });
  expect({
    "another type": problems(count, { count: 1 }, z.object({ count: z.boolean() })),
    "a further field": problems(count, { count: 1 }, two),
    "a default": problems(
      count,
      { count: 1 },
      z.object({ count: z.number(), note: z.string().default("none") }),
    ),
    "a field less": problems(two, { count: 1, note: "n" }, count),
    "text for a number": problems(z.object({ count: z.string() }), { count: "5" }, count),
    "fewer values": problems(
      z.object({ size: z.enum(["s", "m"]) }),
      { size: "m" },
      z.object({ size: z.enum(["s", "l"]) }),
    ),
    "another transform": problems(read, { count: "5" }, hundredfold),
    "a transform of what had none": problems(z.object({ count: z.string() }), { count: "5" }, read),
    "a list of other items": problems(numbers, [1], z.array(z.object({ n: z.number() }))),
    "an object for a list": problems(numbers, [1], count),
  }).toEqual({
    "another type": ["count: expected true or false, got 1"],
    "a further field": ["note: expected text, but it is missing"],
    "a default": ['note: expected "none", but it is missing'],
    "a field less": ['note: expected nothing: there is no such parameter, got "n"'],
    "text for a number": ['count: expected 5, got "5"'],
    "fewer values": ['size: expected one of "s", "l", got "m"'],
    "another transform": ["count: expected 500, got 5"],
    "a transform of what had none": ['count: expected 5, got "5"'],
    "a list of other items": ["result[0]: expected an object, got 1"],
    "an object for a list": ["the result: expected an object, got [1]"],
  });
});

proves(["D416"], "checks the value itself if its parse was not stored", () => {
  const check = (output: JsonValue, schema: ToolInput): readonly string[] =>
    describeProblemLines("the result", findOutputProblems(roleWith(schema), output, undefined));
  expect([
    check({ count: 1 }, count),
    check([1], numbers),
    check({ count: "many" }, count),
  ]).toEqual([[], [], ['count: expected a number, got "many"']]);
});
