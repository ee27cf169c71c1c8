// Cancelling ends the tree leaves first. A tool that obeys its signal ends at once; one that does not is left behind.

import assert from "node:assert/strict";

import { z } from "zod";

import { defineAgent, defineTool, Orchestrator } from "espalier";
import { asks, says, ScriptedModel } from "espalier/testing";

const started = Promise.withResolvers<void>();
const wait = defineTool({
  name: "wait",
  description: "Waits for ever.",
  inputSchema: z.object({}),
  execute: (_input, { signal }) => {
    started.resolve();
    return new Promise<string>((resolve) =>
      signal.addEventListener("abort", () => resolve("told to end")),
    );
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

const run = new Orchestrator().start(lead, "Wait.");
const ends: string[] = [];
const listening = (async () => {
  for await (const event of run.events())
    if (event.type === "agent.ended") ends.push(`${event.agentPath} ${event.status}`);
})();
await started.promise;
const { reason } = await run.cancel("The user pressed Ctrl-C.");
await listening;

console.log(ends.join(", "));
assert.deepEqual(ends, ["lead/child#1 cancelled", "lead cancelled"]);
assert.equal(reason.message, "The user pressed Ctrl-C.");
