// One budget holds over the whole tree. A call that does not fit is not made, and the result names the limit.

import assert from "node:assert/strict";

import { defineAgent, Orchestrator } from "espalier";
import { asks, says, ScriptedModel } from "espalier/testing";

// Scripted models. In your program: openai("gpt-5-mini"). Each reply uses 15 tokens.
const workerModel = new ScriptedModel(() => says("Done."));
const leadModel = new ScriptedModel([
  asks("SpawnSubagent", { role: "worker", task: "Part one" }),
  asks("SpawnSubagent", { role: "worker", task: "Part two" }),
  says("One part is done."),
]);

const worker = defineAgent({
  name: "worker",
  description: "Does one part",
  instructions: "Work.",
  model: workerModel,
  budget: { steps: 5 }, // for each worker
});
const lead = defineAgent({
  name: "lead",
  instructions: "Delegate.",
  model: leadModel,
  subagents: [worker],
});

const orchestrator = new Orchestrator({
  limits: { maxDepth: 1, maxTotalSubagents: 5 },
});
const run = orchestrator.start(lead, "Do both parts.", {
  budget: { totalTokens: 45, steps: 20, timeMs: 60_000 }, // for the whole tree
});
const { status, reason, usage } = await run.result;
console.log(`${status}: ${reason.message}`);

// Two replies of the lead and one of the worker: nothing is left for a second worker.
assert.deepEqual([status, reason.code], ["stopped", "token_limit"]);
assert.equal(usage.total.totalTokens, 45);
