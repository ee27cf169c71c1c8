// Hooks that observe, transform and wrap model calls and tool calls.

import assert from "node:assert/strict";

import { z } from "zod";

import { defineAgent, defineTool, Orchestrator } from "espalier";
import { observe, processStep, transform, wrapModelCall, wrapToolCall } from "espalier/hooks";
import { asks, says, ScriptedModel } from "espalier/testing";

const log: string[] = [];
const read = defineTool({
  name: "read",
  description: "Reads a file.",
  inputSchema: z.object({ path: z.string() }),
  execute: ({ path }) => `the text of ${path}, token sk-123`,
});

const model = new ScriptedModel([
  asks("read", { path: "notes.txt" }),
  asks("read", { path: "/etc/passwd" }),
  says("Done."),
  says("Done, and checked."),
]);

// Changes the arguments of a call, or denies it.
const onlyInside = transform("beforeTool", ({ arguments: input }) => {
  const { path } = z.object({ path: z.string() }).parse(input);
  if (path.startsWith("/")) return { deny: "Stay inside the folder." };
  return { arguments: { path: `folder/${path}` } };
});
// Redacts the results of tools.
const redact = transform("afterTool", ({ text }) => ({
  text: text.replaceAll(/sk-\w+/g, "[secret]"),
}));
// Adds a message to this request only.
const hint = "Today is Monday.";
const today = transform("beforeModel", ({ messages }) => ({
  messages: [...messages, { role: "user", origin: "injected", text: hint }],
}));
// Runs code around a tool call.
const timed = wrapToolCall(async ({ toolName }, next) => {
  const result = await next();
  log.push(`${toolName} ran`);
  return result;
});
// Changes the reply of a model call.
const tidy = wrapModelCall(async (_call, next) => {
  const reply = await next();
  const text = reply.message.text.trim();
  return { ...reply, message: { ...reply.message, text } };
});
// Inspects each completed step.
const countSteps = processStep(({ number }) => log.push(`step ${number}`));
// Continues instead of ending, once.
const reviewOnce = transform("stop", ({ isActive }) =>
  isActive ? undefined : { continueWith: "Check it once more." },
);

const reader = defineAgent({
  name: "reader",
  instructions: "Read the notes.",
  model,
  tools: [read],
  hooks: [onlyInside, redact, today, timed, tidy, countSteps, reviewOnce],
});

const orchestrator = new Orchestrator({
  hooks: [
    observe("agent.ended", ({ status, stepCount }) => log.push(`${status}, ${stepCount} steps`)),
  ],
});
const { text } = await orchestrator.start(reader, "What is in the notes?").result;

console.log(log.join("\n"));
assert.equal(text, "Done, and checked.");
assert.deepEqual(log, ["read ran", "step 1", "step 2", "step 3", "step 4", "completed, 4 steps"]);
const results = model.requests[2]?.messages.filter(({ role }) => role === "tool");
assert.deepEqual(
  results?.map((message) => message.text),
  [
    "the text of folder/notes.txt, token [secret]",
    "Not executed: read was denied. Stay inside the folder. Do without it, or answer with what you have.",
  ],
);
assert.deepEqual(
  model.requests.map(
    ({ messages }) => messages.filter(({ text }) => text === "Today is Monday.").length,
  ),
  [1, 1, 1, 1],
);
