// A conversation: several runs share a history that is persisted in a store.

import assert from "node:assert/strict";

import { defineAgent, memoryStore, Orchestrator } from "espalier";
import { says, ScriptedModel } from "espalier/testing";

const clerk = defineAgent({
  name: "clerk",
  instructions: "Answer our customers.",
  model: new ScriptedModel(({ messages }) => {
    const last = messages.at(-1)?.text ?? "";
    if (last.includes("outage")) return { error: new TypeError("The model is down.") };
    return says(`I have read ${messages.length - 1} messages.`);
  }),
});

const orchestrator = new Orchestrator({ store: memoryStore() });
const session = await orchestrator.openSession("customer-42", {
  retention: { maxMessages: 40 },
  failedExecutionPolicy: "remove", // removes the messages of a failed execution
});

const run = orchestrator.start(clerk, "Where is my order?", { session });
const first = await run.result;
const next = orchestrator.start(clerk, "And the invoice?", { session });
const second = await next.result;
console.log(`${second.text} ${second.newMessages.length} are new.`);
assert.equal(first.text, "I have read 1 messages.");
assert.equal(second.text, "I have read 3 messages.");
assert.deepEqual(second.session?.status, "saved");

for (const { role, executionId, stepId } of session.messages)
  console.log(role, executionId, stepId ?? "before the first step");
for (const { execution } of session.boundaries)
  console.log(`${execution.executionId} of ${execution.role} ended: ${execution.status}`);
assert.equal(session.boundaries.length, 1);

// One that failed leaves its record, and nothing in the history.
const failed = await orchestrator.start(clerk, "During an outage?", { session }).result;
assert.deepEqual([failed.status, session.messages.length], ["failed", 4]);
assert.deepEqual(session.executions.at(-1)?.isRemoved, true);

// Another process has the same session. Of two who write it at once one wins; nothing of the other is lost.
const elsewhere = await orchestrator.openSession("customer-42");
await orchestrator.start(clerk, "Are you there?", { session: elsewhere }).result;
const late = await orchestrator.start(clerk, "Hello?", { session }).result;
if (late.session?.status === "conflict") await session.merge(late);
assert.deepEqual([late.session?.status, session.messages.length], ["conflict", 8]);

// A session can begin with the messages of another program.
const moved = await orchestrator.openSession("customer-7");
if (moved.version === 0)
  await moved.importMessages([
    { role: "user", text: "Where is my order?" },
    { role: "assistant", text: "It is on its way." },
  ]);
const after = await orchestrator.start(clerk, "When?", { session: moved }).result;
assert.equal(after.text, "I have read 3 messages.");

// A fork begins with a part of the history, and goes its own way.
const executionId = session.executions[0]?.executionId;
const fork = await session.fork({ executionId, atStep: 1 });
const other = await orchestrator.start(clerk, "Cancel it.", { session: fork }).result;
console.log(
  `The fork has ${fork.messages.length} messages, its origin ${session.messages.length}.`,
);
assert.equal(other.text, "I have read 3 messages.");
assert.deepEqual([fork.messages.length, session.messages.length], [4, 8]);
assert.equal(fork.usage.modelCalls, 1);
