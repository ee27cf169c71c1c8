// Limits on depth, breadth and totals of the tree, also for parallel calls. The model reads why a
// spawn was refused.

import assert from "node:assert/strict";

import { defineAgent, Orchestrator } from "espalier";
import { says, ScriptedModel } from "espalier/testing";

const worker = defineAgent({
  name: "worker",
  description: "Does one part",
  instructions: "Work.",
  model: new ScriptedModel(() => says("Done.")),
});
const model = new ScriptedModel([
  {
    calls: [1, 2, 3].map((part) => ({
      toolName: "SpawnSubagent",
      arguments: { role: "worker", task: `Part ${part}` },
    })),
  },
  says("Two parts are done; I did the third myself."),
]);
const lead = defineAgent({ name: "lead", instructions: "Delegate.", model, subagents: [worker] });

const orchestrator = new Orchestrator({ limits: { maxBreadthPerParent: 2 } });
const result = await orchestrator.start(lead, "Do three parts.").result;

const refusalText = model.requests[1]?.messages.at(-1)?.text;
console.log(refusalText);
assert.equal(
  refusalText,
  "Not started: you have started 2 of at most 2 subagents. Work with the results you have, or do this part yourself.",
);
assert.deepEqual([result.status, result.refusalsByCode], ["completed", { breadth_limit: 1 }]);
