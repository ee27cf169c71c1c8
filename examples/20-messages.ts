// The context of a model: sections, summaries of old messages, token counting and prompt caching.

import assert from "node:assert/strict";

import { z } from "zod";

import { defineAgent, defineTool, openai, Orchestrator } from "espalier";
import { transform } from "espalier/hooks";
import { asks, says, ScriptedModel } from "espalier/testing";
import { loadGptTokenCounter } from "espalier/tokens";

const pages = new Map([
  [1, `Page 1: trees are plants. ${"They grow. ".repeat(60)}`],
  [2, `Page 2: roses are shrubs. ${"They climb. ".repeat(60)}`],
  [3, `Page 3: an espalier is a tree that grows within a frame. ${"It bears fruit. ".repeat(40)}`],
]);
const read = defineTool({
  name: "read",
  description: "Reads a page.",
  inputSchema: z.object({ page: z.int() }),
  execute: ({ page }) => pages.get(page) ?? "Page not found.",
});

// Three sections: one is made anew for each step, one once for the execution, one goes into the history for good.
const toDo = new Set(["page 1", "page 2"]);
const model = new ScriptedModel([
  asks("read", { page: 1 }),
  asks("read", { page: 2 }),
  says("Done."),
]);
const reader = defineAgent({
  name: "reader",
  instructions: "Read the book.",
  model,
  tools: [read],
  sections: [
    {
      name: "memory",
      lifetime: "execution",
      text: async () => await loadMemory("reader"),
    },
    { name: "day", lifetime: "persistent", text: () => `It is ${today}.` },
    {
      name: "toDo",
      lifetime: "step", // computed before each model call, never saved
      text: ({ steps }) => {
        for (const { number } of steps) toDo.delete(`page ${number}`);
        if (toDo.size === 0) return undefined;
        return `Still to read: ${[...toDo].join(", ")}.`;
      },
    },
  ],
});

const today = "Monday";

function loadMemory(name: string): Promise<string> {
  return Promise.resolve(`What ${name} knows already: page 3.`);
}

const orchestrator = new Orchestrator();
const run = orchestrator.start(reader, "What do the pages say?");
const cleared: string[] = [];
const held: (boolean | undefined)[] = [];
for await (const event of run.events()) {
  if (event.type === "section.cleared") cleared.push(`${event.name} ${event.count}`);
  if (event.type === "model.requested") held.push(event.prefix?.isUnchanged);
}
const shown = model.requests.map(({ messages }) => messages.map(({ text }) => text.slice(0, 30)));
assert.deepEqual(shown[0], [
  "Read the book.",
  "What reader knows already: pag",
  "What do the pages say?",
  "It is Monday.",
  "Still to read: page 1, page 2.",
]);
assert.deepEqual(shown[1]?.slice(4), [
  "",
  "Page 1: trees are plants. They",
  "Still to read: page 2.",
]);
assert.equal(shown[2]?.at(-1)?.slice(0, 7), "Page 2:"); // Nothing is left to read, and nothing of it is in the history.
assert.deepEqual(cleared, ["memory 1"]);
assert.deepEqual(held, [undefined, true, true]); // Each request begins with all of the one before it.

// A processor of the history: it works on a copy, and what it leaves is made valid.
const shorten = transform("beforeModel", ({ messages }) => ({
  messages: messages.map((message) => {
    if (message.role !== "tool") return message;
    return { ...message, text: message.text.slice(0, 100) };
  }),
}));

// A history that outgrew its window is summed up, by the agent's own model and out of its own budget.
let page = 0;
const summarizer = new ScriptedModel(
  ({ messages }) => {
    if (messages[0]?.text.startsWith("Summarize") === true) return says("Pages 1 and 2: plants.");
    page += 1;
    return page > 3 ? says("Trees, roses, espaliers.") : asks("read", { page });
  },
  { countTokens: await loadGptTokenCounter("gpt-5-mini") },
);
const economist = defineAgent({
  name: "economist",
  instructions: "Read the book.",
  model: summarizer,
  tools: [read],
  compaction: { strategy: "summarize", maxInputTokens: 600, keepMessages: 2 },
});
const summed = orchestrator.start(economist, "What do the pages say?");
const summaries: unknown[] = [];
for await (const event of summed.events()) {
  if (event.type === "conversation.compacted")
    summaries.push([event.messagesBefore, event.messagesAfter, event.summaryCharacters]);
  if (event.type === "model.requested") assert.equal(event.isEstimated, false);
}
const answer = await summed.result;
console.log(answer.text);
assert.equal(answer.text, "Trees, roses, espaliers.");
assert.deepEqual(summaries, [[8, 5, 22]]);

// The same for a real model: its tokenizer is loaded here, once.
const counting = openai("gpt-5-mini", {
  apiKey: "sk-example",
  countTokens: await loadGptTokenCounter("gpt-5-mini"),
});
assert.equal(typeof counting.countTokens, "function");

const careful = new ScriptedModel([asks("read", { page: 1 }), says("Plants.")]);
await orchestrator.start(
  defineAgent({
    name: "careful",
    instructions: "Read.",
    model: careful,
    tools: [read],
    hooks: [shorten],
  }),
  "What does page 1 say?",
).result;
assert.equal(careful.requests[1]?.messages.at(-1)?.text.length, 100);
