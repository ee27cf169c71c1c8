// A subagent starts fresh unless the policy of its parent hands something on.

import assert from "node:assert/strict";

import { defineAgent, Orchestrator } from "espalier";
import { asks, says, ScriptedModel } from "espalier/testing";

const readerModel = new ScriptedModel([says("Read.")]);
const reader = defineAgent({
  name: "reader",
  purpose: "Reads",
  instructions: "Read.",
  model: readerModel,
});

const lead = defineAgent({
  name: "lead",
  instructions: "Delegate.",
  model: new ScriptedModel([
    asks("SpawnSubagent", { role: "reader", task: "Read chapter one." }),
    says("Done."),
  ]),
  subagents: [reader],
  context: {
    inheritMessages: true,
    messageWindowSize: 6,
    metadataKeys: ["book"],
    contextInjections: ["House rule: quote the page."],
  },
});

const { agents } = await new Orchestrator().start(lead, "Read the book.", {
  metadata: { book: "Trees", reader: "Ada" },
}).result;

assert.deepEqual(
  readerModel.requests[0]?.messages.map((message) => message.text),
  ["Read.", "Read the book.", "House rule: quote the page.", "Read chapter one."],
);
assert.deepEqual(agents[1]?.metadata, { book: "Trees" });
