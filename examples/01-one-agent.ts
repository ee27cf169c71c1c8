// One agent with one tool. To use a real model, replace the scripted one with
// `openai("gpt-5-mini")`.

import assert from "node:assert/strict";

import { z } from "zod";

import { defineAgent, defineTool, Orchestrator } from "espalier";
import { asks, says, ScriptedModel } from "espalier/testing";

const weather = defineTool({
  name: "weather",
  description: "Tells the weather of a city.",
  inputSchema: z.object({ city: z.string() }),
  execute: ({ city }) => ({ city, celsius: 21 }),
});

const model = new ScriptedModel([
  asks("weather", { city: "Lyon" }),
  says("It is 21 degrees in Lyon."),
]);
const guide = defineAgent({
  name: "guide",
  instructions: "Answer in one sentence. Use your tools.",
  model,
  tools: [weather],
});

const run = new Orchestrator().start(guide, "How warm is it in Lyon?");
const result = await run.result;
assert.equal(result.status, "completed");
assert.equal(result.text, "It is 21 degrees in Lyon.");
assert.deepEqual(result.agents[0]?.toolsUsed, { weather: 1 });
model.assertComplete();
console.log(result.text);
