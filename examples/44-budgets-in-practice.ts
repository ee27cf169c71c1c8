// Budgets in practice: limits to set, the notice that an agent reads, the report, and continuing
// with more.

import assert from "node:assert/strict";

import { z } from "zod";

import { defineAgent, defineTool, Orchestrator, type EventSink } from "espalier";
import {
  formatEventTree,
  RecordingSink,
  ScriptedModel,
  type ScriptedReply,
} from "espalier/testing";
import { RunFold } from "espalier/view";

const search = defineTool({
  name: "search",
  description: "Searches the sources.",
  inputSchema: z.object({ query: z.string() }),
  execute: ({ query }) => `Nothing new about ${query}.`,
});

// In your program: openai("gpt-5-mini"), whose price is known. Each reply of these costs 1,000 tokens and a cent.
const usage = { inputTokens: 800, outputTokens: 200 };
const price = { inputUsdPerMillion: 10, outputUsdPerMillion: 10 };
const speaker = (reply: (turn: number) => ScriptedReply): ScriptedModel => {
  const model: ScriptedModel = new ScriptedModel(
    () => ({ usage, ...reply(model.requests.length) }),
    { price, countTokens: () => 800 },
  );
  return model;
};
const greedy = speaker((turn) => ({
  text: `Draft ${turn}.`,
  calls: [{ toolName: "search", arguments: { query: `question ${turn}` } }],
}));
const parts = ["history", "methods"].map((task) => ({
  toolName: "SpawnSubagent",
  arguments: { role: "researcher", task },
}));
const leading = speaker((turn) =>
  turn === 1 ? { calls: parts } : { text: "What is known of history and methods." },
);

const researcher = defineAgent({
  name: "researcher",
  description: "Researches one question",
  instructions: "Research the question. Report what you have before your budget is used up.",
  model: greedy,
  tools: [search],
  budget: { costUsd: 0.1, steps: 4 }, // of each researcher
  maxOutputTokens: 200, // longest reply
  showBudget: true, // the model reads the remaining budget
});

const lead = defineAgent({
  name: "lead",
  instructions: "Have each part researched, then sum up.",
  model: leading,
  maxOutputTokens: 200,
  subagents: [researcher],
  delegation: {
    share: { type: "even" }, // equal parts for the subagents of a reply
    reserve: { totalTokens: 1_000, costUsd: 0.01 }, // for the answer
  },
});

let fold: RunFold | undefined;
const folding: EventSink = {
  emit: (event) => (fold ??= new RunFold(event.runId)).apply(event),
};

const log = new RecordingSink();
const orchestrator = new Orchestrator({
  roles: [lead],
  sinks: [log, folding],
  limits: { maxDepth: 1, maxTotalSubagents: 10 },
});
const run = orchestrator.start(lead, "Write about espaliers.", {
  budget: { costUsd: 0.06, totalTokens: 20_000, steps: 30, timeMs: 120_000 },
});
const result = await run.result;

const tree = `
lead completed (completed) 2 steps, 2000 of 6000 tokens
├─ step 1 asked for 2
│  ├─ SpawnSubagent failed (subagent_partial)
│  │  └─ lead/researcher#1 stopped (cost_limit) 2 steps, 2000 of 2000 tokens
│  │     ├─ step 1 asked for 1
│  │     │  └─ search succeeded
│  │     └─ step 2 asked for 1
│  │        └─ search not_executed (not_executed)
│  └─ SpawnSubagent failed (subagent_partial)
│     └─ lead/researcher#2 stopped (cost_limit) 2 steps, 2000 of 2000 tokens
│        ├─ step 1 asked for 1
│        │  └─ search succeeded
│        └─ step 2 asked for 1
│           └─ search not_executed (not_executed)
└─ step 2 answered
`;
assert.equal(`\n${formatEventTree(log.events)}\n`, tree);
assert.match(
  greedy.requests.at(-1)?.messages.at(-1)?.text ?? "",
  /^Budget left: 3 steps, 8,000 tokens, \$0\.01, /,
);
const read = leading.requests.at(-1)?.messages.find(({ role }) => role === "tool")?.text ?? "{}";
assert.deepEqual(JSON.parse(read), {
  explanation:
    "The costUsd budget of lead/researcher#1 allows 0.02; 0.02 are spent; nothing is left for the next call.",
  outcome: "partial",
  reason: "cost_limit",
  steps: 2,
  subagent: "researcher#1",
  text: "Draft 3.",
  totalTokens: 2000,
});

const { status, reason, usage: used, agents } = result;
const usdText = (costUsd: number | null): string =>
  costUsd === null ? "cost unknown" : `$${costUsd}`;
console.log(`${status} (${reason.code}): ${usdText(used.total.costUsd)}`);
for (const { agentPath: path, reason, usage } of agents)
  console.log(`${path}: ${reason.message} ${usdText(usage.total.costUsd)}`);

// Did a limit stop anything, and whom first?
const limit = fold?.causes().find(({ isLimit }) => isLimit);
if (limit !== undefined) {
  const { agentPath, step, message } = limit;
  console.log(`${agentPath}, step ${step}: ${message}`);
}
assert.deepEqual(
  [limit?.agentPath, limit?.step, limit?.code],
  ["lead/researcher#1", 2, "cost_limit"],
);

assert.deepEqual([status, used.total.costUsd], ["completed", 0.06]);
assert.deepEqual(
  log
    .ofType("budget.threshold_reached")
    .map(({ accountPath, threshold }) => [accountPath, threshold]),
  [
    ["lead/researcher#1", 0.8],
    ["lead/researcher#1", 0.95],
    ["lead/researcher#2", 0.8],
    ["lead/researcher#2", 0.95],
    ["lead", 0.8],
    ["lead", 0.95],
  ],
);

// The budget of the run is used up: it ends as a value that says whose limit it was.
leading.requests.length = 0;
const tight = orchestrator.start(lead, "Write about espaliers.", {
  budget: { costUsd: 0.01, totalTokens: 20_000 },
});
const stopped = await tight.result;
console.log(`${stopped.status} (${stopped.reason.code}): ${stopped.reason.message}`);
assert.deepEqual([stopped.status, stopped.reason.code], ["stopped", "cost_limit"]);

// A person allows five cents more, and it continues where it was.
const resumed = orchestrator.resume(tight.snapshot(), {
  grants: [{ budget: { costUsd: 0.05 }, by: "Ada" }],
});
const finished = await resumed.result;
console.log(`${finished.status}: ${usdText(finished.usage.total.costUsd)}`);
