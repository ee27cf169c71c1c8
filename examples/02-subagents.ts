// A lead that lets two subagents work in parallel. The lead gets a SpawnSubagent tool by listing `subagents`.

import assert from "node:assert/strict";

import { defineAgent, Orchestrator } from "espalier";
import { formatEventTree, RecordingSink, says, ScriptedModel } from "espalier/testing";

const researcher = defineAgent({
  name: "researcher",
  description: "Researches one question and reports in a paragraph",
  instructions: "Research the question you are given.",
  model: new ScriptedModel(() => says("A paragraph.")),
  budget: { totalTokens: 20_000, steps: 12 },
});

const lead = defineAgent({
  name: "lead",
  instructions: "Split the task, delegate the parts, and sum up.",
  model: new ScriptedModel([
    {
      calls: ["Who grows espaliers?", "Since when?"].map((task) => ({
        toolName: "SpawnSubagent",
        arguments: { role: "researcher", task },
      })),
    },
    says("Gardeners do, since antiquity."),
  ]),
  subagents: [researcher],
});

const log = new RecordingSink();
const orchestrator = new Orchestrator({ sinks: [log] });
const run = orchestrator.start(lead, "Write about espaliers.", {
  budget: { totalTokens: 200_000 },
});
const { usage, agents, subagentsByDepth } = await run.result;

console.log(formatEventTree(log.events));
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
