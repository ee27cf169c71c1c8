// A budget divided among subagents, with a reserve for the final answer of the parent.

import assert from "node:assert/strict";

import { defineAgent, defineTool, Orchestrator, type EspalierEvent } from "espalier";
import { formatEventTree, says, ScriptedModel } from "espalier/testing";
import { z } from "zod";

const look = defineTool({
  name: "look",
  description: "Looks once more.",
  inputSchema: z.object({}),
  maxIdenticalCalls: "unlimited",
  execute: () => "Nothing new.",
});
const digger = defineAgent({
  name: "digger",
  description: "Digs until it is stopped",
  instructions: "Dig.",
  model: new ScriptedModel(() => ({
    text: "I dug a little.",
    calls: [{ toolName: "look", arguments: {} }],
  })),
  tools: [look],
});

const leadModel = new ScriptedModel([
  {
    calls: ["north", "south"].map((place) => ({
      toolName: "SpawnSubagent",
      arguments: { role: "digger", task: `Dig in the ${place}.` },
    })),
  },
  says("Two half-dug holes."),
]);
const lead = defineAgent({
  name: "lead",
  instructions: "Delegate.",
  model: leadModel,
  subagents: [digger],
  delegation: {
    share: { type: "even" },
    reserve: { steps: 1 },
  },
  showBudget: true,
});

const events: EspalierEvent[] = [];
const orchestrator = new Orchestrator({ sinks: [{ emit: (event) => void events.push(event) }] });
const run = orchestrator.start(lead, "Dig.", { budget: { steps: 8 } });
const { status, usage, accounts } = await run.result;

const tree = `
lead completed (completed) 2 steps, 30 of 120 tokens
├─ step 1 asked for 2
│  ├─ SpawnSubagent failed (subagent_partial)
│  │  └─ lead/digger#1 stopped (step_limit) 3 steps, 45 of 45 tokens
│  │     ├─ step 1 asked for 1
│  │     │  └─ look succeeded
│  │     ├─ step 2 asked for 1
│  │     │  └─ look succeeded
│  │     └─ step 3 asked for 1
│  │        └─ look succeeded
│  └─ SpawnSubagent failed (subagent_partial)
│     └─ lead/digger#2 stopped (step_limit) 3 steps, 45 of 45 tokens
│        ├─ step 1 asked for 1
│        │  └─ look succeeded
│        ├─ step 2 asked for 1
│        │  └─ look succeeded
│        └─ step 3 asked for 1
│           └─ look succeeded
└─ step 2 answered
`;
console.log(formatEventTree(events));
assert.equal(`\n${formatEventTree(events)}\n`, tree);
assert.deepEqual([status, usage.total.steps], ["completed", 8]);
assert.deepEqual(
  accounts.map(({ agentPath: path, limits }) => [path, limits.steps]),
  [
    ["lead", 8],
    ["lead/digger#1", 3], // 8, less the 1 that is spent and the 1 that is kept, and half of that
    ["lead/digger#2", 3],
  ],
);
assert.deepEqual(
  events.flatMap((event) =>
    event.type === "budget.threshold_reached" ? [[event.accountPath, event.threshold]] : [],
  ),
  [
    ["lead/digger#1", 0.8],
    ["lead/digger#1", 0.95],
    ["lead/digger#2", 0.8],
    ["lead/digger#2", 0.95],
    ["lead", 0.8],
    ["lead", 0.95],
  ],
);
