// A stopped run that continues with a larger budget, and a fork from one of its steps.

import assert from "node:assert/strict";

import { defineAgent, Orchestrator } from "espalier";
import { says, ScriptedModel } from "espalier/testing";

const reader = defineAgent({
  name: "reader",
  description: "Reads one chapter",
  instructions: "Read.",
  model: new ScriptedModel(({ messages }) => says(`Read: ${messages.at(-1)?.text ?? ""}`)),
});
const read = (chapter: string) => ({
  calls: [{ toolName: "SpawnSubagent", arguments: { role: "reader", task: chapter } }],
});
const lead = defineAgent({
  name: "lead",
  instructions: "Have the book read.",
  model: new ScriptedModel([
    read("Chapter 1"),
    read("Chapter 2"),
    says("Both chapters are read."),
    says("The first chapter is enough."),
  ]),
  subagents: [reader],
});
const orchestrator = new Orchestrator({ roles: [lead] });

const run = orchestrator.start(lead, "Read the book.", { budget: { steps: 4 } });
const stopped = await run.result;
assert.deepEqual([stopped.status, stopped.reason.code], ["stopped", "step_limit"]);

const resumed = orchestrator.resume(run.snapshot(), {
  grants: [{ budget: { steps: 2 }, by: "Ada" }],
});
const completed = await resumed.result;
console.log(`${completed.text} ${completed.usage.total.steps} steps in all.`);
assert.deepEqual([completed.status, completed.usage.total.steps], ["completed", 5]);

const fork = orchestrator.fork(run.snapshot(), {
  atStep: 1, // keep the root's history up to the end of step 1
  message: "Is the first chapter not enough?",
});
const forked = await fork.result;
console.log(forked.text);
assert.equal(forked.text, "The first chapter is enough.");
assert.deepEqual([forked.status, forked.usage.total.steps], ["completed", 1]);
assert.notEqual(forked.runId, completed.runId);
