// A role that starts agents of its own role: limits end the recursion.

import assert from "node:assert/strict";

import { defineAgent, Orchestrator } from "espalier";
import { asks, formatEventTree, RecordingSink, says, ScriptedModel } from "espalier/testing";

// In your program: openai("gpt-5-mini"). This one delegates once, as long as it has the tool.
const surveyorModel = new ScriptedModel(({ messages, tools }) =>
  tools.length > 0 && messages.at(-1)?.role === "user"
    ? asks("SpawnSubagent", { role: "surveyor", task: "Survey the next folder." })
    : says("A folder of plants."),
);

const surveyor = defineAgent({
  name: "surveyor",
  description: "Surveys one folder and reports its purpose",
  instructions: "Delegate each subfolder, then report.",
  model: surveyorModel,
  subagents: ["surveyor"], // its own role, by name
  limits: { maxDepth: 2 }, // the surveyors at depth 2 start no others
});

const log = new RecordingSink();
const orchestrator = new Orchestrator({ sinks: [log] });
const run = orchestrator.start(surveyor, "Survey the garden.", { budget: { steps: 20 } });
const { agents } = await run.orThrow();

console.log(formatEventTree(log.events));
assert.deepEqual(
  agents.map(({ agentPath }) => agentPath),
  ["surveyor", "surveyor/surveyor#1", "surveyor/surveyor#1/surveyor#1"],
);
