// Cancelling ends the tree, the deepest agents first. A tool that passes its signal on ends at once.

import assert from "node:assert/strict";
import { setTimeout } from "node:timers/promises";

import { z } from "zod";

import { defineAgent, defineTool, Orchestrator } from "espalier";
import { asks, says, ScriptedModel } from "espalier/testing";

const wait = defineTool({
  name: "wait",
  description: "Waits for an hour.",
  inputSchema: z.object({}),
  execute: async (_input, { signal }) => {
    await setTimeout(3_600_000, "Done.", { signal }); // rejects on abort
  },
});

const child = defineAgent({
  name: "child",
  description: "Waits",
  instructions: "Wait.",
  model: new ScriptedModel([asks("wait", {}), says("never")]),
  tools: [wait],
});
const lead = defineAgent({
  name: "lead",
  instructions: "Delegate.",
  model: new ScriptedModel([
    asks("SpawnSubagent", { role: "child", task: "Wait." }),
    says("never"),
  ]),
  subagents: [child],
});
const orchestrator = new Orchestrator();
const ends: string[] = [];

const run = orchestrator.start(lead, "Wait.");
for await (const event of run.events()) {
  if (event.type === "tool.started" && event.toolName === "wait") {
    void run.cancel("The user pressed Ctrl-C.");
  }
  if (event.type === "agent.ended") {
    ends.push(`${event.agentPath} ${event.status}`);
  }
}
const { status, reason } = await run.result;

console.log(ends.join(", "));
assert.deepEqual(ends, ["lead/child#1 cancelled", "lead cancelled"]);
assert.deepEqual([status, reason.message], ["cancelled", "The user pressed Ctrl-C."]);
