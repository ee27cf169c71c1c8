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

const guide = defineAgent({
  name: "guide",
  instructions: "Answer in one sentence. Use your tools.",
  model: new ScriptedModel([asks("weather", { city: "Lyon" }), says("It is 21 degrees in Lyon.")]),
  tools: [weather],
});

const result = await new Orchestrator().start(guide, "How warm is it in Lyon?").result;

console.log(result.text);
assert.equal(result.status, "completed");
assert.deepEqual(result.agents[0]?.toolsUsed, { weather: 1 });
