// A tool that fails is not the end of a run: the model reads the error. Only a failed run throws, and only if you ask for it.

import assert from "node:assert/strict";

import { defineAgent, defineTool, Orchestrator, RunError, ToolRetryError } from "espalier";
import { asks, says, ScriptedModel } from "espalier/testing";
import { z } from "zod";

// A scripted model. In your program: openai("gpt-5-mini").
const model = new ScriptedModel([
  asks("look_up", { customer: "A7" }),
  asks("look_up", { customer: "7" }),
  says("There is no customer 7."),
]);
const orchestrator = new Orchestrator();

const lookUp = defineTool({
  name: "look_up",
  description: "Looks up a customer by number.",
  inputSchema: z.object({ customer: z.string() }),
  execute: ({ customer }) => {
    if (!/^\d+$/.test(customer))
      throw new ToolRetryError(`${customer} is not a number.`, {
        hint: "Use digits.",
      });
    throw new Error(`There is no customer ${customer}.`);
  },
});
const clerk = defineAgent({
  name: "clerk",
  instructions: "Answer in a sentence.",
  model,
  tools: [lookUp],
  errorBudget: { maxToolErrors: 3 }, // the fourth tool error stops the agent
});

const run = orchestrator.start(clerk, "Who is customer A7?");
try {
  const { text, agents } = await run.orThrow();
  console.log(text, agents[0]?.toolErrors);
} catch (error) {
  if (!RunError.is(error)) throw error;
  console.error(error.code, error.result.reason.message);
}

const { status, agents } = await run.result;
assert.equal(status, "completed");
assert.deepEqual(
  agents[0]?.toolErrors.map(({ code, message }) => [code, message]),
  [
    ["tool_retry", "look_up asks for a corrected call: A7 is not a number. Use digits."],
    ["tool_error", "look_up failed: There is no customer 7."],
  ],
);
