// Stepping through the loop: the caller inspects the tool calls of a model before any tool runs.

import assert from "node:assert/strict";

import { z } from "zod";

import { defineAgent, defineTool, Orchestrator } from "espalier";
import { asks, says, ScriptedModel } from "espalier/testing";

let deleted = 0;
const remove = defineTool({
  name: "remove",
  description: "Deletes a file.",
  inputSchema: z.object({ path: z.string() }),
  execute: () => {
    deleted += 1;
  },
});
const cleaner = defineAgent({
  name: "cleaner",
  instructions: "Clean up.",
  model: new ScriptedModel([asks("remove", { path: "/" }), says("Clean.")]),
  tools: [remove],
});

const run = new Orchestrator().start(cleaner, "Clean the disk.");
for await (const { phase, state } of run.iterate()) {
  const last = state.conversation.messages.at(-1);
  if (
    phase === "evaluate" &&
    last?.role === "assistant" &&
    last.toolCalls.some((call) => call.toolName === "remove")
  ) {
    run.requestStop("Deleting is not allowed here.");
  }
}
const { status, reason } = await run.result;

console.log(`${status}: ${reason.message}`);
assert.deepEqual([status, reason.code, deleted], ["stopped", "stop_requested", 0]);
