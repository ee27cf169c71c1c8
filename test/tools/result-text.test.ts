// Goal: what a tool returns becomes one fixed text, and what is no JSON is an error instead of a silent loss.
// Method: a table of values.

import { expect, test } from "vitest";

import { delegationText } from "../../src/tools/delegation-text.ts";
import { resultText } from "../../src/tools/result-text.ts";
import type { SubagentResult } from "../../src/protocol/subagent.ts";
import { AgentIdSchema, ExecutionIdSchema } from "../../src/protocol/ids.ts";
import { NO_USAGE } from "../../src/protocol/usage.ts";
import { callUsage } from "../support/ledger-scene.ts";

const TEXTS: readonly (readonly [string, unknown, string])[] = [
  ["text", "as it is", "as it is"],
  ["text that looks like JSON", '{"b":1}', '{"b":1}'],
  ["an empty text", "", ""],
  ["nothing", undefined, ""],
  ["null", null, "null"],
  ["true", true, "true"],
  ["zero", 0, "0"],
  ["a fraction", -1.5, "-1.5"],
  ["an empty list", [], "[]"],
  ["a list with nothing in a place", [1, undefined, 3], "[1,null,3]"],
  ["an empty object", {}, "{}"],
  ["keys in any order", { b: 1, a: { d: 2, c: 3 } }, '{"a":{"c":3,"d":2},"b":1}'],
  ["objects in a list", [{ b: 1, a: 2 }], '[{"a":2,"b":1}]'],
  ["a field without value", { a: undefined, b: 1 }, '{"b":1}'],
  [
    "a key that objects have anyway",
    { constructor: 1, toString: "x" },
    '{"constructor":1,"toString":"x"}',
  ],
  ["a date", { at: new Date(0) }, '{"at":"1970-01-01T00:00:00.000Z"}'],
  ["an object that says how it is JSON", { toJSON: () => ({ b: 1, a: 2 }) }, '{"a":2,"b":1}'],
  ["quotes and line breaks", ['"\n'], '["\\"\\n"]'],
];

for (const [what, value, text] of TEXTS) {
  test(`${what} becomes ${text === "" ? "an empty text" : text}`, () => {
    expect(resultText(value)).toBe(text);
  });
}

const CYCLIC: Record<string, unknown> = { name: "loop" };
CYCLIC["self"] = { above: CYCLIC };

test("a value that contains itself, and a number beyond JSON, throw", () => {
  expect(() => resultText(CYCLIC)).toThrow();
  expect(() => resultText(10n)).toThrow(/BigInt/);
  expect(() => resultText({ deep: [10n] })).toThrow(/BigInt/);
});

test("the error for a value that contains itself says so", () => {
  expect(() => resultText(CYCLIC)).toThrow(/circular/i);
});

// As the text `null` it would look as if the tool had found nothing.
test("a function and a symbol are no JSON and throw", () => {
  expect(() => resultText(() => 1)).toThrow();
  expect(() => resultText(Symbol("x"))).toThrow();
});

const RESULT: SubagentResult = {
  agentId: AgentIdSchema.parse("agent_2"),
  executionId: ExecutionIdSchema.parse("execution_2"),
  role: "reader",
  agentPath: "lead/reader#1",
  depth: 1,
  status: "completed",
  reason: { code: "completed", message: "Done.", data: {} },
  text: "Three files.",
  steps: 2,
  toolsUsed: {},
  usage: { own: callUsage(10, 5), descendants: callUsage(3, 2), total: callUsage(13, 7) },
  errors: [],
  metadata: {},
  durationMs: 1,
};

test("a delegation that completed tells status, text, steps and tokens of the whole subtree", () => {
  expect(delegationText({ type: "settled", result: RESULT })).toBe(
    '{"status":"completed","steps":2,"subagent":"lead/reader#1","text":"Three files.","totalTokens":20}',
  );
});

test("a typed result comes instead of the text", () => {
  const result = { ...RESULT, output: { files: 3 } };
  expect(JSON.parse(delegationText({ type: "settled", result }))).toEqual({
    subagent: "lead/reader#1",
    status: "completed",
    output: { files: 3 },
    steps: 2,
    totalTokens: 20,
  });
});

test("a delegation that did not complete says why, and keeps the partial text", () => {
  const reason = { code: "steps_limit", message: "All 2 steps are used.", data: {} };
  const usage = { own: NO_USAGE, descendants: NO_USAGE, total: NO_USAGE };
  for (const status of ["stopped", "failed", "cancelled"] as const) {
    const result = { ...RESULT, status, reason, usage };
    expect(JSON.parse(delegationText({ type: "settled", result }))).toEqual({
      subagent: "lead/reader#1",
      status,
      reason: "steps_limit",
      explanation: "All 2 steps are used.",
      text: "Three files.",
      steps: 2,
      totalTokens: 0,
    });
  }
});

test("a refusal is its instruction, word for word", () => {
  const refusal = {
    code: "depth_limit",
    message: "Not started: do it yourself.",
    maximum: 3,
    current: 3,
  } as const;
  expect(delegationText({ type: "refused", refusal })).toBe("Not started: do it yourself.");
});
