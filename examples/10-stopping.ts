// Stop conditions, a last step in which the model must finish, and steering from outside.

import assert from "node:assert/strict";

import { z } from "zod";

import {
  allOf,
  defineAgent,
  defineTool,
  Orchestrator,
  hasToolCall,
  type StopCondition,
} from "espalier";
import { asks, says, ScriptedModel } from "espalier/testing";

const save = defineTool({
  name: "save",
  description: "Saves a finding.",
  inputSchema: z.object({ finding: z.string() }),
  execute: () => "saved",
});

// A condition is a plain function over what has happened.
const twoSteps: StopCondition = ({ steps }) => {
  const isAnswered = steps.at(-1)?.tools.calls.length === 0;
  if (steps.length < 2 || isAnswered) return undefined;
  return { code: "enough_steps", message: "Two steps are enough." };
};

const finder = defineAgent({
  name: "finder",
  instructions: "Save what you find.",
  model: new ScriptedModel(() => asks("save", { finding: "a rose" })),
  tools: [save],
  stopWhen: allOf(twoSteps, hasToolCall("save")),
});
const found = await new Orchestrator().start(finder, "Find something.").result;
console.log(`${found.status}: ${found.reason.code}`);
assert.deepEqual(
  [found.status, found.reason.code, found.steps.length],
  ["stopped", "enough_steps", 2],
);

// With wrapUp the last step that the budget allows brings a text instead of one more call.
const model = new ScriptedModel(({ tools }) =>
  tools.length > 0 ? asks("save", { finding: "a rose" }) : says("So far: roses."),
);
const hurried = defineAgent({
  name: "hurried",
  instructions: "Save what you find.",
  model,
  tools: [save],
  budget: { steps: 3 },
  wrapUp: true,
});
const run = new Orchestrator().start(hurried, "Find everything.");
const delivery = run.steer("Leave the tulips out.");
const ended = await run.result;
console.log(`${ended.status}: ${ended.reason.code}: ${ended.text}`);
assert.deepEqual(
  [ended.status, ended.reason.code, ended.text, ended.steps.length],
  ["stopped", "step_limit", "So far: roses.", 3],
);
assert.deepEqual(await delivery, { isDelivered: true, stepNumber: 1 });
