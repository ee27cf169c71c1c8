// Context of a subagent: by default nothing but its task, and only tools that all agents above
// it allow.

import assert from "node:assert/strict";

import { defineAgent, defineTool, Orchestrator } from "espalier";
import { asks, says, ScriptedModel } from "espalier/testing";
import { z } from "zod";

const readPage = defineTool({
  name: "read_page",
  description: "Reads a page.",
  inputSchema: z.object({ page: z.int() }),
  execute: ({ page }) => `Page ${page}: trees are trained.`,
});
const writeNote = defineTool({
  name: "write_note",
  description: "Writes into the margin.",
  inputSchema: z.object({ text: z.string() }),
  execute: () => "Written.",
});

const readerModel = new ScriptedModel([says("Page 1 says: trees are trained.")]);
const reader = defineAgent({
  name: "reader",
  description: "Reads",
  instructions: "Read.",
  model: readerModel,
  tools: [readPage, writeNote],
});
const criticModel = new ScriptedModel([says("The reader is right.")]);
const critic = defineAgent({
  name: "critic",
  description: "Judges what readers say",
  instructions: "Judge.",
  model: criticModel,
});

const leadModel = new ScriptedModel([
  asks("read_page", { page: 1 }),
  asks("SpawnSubagent", { role: "reader", task: "Read page one." }),
  asks("SpawnSubagent", {
    role: "critic",
    task: "Is that so?",
    includeResultsFrom: ["reader#1"],
  }),
  says("Done."),
]);
const lead = defineAgent({
  name: "lead",
  instructions: "Delegate.",
  model: leadModel,
  tools: [readPage, writeNote],
  subagents: [reader, critic],
  contextPolicy: {
    inheritMessages: true,
    messageWindowSize: 2, // at most the last two messages
    metadataKeys: ["book"],
    injectedTexts: ["House rule: quote the page."],
    deniedTools: ["write_note"], // for all agents below the lead
  },
});

const run = new Orchestrator().start(lead, "Read the book.", {
  metadata: { book: "Trees", reader: "Ada" },
});
for await (const event of run.events()) {
  if (event.type !== "subagent.spawned") continue;
  const { messages, injections, metadataKeys, results, removedTools } = event.inherited;
  console.log(`${event.childPath} received ${messages.count} + ${injections.count} messages,`);
  console.log(`  metadata: ${metadataKeys.join()}; results: ${results.join() || "none"}`);
  for (const { toolName, rule, source } of removedTools)
    console.log(`  without ${toolName}: ${rule} by ${source}`);
}
const { agents } = await run.result;

const [request] = readerModel.requests;
assert.deepEqual(
  request?.messages.map(({ text }) => text),
  [
    "Read.",
    "", // the lead's call of read_page, and its result
    "Page 1: trees are trained.",
    "House rule: quote the page.",
    "Tools that you cannot use, even if your instructions mention them. Do without them, or say what is missing:\n- write_note: denied by lead",
    "Read page one.",
  ],
);
assert.deepEqual(
  request?.tools.map(({ name }) => name),
  ["read_page"],
);
assert.deepEqual(agents[1]?.metadata, { book: "Trees" });

const handedOn = criticModel.requests[0]?.messages.at(-2)?.text ?? "";
console.log(handedOn);
assert.match(handedOn, /^Results of other subagents for your task, word for word\./);
assert.match(
  handedOn,
  /\nPage 1 says: trees are trained\.\n<\/subagent-result tag="[0-9a-f]{16}">$/,
);

// What is seen of the conversation may be chosen by hand, too.
const askerModel = new ScriptedModel([says("Why?")]);
const asker = defineAgent({
  name: "asker",
  description: "Asks why",
  instructions: "Ask.",
  model: askerModel,
});
const discreet = defineAgent({
  name: "discreet",
  instructions: "Keep your readings to yourself.",
  model: new ScriptedModel([
    asks("read_page", { page: 2 }),
    asks("SpawnSubagent", { role: "asker", task: "Ask." }),
    says("Done."),
  ]),
  tools: [readPage],
  subagents: [asker],
  contextPolicy: {
    selectMessages: (all) => all.filter(({ role }) => role === "user"),
  },
});
await new Orchestrator().start(discreet, "Read the book.").result;
assert.deepEqual(
  askerModel.requests[0]?.messages.map(({ text }) => text),
  ["Ask.", "Read the book.", "Ask."],
);
