// Reading a persisted run without running it: its state from its events, the content of steps on
// demand.

import assert from "node:assert/strict";

import { defineAgent, defineTool, memoryStore, Orchestrator, type EspalierEvent } from "espalier";
import { formatRunReport } from "espalier/terminal";
import { asks, formatEventTree, says, ScriptedModel } from "espalier/testing";
import { RunFold, RunRecord } from "espalier/view";
import { z } from "zod";

const read = defineTool({
  name: "read",
  description: "Reads a file.",
  inputSchema: z.object({ path: z.string() }),
  execute: ({ path }) => {
    throw new Error(`There is no ${path}.`);
  },
});
const reader = defineAgent({
  name: "reader",
  instructions: "Read.",
  model: new ScriptedModel([asks("read", { path: "a.ts" }), says("Never.")]),
  tools: [read],
  errorBudget: { maxToolErrors: 0 },
});
const store = memoryStore();
const orchestrator = new Orchestrator({ store });
const { runId } = await orchestrator.start(reader, "Read a.ts.").result;

const fold = new RunFold(runId);
const record = new RunRecord(store, runId);
// Call it again later to read the events that were recorded since.
await record.advance((event, line) => fold.apply(event, line));
console.log(fold.causes(), fold.root?.subtree, fold.snapshot().run.status);

const [first] = fold.agents;
if (first !== undefined) console.log(await record.steps(first.agentId));

assert.deepEqual(
  fold.causes().map(({ toolName, code }) => [toolName, code]),
  [
    ["read", "tool_error"],
    [undefined, "error_budget"],
  ],
);

// The stored run as a tree, and as a report.
const events: EspalierEvent[] = [];
const reading = new RunRecord(store, runId);
await reading.advance((event) => void events.push(event));
console.log(formatEventTree(events));
console.log(formatRunReport(await orchestrator.getResult(runId)));
assert.match(formatEventTree(events), /^reader stopped \(error_budget\)/);
