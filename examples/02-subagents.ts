// Two subagents in parallel. Listing `subagents` gives the lead a SpawnSubagent tool.

import assert from "node:assert/strict";

import { defineAgent, Orchestrator } from "espalier";
import { formatEventTree, RecordingSink, says, ScriptedModel } from "espalier/testing";

// Scripted models. In your program: openai("gpt-5-mini").
const researcherModel = new ScriptedModel(() => says("A paragraph."));
const leadModel = new ScriptedModel([
  {
    calls: ["Who grows espaliers?", "Since when?"].map((task) => ({
      toolName: "SpawnSubagent",
      arguments: { role: "researcher", task },
    })),
  },
  says("Gardeners do, since antiquity."),
]);
const log = new RecordingSink();
const orchestrator = new Orchestrator({ sinks: [log] });

const researcher = defineAgent({
  name: "researcher",
  description: "Researches one question and reports in a paragraph",
  instructions: "Research the question you are given.",
  model: researcherModel,
  budget: { totalTokens: 20_000, steps: 12 },
});
const lead = defineAgent({
  name: "lead",
  instructions: "Split the task, delegate the parts, and sum up.",
  model: leadModel,
  subagents: [researcher], // adds the tool SpawnSubagent
});

const run = orchestrator.start(lead, "Write about espaliers.", {
  budget: { totalTokens: 200_000 },
});
const { text, agents, usage, subagentsByDepth } = await run.result;

console.log(formatEventTree(log.events));
assert.equal(text, "Gardeners do, since antiquity.");
assert.deepEqual(
  agents.map((agent) => [agent.agentPath, agent.status]),
  [
    ["lead", "completed"],
    ["lead/researcher#1", "completed"],
    ["lead/researcher#2", "completed"],
  ],
);
assert.deepEqual(subagentsByDepth, { 1: 2 });
assert.equal(usage.total.totalTokens, usage.own.totalTokens + usage.descendants.totalTokens);
