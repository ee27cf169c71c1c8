// Goal: unions within unions are checked in bounded time, and a problem deep within them is
// reported with its path.
// Method: check recursive schemas, as zod and as JSON Schema, with values of growing depth; measure
// CPU time.

import { expect, test } from "vitest";
import { z } from "zod";

import type { JsonValue } from "../../../src/kernel/json.ts";
import type { Checked } from "../../../src/tools/arguments/check-input.ts";
import { compileInput, type ToolInput } from "../../../src/tools/arguments/input-schema.ts";
import { jsonSchema } from "../../../src/tools/json-schema.ts";
import { proves } from "../../harness/proves.ts";

interface Chain {
  readonly next: number | Chain;
}

const link: z.ZodType<number | Chain> = z.lazy(() =>
  z.union([z.object({ next: link }), z.number()]),
);

const INPUTS: readonly (readonly [string, ToolInput])[] = [
  ["zod", z.object({ x: link })],
  [
    "JSON Schema",
    jsonSchema({
      type: "object",
      properties: { x: { $ref: "#/$defs/link" } },
      $defs: {
        link: {
          anyOf: [
            {
              type: "object",
              properties: { next: { $ref: "#/$defs/link" } },
              required: ["next"],
            },
            { type: "number" },
          ],
        },
      },
    }),
  ],
];

const chain = (depth: number, end: JsonValue): JsonValue =>
  depth === 0 ? end : { next: chain(depth - 1, end) };

function checkTimed(input: ToolInput, value: JsonValue) {
  const { check } = compileInput("t.input", input, { coerces: true });
  check({ x: 1 });
  const begin = process.threadCpuUsage();
  const checked: Checked<unknown> = check({ x: value });
  const { user, system } = process.threadCpuUsage(begin);
  return { checked, ms: (user + system) / 1_000 };
}

for (const [kind, input] of INPUTS) {
  proves(["D668"], `${kind}: names the deepest problem of nested unions`, () => {
    const problem = { expected: "an object or a number", received: '"end"' };
    const { checked } = checkTimed(input, chain(30, "end"));
    const parameter = `x${".next".repeat(30)}`;
    expect(checked).toMatchObject({ problems: [{ parameter, ...problem }] });
    expect(checkTimed(input, chain(200, "end")).checked).toMatchObject({ problems: [problem] });
  });

  proves(["D668"], `${kind}: coerces a value at the end of nested unions`, () => {
    const { checked } = checkTimed(input, chain(30, "7"));
    expect(checked).toMatchObject({ type: "valid", input: { x: chain(30, 7) } });
  });

  proves(
    ["D668"],
    `${kind}: checks unions of eight times the depth in less than 512 times the time`,
    () => {
      const [shallow, deep] = [50, 400].map((depth) => checkTimed(input, chain(depth, "end")).ms);
      expect(deep).toBeLessThan(512 * Math.max(shallow ?? 0, 5));
    },
  );
}

function problems(input: ToolInput, value: JsonValue) {
  const checked = compileInput("t.input", input, { coerces: true }).check(value);
  return checked.type === "invalid" ? checked.problems : [];
}

test("lists the expected tags in the order of the forms for a tag that matches none", () => {
  const form = (kind: string, field: string) => ({
    type: "object",
    properties: { kind: { type: "string", const: kind }, [field]: { type: "number" } },
    required: ["kind", field],
  });
  const u = { anyOf: [form("one", "a"), form("two", "b")] };
  const input = jsonSchema({ type: "object", properties: { u } });
  for (const kind of [3, "three"])
    expect(problems(input, { u: { kind, b: 1 } })).toEqual([
      { parameter: "u.kind", expected: 'one of "one", "two"', received: JSON.stringify(kind) },
    ]);
});

test("describes all forms of a union within a union", () => {
  const x = z.union([z.union([z.object({ a: z.int() }), z.array(z.int())]), z.string()]);
  const input = z.object({ x });
  const { jsonSchema: shown } = compileInput("t.input", input, { coerces: true });
  for (const one of [input, jsonSchema(shown)])
    expect(problems(one, { x: 3 })).toEqual([
      { parameter: "x", expected: "an object or an array or text", received: "3" },
    ]);
});
