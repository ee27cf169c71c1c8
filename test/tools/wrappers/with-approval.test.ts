// Goal: every call of the wrapped tool needs approval, with one question whose reason contains all
// reasons.
// Method: evaluate `needsApproval` of a call without a run.

import { runInNewContext } from "node:vm";

import { expect, test } from "vitest";
import { z } from "zod";

import type { ToolContext } from "../../../src/tools/tool-context.ts";
import { defineTool, type ToolDefinition } from "../../../src/tools/define-tool.ts";
import type { FunctionTool } from "../../../src/tools/tool.ts";
import { withApproval } from "../../../src/tools/wrappers/with-approval.ts";
import { CallFixture, toolThat, useOf } from "../../support/tool-calls.ts";
import { thrownBy } from "../../support/thrown.ts";

/** Returns the result of the call's `needsApproval`. */
async function said(tool: FunctionTool): Promise<unknown> {
  const { needsApproval } = useOf(tool);
  const context = new CallFixture().context();
  return await (typeof needsApproval === "function" ? needsApproval(context) : needsApproval);
}

type NeedsApproval = ToolDefinition<z.ZodObject>["needsApproval"];

function asking(needsApproval: NeedsApproval): FunctionTool {
  return toolThat("pay", () => "paid", needsApproval === undefined ? {} : { needsApproval });
}

/** Returns a check as plain JavaScript could write it. */
function saying(answer: unknown): FunctionTool {
  const tool = asking(true);
  return {
    ...tool,
    bind: () => ({
      type: "valid",
      input: {},
      value: {},
      use: { run: () => 1, needsApproval: () => answer },
    }),
  };
}

test("requests approval whatever the tool itself returns, and leaves the original tool unchanged", async () => {
  const answers: NeedsApproval[] = [
    undefined,
    false,
    true,
    () => false,
    () => true,
    () => "Costs 3 €.",
    () => Promise.resolve(false),
    () => Promise.resolve("Costs 3 €."),
  ];
  const table = await Promise.all(
    answers.map(async (answer) => {
      const tool = asking(answer);
      const wrapped = [withApproval(tool), withApproval(tool, { reason: "Real money." })];
      return await Promise.all([...wrapped, tool].map(said));
    }),
  );
  expect(table).toEqual([
    [true, "Real money.", undefined],
    [true, "Real money.", false],
    [true, "Real money.", true],
    [true, "Real money.", false],
    [true, "Real money.", true],
    ["Costs 3 €.", "Costs 3 €. Real money.", "Costs 3 €."],
    [true, "Real money.", false],
    ["Costs 3 €.", "Costs 3 €. Real money.", "Costs 3 €."],
  ]);
});

/** Returns the reason for a call of a tool that is wrapped once for each reason. */
function joined(...reasons: readonly string[]): Promise<unknown> {
  return said(reasons.reduce((tool, reason) => withApproval(tool, { reason }), asking(undefined)));
}

test("joins reasons to one readable text without repetitions", async () => {
  expect([
    await joined("It deploys", "It is Friday."),
    await joined("It deploys!", "It is Friday."),
    await joined("It deploys. ", "It is Friday."),
    await joined("Real money.", "Real money."),
    await joined("First.", "Second.", "Third."),
  ]).toEqual([
    "It deploys. It is Friday.",
    "It deploys! It is Friday.",
    "It deploys. It is Friday.",
    "Real money.",
    "First. Second. Third.",
  ]);
});

test("passes on an error that the tool's own check throws", async () => {
  const error = new Error("broken");
  const checks: NeedsApproval[] = [
    () => {
      throw error;
    },
    () => Promise.reject(error),
  ];
  for (const check of checks)
    await expect(said(withApproval(asking(check), { reason: "Money." }))).rejects.toBe(error);
});

test("passes on an invalid answer of the tool's own check", async () => {
  const answers = [undefined, null, "", 0, 1, NaN, {}, [], ["a reason"]];
  const given = await Promise.all(
    answers.map((answer) => said(withApproval(saying(answer), { reason: "Money." }))),
  );
  expect(given).toEqual(answers);
});

test("accepts a promise of another realm from the check", async () => {
  const costs: unknown = runInNewContext(`Promise.resolve("Costs.")`);
  const no: unknown = runInNewContext("Promise.resolve(false)");
  expect([
    await said(withApproval(saying(costs), { reason: "Money." })),
    await said(withApproval(saying(no))),
  ]).toEqual(["Costs. Money.", true]);
});

test("passes the context of the call to the check", async () => {
  const seen: ToolContext[] = [];
  const tool = asking((_input, context) => {
    seen.push(context);
    return false;
  });
  const context = new CallFixture().context();
  const { needsApproval } = useOf(withApproval(tool));
  if (typeof needsApproval !== "function") expect.unreachable("it decides call by call");
  expect([needsApproval(context), seen[0] === context]).toEqual([true, true]);
});

test("preserves all other properties, the arguments and the behaviour of the tool", async () => {
  const tool = defineTool({
    name: "pay",
    description: "Pays.",
    inputSchema: z.object({ euros: z.number() }),
    sequential: true,
    timeoutMs: 10,
    execute: ({ euros }, context) => [euros, context.agentPath],
  });
  const wrapped = withApproval(tool);
  const { bind: _one, ...face } = tool;
  const { bind: _other, ...wrappedFace } = wrapped;
  const fixture = new CallFixture();
  expect([
    wrappedFace,
    Object.isFrozen(wrapped),
    wrapped.bind({ euros: {} }),
    useOf(wrapped, { euros: 3 }).run(fixture.context(), fixture.runtime("pay")),
  ]).toEqual([face, true, tool.bind({ euros: {} }), [3, "lead"]]);
});

/** Calls the function as plain JavaScript could. */
function wrap(...given: readonly unknown[]): unknown {
  return Reflect.apply(withApproval, undefined, given);
}

test("refuses a value that is not a function tool, and invalid options", () => {
  const tool = asking(undefined);
  const complaints = [
    [Promise.resolve(tool)],
    [{ name: "pay" }],
    [undefined],
    [tool, { reason: "" }],
    [tool, { reason: 3 }],
    [tool, { reasons: "x" }],
    [tool, "Money."],
    [tool, null],
  ].map((given) => thrownBy(() => wrap(...given)));
  expect(complaints.map(({ code, message }) => [code, message])).toEqual([
    ["invalid_argument", "Expected withApproval.tool to be a tool, got a promise. Await it."],
    [
      "invalid_argument",
      "Expected withApproval.tool to be a tool, got an object. Create it with defineTool({ … }).",
    ],
    [
      "invalid_argument",
      "Expected withApproval.tool to be a tool, got undefined. Create it with defineTool({ … }).",
    ],
    [
      "invalid_argument",
      'Expected withApproval.reason to be a non-empty string, got "". Pass some text.',
    ],
    [
      "invalid_argument",
      "Expected withApproval.reason to be a non-empty string, got 3. Pass some text.",
    ],
    [
      "invalid_argument",
      'Expected withApproval.reasons to be one of reason, got "reasons". Use reason.',
    ],
    [
      "invalid_argument",
      'Expected withApproval to be a plain object, got "Money.". Its fields are reason.',
    ],
    [
      "invalid_argument",
      "Expected withApproval to be a plain object, got null. Its fields are reason.",
    ],
  ]);
});
