// The program of the guides for users of other libraries: a lead, a clerk, a typed result and
// limits.

import assert from "node:assert/strict";

import { z } from "zod";

import { defineAgent, defineTool, memoryStore, Orchestrator } from "espalier";
import { asks, says, ScriptedModel } from "espalier/testing";

// In your program: openai("gpt-5-mini"), imported from "espalier".
const openai = (name: string) =>
  new ScriptedModel(
    ({ messages }) => {
      const answer = messages.findLast(({ role }) => role === "tool")?.text;
      const isLead = messages[0]?.text.startsWith("Ask") === true;
      if (answer !== undefined) return asks("Finish", { euros: isLead ? 24 : 12 });
      if (!isLead) return asks("lookUp", { thing: messages.at(-1)?.text ?? "" });
      const calls = ["a pear tree", "a wall"].map((task) => ({
        toolName: "SpawnSubagent",
        arguments: { role: "clerk", task },
      }));
      return { calls };
    },
    { id: name, price: { inputUsdPerMillion: 0.25, outputUsdPerMillion: 2 } },
  );

const lookUp = defineTool({
  name: "lookUp",
  description: "Looks up the price of something in euros.",
  inputSchema: z.object({ thing: z.string() }),
  execute: ({ thing }) => `${thing}: 12 euros`,
});

const clerk = defineAgent({
  name: "clerk",
  description: "Finds out one price",
  instructions: "Look the price up.",
  model: openai("gpt-5-mini"),
  tools: [lookUp],
  output: z.object({ euros: z.number() }),
  budget: { steps: 5 },
});

const buyer = defineAgent({
  name: "buyer",
  instructions: "Ask a clerk for each price, then add them up.",
  model: openai("gpt-5-mini"),
  subagents: [clerk],
  output: z.object({ euros: z.number() }),
});

const limits = { maxDepth: 1, maxTotalSubagents: 5 };
const orchestrator = new Orchestrator({ limits });
const task = "What do a pear tree and a wall cost?";
const run = orchestrator.start(buyer, task, {
  budget: { steps: 20, totalTokens: 50_000, costUsd: 0.1 }, // whole tree
});
const { output } = await run.orThrow();
console.log(output.euros);

assert.deepEqual(output, { euros: 24 });
const { agents, subagentsByDepth } = await run.result;
assert.deepEqual(subagentsByDepth, { 1: 2 });
assert.deepEqual(
  agents.map(({ output }) => output),
  [{ euros: 24 }, { euros: 12 }, { euros: 12 }],
);

// An existing conversation becomes the beginning of a session.
{
  const loadMessages = async (_chat: string) => {
    const stored: { role: "user" | "assistant"; content: string }[] = [
      { role: "user", content: "Do pears grow here?" },
      { role: "assistant", content: "Yes." },
    ];
    return await Promise.resolve(stored);
  };
  const chat = "customer-42";
  const model = new ScriptedModel([says("Yes, figs too.")]);
  const guide = defineAgent({ name: "guide", instructions: "Answer.", model });
  const orchestrator = new Orchestrator({ store: memoryStore() });
  const session = await orchestrator.openSession(chat);
  if (session.version === 0) {
    const rows = await loadMessages(chat); // from your own table
    const messages = rows.map(({ role, content }) => ({ role, text: content }));
    await session.importMessages(messages);
  }
  const run = orchestrator.start(guide, "And figs?", { session });
  await run.orThrow();
  assert.deepEqual(
    model.requests[0]?.messages.map(({ text }) => text),
    ["Answer.", "Do pears grow here?", "Yes.", "And figs?"],
  );
}
