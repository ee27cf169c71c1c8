// Tools that let a model correct itself: validated arguments, requests to retry, bounded results.

import assert from "node:assert/strict";

import { z } from "zod";

import { defineAgent, defineTool, Orchestrator, ToolRetryError } from "espalier";
import { asks, says, ScriptedModel } from "espalier/testing";

const stock = new Map([
  ["rose", 12],
  ["tulip", 0],
]);

const order = defineTool({
  name: "order",
  description: "Orders plants. Give the name in English and how many.",
  inputSchema: z.object({
    plant: z.string(),
    count: z.int().min(1).max(100),
  }),
  timeoutMs: 10_000,
  maxRetries: 3, // then the agent stops with `retry_limit`
  execute: ({ plant, count }) => {
    const left = stock.get(plant);
    if (left === undefined) {
      const known = [...stock.keys()].join(", ");
      throw new ToolRetryError(`There is no ${plant}.`, {
        hint: `We have: ${known}.`,
      });
    }
    if (left < count) throw new Error(`Only ${left} of ${plant} are left.`);
    return { ordered: count, plant };
  },
});

const model = new ScriptedModel([
  asks("order", { plant: "rose", count: "many" }), // no number: the model reads so, the tool does not run
  asks("order", { plant: "Rosa", count: "3" }), // "3" is taken for 3; the tool asks for another name
  {
    calls: [
      { toolName: "order", arguments: { plant: "rose", count: 3 } },
      { toolName: "order", arguments: { plant: "tulip", count: 1 } }, // fails, and the run continues
    ],
  },
  says("Three roses are on their way; there are no tulips."),
]);
const gardener = defineAgent({
  name: "gardener",
  instructions: "Order what is asked for.",
  model,
  tools: [order],
});
const result = await new Orchestrator().start(gardener, "Three roses and a tulip, please.").result;

const executions = result.steps.flatMap(({ tools }) => tools.executions);
for (const { type, text } of executions) console.log(`${type}: ${text}`);
assert.deepEqual(
  executions.map(({ type, errorCode }) => [type, errorCode]),
  [
    ["retry", "invalid_arguments"],
    ["retry", "tool_retry"],
    ["succeeded", undefined],
    ["failed", "tool_error"],
  ],
);
assert.deepEqual(
  executions.map(({ text }) => text),
  [
    'The arguments of order do not fit its schema:\n- count: expected an integer, got "many"\nCorrect them and call order again.',
    "order asks for a corrected call: There is no Rosa. We have: rose, tulip.",
    '{"ordered":3,"plant":"rose"}',
    "order failed: Only 0 of tulip are left.",
  ],
);
assert.equal(result.status, "completed");
assert.equal(result.agents[0]?.toolErrors.length, 3);
