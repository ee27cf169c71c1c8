// Goal: a typed output that is not a plain object is accepted in every form in which a model may
// give it.
// Method: scripted calls of Finish and texts; the outputs, and the refusals when a role is defined.

import { expect } from "vitest";
import { z } from "zod";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { asks, says, ScriptedModel } from "../../../src/testing/scripted-model.ts";
import type { JsonValue } from "../../../src/kernel/json.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { thrownBy } from "../../support/thrown.ts";

/** Returns the outputs of a value as the arguments of Finish, if it is an object, and as a text. */
async function outputsOf(output: z.ZodType, given: JsonValue): Promise<readonly unknown[]> {
  const text = soloist(
    [says(JSON.stringify(given))],
    { output },
    { supportsStructuredOutputs: true },
  );
  const called = soloist([asks("Finish", JSON.stringify(given))], { output });
  const isObject = typeof given === "object" && given !== null && !Array.isArray(given);
  const agents = isObject ? [text, called] : [text];
  const results = [];
  for (const { role } of agents) results.push((await newFixture().run(role)).output);
  return results;
}

proves(
  ["D307"],
  'accepts a union with and without the key "result", even if a member has that key',
  async () => {
    const output = z.union([z.object({ result: z.int() }), z.object({ why: z.string() })]);
    const result = { result: 5 };
    expect(await outputsOf(output, { result })).toEqual([result, result]);
    expect(await outputsOf(output, result)).toEqual([result, result]);
    const other = { why: "No." };
    expect(await outputsOf(output, other)).toEqual([other, other]);
    expect(await outputsOf(output, { result: other })).toEqual([other, other]);
  },
);

proves(
  ["D307"],
  'accepts nullable and lazy schemas with and without the key "result"',
  async () => {
    const output = z.object({ a: z.int() }).nullable();
    expect(await outputsOf(output, { result: { a: 1 } })).toEqual([{ a: 1 }, { a: 1 }]);
    expect(await outputsOf(output, { a: 1 })).toEqual([{ a: 1 }, { a: 1 }]);
    expect(await outputsOf(output, { result: null })).toEqual([null, null]);
    expect(await outputsOf(output, null)).toEqual([null]);
    const late = z.lazy(() => z.array(z.int()));
    expect(await outputsOf(late, { result: [1] })).toEqual([[1], [1]]);
    expect(await outputsOf(late, [1])).toEqual([[1]]);
  },
);

proves(["D307"], "refuses optional, default and catch schemas when the role is defined", () => {
  const list = z.array(z.int());
  const model = new ScriptedModel([]);
  for (const [how, output] of [
    ["optional", list.optional()],
    ["default", list.default([])],
    ["catch", list.catch([])],
  ] as const) {
    const define = (): unknown =>
      defineAgent({ name: "solo", instructions: "Work.", model, output });
    const { code, message } = thrownBy(define);
    expect([code, message]).toEqual([
      "invalid_argument",
      `Expected solo.output to be an object, an array, a union or a plain value, got "one under ${how}()". Wrap it in an object: z.object({ result: … }).`,
    ]);
  }
});

proves(["D307"], "refuses an optional plain value when the role is defined", () => {
  const model = new ScriptedModel([]);
  const output = z.string().optional();
  expect(
    thrownBy(() => defineAgent({ name: "solo", instructions: "Work.", model, output })).message,
  ).toBe(
    'Expected solo.output to be an object, an array, a union or a plain value, got "one under optional()". Wrap it in an object: z.object({ result: … }).',
  );
});

proves(["D582"], "fails a run whose output schema makes a value that is not JSON", async () => {
  const list = z.object({ list: z.array(z.string().transform(Number)) });
  const when = z.array(z.iso.date().transform((text) => new Date(text)));
  for (const [output, given, place, got] of [
    [list, { list: ["1", "one"] }, " at .list[1]", "NaN"],
    [when, { result: ["2026-01-02"] }, " at [0]", "a date"],
  ] as const)
    for (const reply of [asks("Finish", JSON.stringify(given)), says(JSON.stringify(given))]) {
      const { role } = soloist([reply], { output });
      const { status, errors } = await newFixture().run(role);
      expect([status, errors.map(({ code, message }) => [code, message])]).toEqual([
        "failed",
        [
          [
            "invalid_argument",
            `Expected solo.output to be a schema whose results are JSON${place}, got ${got}. Correct its transform.`,
          ],
        ],
      ]);
    }
});
