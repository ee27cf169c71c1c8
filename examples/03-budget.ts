// One budget holds over the whole tree. What cannot be paid for is not started, and the model reads why.

import assert from "node:assert/strict";

import { defineAgent, Orchestrator } from "espalier";
import { asks, says, ScriptedModel } from "espalier/testing";

const worker = defineAgent({
  name: "worker",
  description: "Does one part",
  instructions: "Work.",
  model: new ScriptedModel(() => says("Done.")),
});

const leadModel = new ScriptedModel([
  asks("SpawnSubagent", { role: "worker", task: "Part one" }),
  asks("SpawnSubagent", { role: "worker", task: "Part two" }),
  says("One part is done."),
]);
const lead = defineAgent({
  name: "lead",
  instructions: "Delegate.",
  model: leadModel,
  subagents: [worker],
});

// Every reply of these models costs 15 tokens: two of the lead, one of the worker, and nothing is left for a second worker.
const { status, reason, usage } = await new Orchestrator().start(lead, "Do both parts.", {
  budget: { totalTokens: 45 },
}).result;

console.log(`${status}: ${reason.message}`);
assert.deepEqual([status, reason.code], ["stopped", "token_limit"]);
assert.equal(usage.total.totalTokens, 45);
