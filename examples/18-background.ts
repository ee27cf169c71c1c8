// Subagents in the background: the parent continues, and receives their results as messages.

import assert from "node:assert/strict";

import { defineAgent, Orchestrator } from "espalier";
import { says, ScriptedModel } from "espalier/testing";

const researcher = defineAgent({
  name: "researcher",
  description: "Researches one topic",
  instructions: "Research the topic you are given.",
  model: new ScriptedModel(({ messages }) => says(`About ${messages.at(-1)?.text ?? ""}: fine.`)),
});

const spawn = (task: string, more: object = {}) => ({
  toolName: "SpawnSubagent",
  arguments: { role: "researcher", task, ...more },
});
const model = new ScriptedModel([
  { calls: [spawn("pears", { background: true }), spawn("apples", { background: true })] },
  says("I wait for both."),
  { calls: [spawn("quinces", { continue: "researcher#1" })] },
  says("Pears, apples and quinces are fine."),
]);

const lead = defineAgent({
  name: "lead",
  instructions: "Delegate.",
  model,
  subagents: [researcher],
  delegation: {
    background: true, // the model may start subagents in the background
    parentEndPolicy: "await", // or "cancel", "detach"
    failurePolicy: "isolate", // or "fail_fast", { quorum: 2 }
  },
});

const result = await new Orchestrator().start(lead, "Which fruit is fine?").result;

const read = model.requests[2]?.messages.slice(-2).map(({ text }) => text);
console.log(read?.join("\n"));
assert.deepEqual(read, [
  'researcher#1, which ran in the background, has ended. Its result: {"outcome":"completed","steps":1,"subagent":"researcher#1","text":"About pears: fine.","totalTokens":15}',
  'researcher#2, which ran in the background, has ended. Its result: {"outcome":"completed","steps":1,"subagent":"researcher#2","text":"About apples: fine.","totalTokens":15}',
]);
assert.deepEqual(
  result.agents.map(({ agentPath, status, executionCount: executions }) => [
    agentPath,
    status,
    executions,
  ]),
  [
    ["lead", "completed", 1],
    ["lead/researcher#1", "completed", 2],
    ["lead/researcher#2", "completed", 1],
  ],
);
