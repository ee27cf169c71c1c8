// Each step leaves a record: its calls, its usage, its time. The exact request of any step can be rebuilt.

import assert from "node:assert/strict";

import { defineAgent, defineTool, Orchestrator } from "espalier";
import { asks, says, ScriptedModel } from "espalier/testing";
import { rebuildRequest } from "espalier/view";
import { z } from "zod";

const look = defineTool({
  name: "look",
  description: "Looks up a plant.",
  inputSchema: z.object({ plant: z.string() }),
  execute: ({ plant }) => `${plant}: grows along walls.`,
});
// A scripted model. In your program: openai("gpt-5-mini").
const model = new ScriptedModel([asks("look", { plant: "pear" }), says("Pears do.")]);
const gardener = defineAgent({
  name: "gardener",
  instructions: "Answer in a sentence.",
  model,
  tools: [look],
});
const orchestrator = new Orchestrator();

const run = orchestrator.start(gardener, "What grows along a wall?");
const { steps } = await run.result;
for (const { number, tools, telemetry } of steps)
  console.log(number, tools.calls.length, telemetry.timing.inferenceMs);

const { request } = rebuildRequest(run.snapshot(), { stepNumber: 2 });
console.log(request.messages.map(({ role, text }) => `${role}: ${text}`));

assert.deepEqual(
  steps.map(({ number, tools }) => [number, tools.calls.length]),
  [
    [1, 1],
    [2, 0],
  ],
);
assert.deepEqual(request.messages, model.requests[1]?.messages);
