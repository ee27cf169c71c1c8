// A recorded run as a test fixture: it replays without models and tools, and reports how a changed
// role diverges.

import assert from "node:assert/strict";

import { z } from "zod";

import { defineAgent, defineTool, memoryStore, Orchestrator } from "espalier";
import { asks, loadRecording, replay, says, ScriptedModel } from "espalier/testing";

let lookups = 0;
const look = defineTool({
  name: "look",
  description: "Looks up the price of something.",
  inputSchema: z.object({ thing: z.string() }),
  execute: () => {
    lookups += 1;
    return "12 euros";
  },
});

// In your program: openai("gpt-5-mini"). A replay never calls it.
const script = [asks("look", { thing: "a pear tree" }), says("It costs 12 euros.")];
const buyer = (instructions: string) =>
  defineAgent({
    name: "buyer",
    instructions,
    model: new ScriptedModel(script),
    tools: [look],
  });
const role = buyer("Find the price.");

// Once: run it in earnest, with a store, and keep the recording in a file of your repository.
const store = memoryStore();
const run = new Orchestrator({ store }).start(role, "What does a pear cost?");
const { text } = await run.result;
const recording = await loadRecording(store, run.runId);

// In every test run: no model, no tool, the same result.
const replayed = await replay(recording, { role });
assert.equal(replayed.text, text);
assert.equal(lookups, 1);

// The instructions were changed: the replay names the agent that does something else, in which step, and what.
const changed = buyer("Find the price. Be brief.");
await assert.rejects(replay(recording, { role: changed }), {
  code: "replay_diverged",
  data: {
    segment: 1,
    agentPath: "buyer",
    stepNumber: 0,
    field: "state.conversation.messages[0].text",
    expected: '"Find the price."',
    got: '"Find the price. Be brief."',
  },
});

// How far it came: a run that was paused, or whose process died, has several segments.
const { status, segments } = await replay(recording, { role });
console.log(status, segments); // completed [{ begin: "started", end: "ended" }]
assert.deepEqual([status, segments.length], ["completed", 1]);
console.log(`${text} Replayed without a model.`);
