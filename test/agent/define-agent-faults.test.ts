// Goal: every mistake in a role definition throws a coded error with field, expected and received
// value.
// Method: one valid definition and many that differ in one field.

import { expect, test } from "vitest";
import { z } from "zod";

import type { AgentRole } from "../../src/agent/agent-role.ts";
import { defineAgent, type AgentDefinition } from "../../src/agent/define-agent.ts";
import { observe } from "../../src/hooks/hook.ts";
import { ScriptedModel } from "../../src/testing/scripted-model.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { thrownBy } from "../support/thrown.ts";

const tool = (name: string): ReturnType<typeof defineTool> =>
  defineTool({ name, description: `Does ${name}.`, inputSchema: z.object({}), execute: () => "" });

const PRICE = { inputUsdPerMillion: 1, outputUsdPerMillion: 2 };
const model = new ScriptedModel([]);
const GOOD: AgentDefinition = { name: "lead", instructions: "Lead.", model };

/** Defines the valid role with some fields replaced. */
const define = (patch: object): AgentRole => defineAgent({ ...GOOD, ...patch });

const NAME = "letters, digits, _ and -, at most 64, a letter first";
const TEXT = "a non-empty string";
const WHOLE = "a whole number from 0 up";
const AMOUNT = "a finite number from 0 up";
const ROLE = "a role or the name of a role";

const BAD: readonly (readonly [string, object, string, string, string, string])[] = [
  ["an empty name", { name: "" }, "invalid_argument", "agent.name", NAME, '""'],
  [
    "a name that begins with a digit",
    { name: "1st" },
    "invalid_argument",
    "agent.name",
    NAME,
    '"1st"',
  ],
  ["a name with a slash", { name: "lead/a" }, "invalid_argument", "agent.name", NAME, '"lead/a"'],
  ["a name with #", { name: "lead#2" }, "invalid_argument", "agent.name", NAME, '"lead#2"'],
  [
    "a name of 65 letters",
    { name: "a".repeat(65) },
    "invalid_argument",
    "agent.name",
    NAME,
    `"${"a".repeat(65)}"`,
  ],
  ["no name", { name: undefined }, "invalid_argument", "agent.name", NAME, "undefined"],
  [
    "empty instructions",
    { instructions: "  " },
    "invalid_argument",
    "lead.instructions",
    TEXT,
    '"  "',
  ],
  [
    "no instructions",
    { instructions: null },
    "invalid_argument",
    "lead.instructions",
    TEXT,
    "null",
  ],
  ["an empty description", { description: "" }, "invalid_argument", "lead.description", TEXT, '""'],
  ["no model", { model: undefined }, "invalid_argument", "lead.model", "a model", "undefined"],
  [
    "the name of a model",
    { model: "gpt-5" },
    "invalid_argument",
    "lead.model",
    "a model",
    '"gpt-5"',
  ],
  [
    "a model that cannot generate",
    { model: { id: "x" } },
    "invalid_argument",
    "lead.model",
    "a model",
    "an object",
  ],
  [
    "a tool that is a function",
    { tools: [() => ""] },
    "invalid_argument",
    "lead.tools[0]",
    "a tool",
    "a function",
  ],
  [
    "a tool that is null",
    { tools: [tool("a"), null] },
    "invalid_argument",
    "lead.tools[1]",
    "a tool",
    "null",
  ],
  [
    "a subagent that is null",
    { subagents: [null] },
    "invalid_argument",
    "lead.subagents[0]",
    ROLE,
    "null",
  ],
  [
    "a subagent without a name",
    { subagents: ["a", {}] },
    "invalid_argument",
    "lead.subagents[1]",
    ROLE,
    "an object",
  ],
  [
    "a negative budget",
    { budget: { steps: -1 } },
    "invalid_argument",
    "lead.budget.steps",
    WHOLE,
    "-1",
  ],
  [
    "a budget of NaN",
    { budget: { totalTokens: NaN } },
    "invalid_argument",
    "lead.budget.totalTokens",
    WHOLE,
    "NaN",
  ],
  [
    "a budget without end",
    { budget: { timeMs: Infinity } },
    "invalid_argument",
    "lead.budget.timeMs",
    AMOUNT,
    "Infinity",
  ],
  [
    "a reply of zero tokens",
    { maxOutputTokens: 0 },
    "invalid_argument",
    "lead.maxOutputTokens",
    "at least 1",
    "0",
  ],
  [
    "a reply of half a token",
    { maxOutputTokens: 0.5 },
    "invalid_argument",
    "lead.maxOutputTokens",
    WHOLE,
    "0.5",
  ],
  [
    "a negative temperature",
    { temperature: -1 },
    "invalid_argument",
    "lead.temperature",
    "a number from 0 to 2",
    "-1",
  ],
  [
    "a temperature of NaN",
    { temperature: NaN },
    "invalid_argument",
    "lead.temperature",
    "a number from 0 to 2",
    "NaN",
  ],
  [
    "a temperature that no provider takes",
    { temperature: 3 },
    "invalid_argument",
    "lead.temperature",
    "a number from 0 to 2",
    "3",
  ],
  [
    "a condition in words",
    { stopWhen: ["done"] },
    "invalid_argument",
    "lead.stopWhen[0]",
    "a function",
    '"done"',
  ],
  ["a last word that is empty", { wrapUp: " " }, "invalid_argument", "lead.wrapUp", TEXT, '" "'],
  ["a last word that is null", { wrapUp: null }, "invalid_argument", "lead.wrapUp", TEXT, "null"],
  [
    "a compaction to nothing",
    { compaction: { keepMessages: 0 } },
    "invalid_argument",
    "lead.compaction.keepMessages",
    "at least 1",
    "0",
  ],
  [
    "a window too small for a summary",
    { compaction: { strategy: "summarize", maxInputTokens: 255 } },
    "invalid_argument",
    "lead.compaction.maxInputTokens",
    "at least 256 with the strategy summarize",
    "255",
  ],
  [
    "replies too short for a summary",
    { compaction: { strategy: "summarize" }, maxOutputTokens: 63 },
    "invalid_argument",
    "lead.compaction.strategy",
    "truncate or error",
    '"summarize"',
  ],
  [
    "a window of half a token",
    { compaction: { maxInputTokens: 0.5 } },
    "invalid_argument",
    "lead.compaction.maxInputTokens",
    WHOLE,
    "0.5",
  ],
  [
    "a window without inheritance",
    { contextPolicy: { messageWindowSize: 2 } },
    "invalid_argument",
    "lead.contextPolicy.messageWindowSize",
    "left out without inheritMessages",
    "2",
  ],
];

for (const [what, patch, code, field, expected, got] of BAD) {
  test(`${what} is rejected with field, expected and received value`, () => {
    const thrown = thrownBy(() => define(patch));
    expect([thrown.code, thrown.data]).toEqual([code, { field, expected, got }]);
    expect(thrown.message.startsWith(`Expected ${field} to be ${expected}, got ${got}. `)).toBe(
      true,
    );
  });
}

const UNKNOWN: readonly (readonly [string, object, string])[] = [
  ["a misspelt field", { instruction: "Lead." }, "agent.instruction"],
  ["a misspelt axis", { budget: { totalToken: 5 } }, "lead.budget.totalToken"],
  ["a misspelt compaction", { compaction: { keep: 5 } }, "lead.compaction.keep"],
  [
    "a misspelt policy",
    { contextPolicy: { inheritMessage: true } },
    "lead.contextPolicy.inheritMessage",
  ],
];

for (const [what, patch, field] of UNKNOWN) {
  test(`${what} is rejected with the list of valid names`, () => {
    const { code, data, message } = thrownBy(() => define(patch));
    expect([code, data["field"]]).toEqual(["invalid_argument", field]);
    expect(message).toMatch(/ to be one of \w+, .+ (Correct the name|Use \w+)\.$/);
  });
}

test("two tools with the same name are rejected", () => {
  expect(thrownBy(() => define({ tools: [tool("search"), tool("read"), tool("search")] }))).toEqual(
    {
      code: "duplicate_tool",
      message:
        'Expected lead.tools to have unique names, got two tools named "search". Rename one of them.',
      data: { field: "lead.tools", name: "search" },
    },
  );
});

for (const name of ["SpawnSubagent", "Finish"]) {
  test(`a tool with the reserved name ${name} is rejected`, () => {
    const expected = "a tool whose name is not reserved";
    expect(thrownBy(() => define({ tools: [tool(name)] }))).toEqual({
      code: "invalid_argument",
      message: `Expected lead.tools to be ${expected}, got "${name}". Rename it.`,
      data: { field: "lead.tools", expected, got: `"${name}"` },
    });
  });
}

test("a tool named Finish is rejected even beside a typed result", () => {
  const { code } = thrownBy(() => define({ tools: [tool("Finish")], output: z.object({}) }));
  expect(code).toBe("duplicate_tool");
});

test("a cost limit over a model without a price is accepted, as an orchestrator may know the price", () => {
  expect(define({ budget: { costUsd: 0.5 } }).budget).toEqual({ costUsd: 0.5 });
});

test("an invalid price is rejected", () => {
  const bad = [
    { ...PRICE, inputUsdPerMillion: NaN },
    { ...PRICE, outputUsdPerMillion: -1 },
    { ...PRICE, cachedInputUsdPerMillion: Infinity },
  ];
  const fields = bad.map(
    (price) => thrownBy(() => define({ model: new ScriptedModel([], { price }) })).data["field"],
  );
  expect(fields).toEqual([
    "lead.model.price.inputUsdPerMillion",
    "lead.model.price.outputUsdPerMillion",
    "lead.model.price.cachedInputUsdPerMillion",
  ]);
});

test("reports the field of a model whose getter throws", () => {
  const unreadable = {
    provider: "own",
    id: "m",
    get supportsStructuredOutputs(): boolean {
      throw new Error("Not connected");
    },
    generate: () => Promise.reject(new Error()),
  };
  expect(thrownBy(() => define({ model: unreadable }))).toEqual({
    code: "invalid_argument",
    message:
      "Expected lead.model to have properties that can be read, but a property threw: Not connected. Correct the model's adapter.",
    data: { field: "lead.model" },
  });
});

test("rejects a value that is not a definition", () => {
  for (const nothing of [null, undefined, 5, "lead", [GOOD]]) {
    const { code, data } = thrownBy(() => Reflect.apply(defineAgent, undefined, [nothing]));
    expect([code, data["field"], data["expected"]]).toEqual([
      "invalid_argument",
      "agent",
      "a plain object",
    ]);
  }
});

// A spread number, flag or null would become {} and silently disable the intended limit.
test("a budget that is not an object is rejected", () => {
  for (const budget of [100, true, null, []]) {
    expect(() => define({ budget }), JSON.stringify(budget)).toThrow(
      "Expected lead.budget to be a plain object",
    );
  }
});

const NO_LISTS: readonly (readonly [string, unknown])[] = [
  ["tools", tool("search")],
  ["subagents", "helper"],
  ["stopWhen", "done"],
  ["hooks", observe(["agent.ended"], () => undefined)],
];

for (const [field, given] of NO_LISTS) {
  test(`${field} outside a list is rejected with a code`, () => {
    const { data } = thrownBy(() => define({ [field]: given }));
    expect(data["field"]).toBe(`lead.${field}`);
  });
}

test("a definition of a subagent instead of a role is rejected", () => {
  const { code, data } = thrownBy(() =>
    define({ subagents: [{ ...GOOD, name: "helper", description: "Helps." }] }),
  );
  expect([code, data["field"]]).toEqual(["invalid_argument", "lead.subagents[0]"]);
});

test("an output that is not an accepted schema is rejected with the name of the user's field", () => {
  const fields = [z.any(), { answer: "number" }].map(
    (output: object) => thrownBy(() => define({ output })).data["field"],
  );
  expect(fields).toEqual(["lead.output", "lead.output"]);
});
