// Testing agents: scripted models, a manual clock, latches and a golden tree. Each part fits
// `node:test` and vitest.

import assert from "node:assert/strict";

import { z } from "zod";

import { defineAgent, defineTool, ModelError, Orchestrator, type Model } from "espalier";
import {
  asks,
  executeTool,
  formatEventTree,
  latch,
  ManualClock,
  RecordingSink,
  says,
  ScriptedModel,
  sequentialIds,
  flushEventLoop,
} from "espalier/testing";

// What is tested: a role that takes its models as arguments.
const lookUp = defineTool({
  name: "lookUp",
  description: "Looks up the price of something in euros.",
  inputSchema: z.object({ thing: z.string() }),
  execute: ({ thing }) => ({ thing, euros: 12 }),
});

function buyer(models: { readonly lead: Model; readonly clerk: Model }) {
  const clerk = defineAgent({
    name: "clerk",
    description: "Finds out one price",
    instructions: "Look the price up.",
    model: models.clerk,
    tools: [lookUp],
  });
  return defineAgent({
    name: "buyer",
    instructions: "Ask a clerk for each price, then add them up.",
    model: models.lead,
    subagents: [clerk],
    budget: { timeMs: 60_000 },
  });
}

const parts = ["a pear tree", "a wall"].map((task) => ({
  toolName: "SpawnSubagent",
  arguments: { role: "clerk", task },
}));

// 1. What the tree does, as text: who started whom, what was called, how each ended.
{
  const lead = new ScriptedModel([{ calls: parts }, says("24 euros.")]);
  const clerk = new ScriptedModel(({ messages }) =>
    messages.some(({ role }) => role === "tool")
      ? says("It costs 12 euros.")
      : asks("lookUp", { thing: messages.at(-1)?.text ?? "" }),
  );
  const log = new RecordingSink();
  const orchestrator = new Orchestrator({ sinks: [log] });

  const run = orchestrator.start(buyer({ lead, clerk }), "What do both cost?");
  const { text } = await run.orThrow();
  assert.equal(text, "24 euros.");
  assert.equal(
    `\n${formatEventTree(log.events)}\n`,
    `
buyer completed (completed) 2 steps, 30 of 90 tokens
├─ step 1 asked for 2
│  ├─ SpawnSubagent succeeded
│  │  └─ buyer/clerk#1 completed (completed) 2 steps, 30 of 30 tokens
│  │     ├─ step 1 asked for 1
│  │     │  └─ lookUp succeeded
│  │     └─ step 2 answered
│  └─ SpawnSubagent succeeded
│     └─ buyer/clerk#2 completed (completed) 2 steps, 30 of 30 tokens
│        ├─ step 1 asked for 1
│        │  └─ lookUp succeeded
│        └─ step 2 answered
└─ step 2 answered
`,
  );
  console.log(formatEventTree(log.events));
}

// 2. What a model is sent, and that the script was played to its end.
{
  const lead = new ScriptedModel([asks("SpawnSubagent", parts[0]?.arguments ?? {}), says("12.")]);
  const clerk = new ScriptedModel([asks("lookUp", { thing: 12 }), says("I cannot say.")]);
  await new Orchestrator().start(buyer({ lead, clerk }), "What does it cost?").orThrow();

  const [first, second] = clerk.requests;
  assert.deepEqual(
    first?.tools.map(({ name }) => name),
    ["lookUp"],
  );
  const correction = second?.messages.at(-1)?.text ?? "";
  assert.match(correction, /thing/); // the invalid argument
  clerk.assertComplete();

  const sent = first?.messages ?? [];
  const task = sent.findLast((m) => m.role === "user" && m.origin === "task");
  assert.equal(task?.text, "a pear tree");
}

// 3. A point in between: hold a reply up with a latch, let the rest run, look, and continue.
{
  const reply = latch();
  const lead = new ScriptedModel([{ calls: parts }, says("Half of it.")]);
  const clerk = new ScriptedModel([
    says("12 euros."),
    says("12 euros, at last.", { after: reply.opened }),
  ]);
  const log = new RecordingSink();
  const run = new Orchestrator({ sinks: [log] }).start(buyer({ lead, clerk }), "Both?");

  await flushEventLoop(); // only the second clerk still waits
  assert.deepEqual(
    log.ofType("agent.ended").map(({ agentPath }) => agentPath),
    ["buyer/clerk#1"],
  );
  reply.open();
  assert.equal((await run.orThrow()).text, "Half of it.");
}

// 4. Time: a clock that the test moves. A minute passes at once.
{
  const lead = new ScriptedModel([says("Never.", { after: latch().opened })]);
  const clerk = new ScriptedModel([]);
  const clock = new ManualClock();
  const orchestrator = new Orchestrator({ clock, ids: sequentialIds() });
  const run = orchestrator.start(buyer({ lead, clerk }), "Both?");

  await flushEventLoop();
  clock.advance(60_000);
  const { status, reason, runId } = await run.result;
  assert.deepEqual([status, reason.code, runId], ["stopped", "time_limit", "run_1"]);
}

// 5. What goes wrong: a model that fails, beside one that does not.
{
  const lead = new ScriptedModel([{ calls: parts }, says("12, and one that I do not know.")]);
  const message = "No connection.";
  const error = new ModelError({ code: "model_unavailable", message });
  const clerk = new ScriptedModel([says("12 euros."), { error }]);
  const orchestrator = new Orchestrator({ retryPolicy: { maxAttempts: 1 } });
  const run = orchestrator.start(buyer({ lead, clerk }), "Both?");
  const { status, agents } = await run.result;
  assert.equal(status, "completed");
  assert.deepEqual(
    agents.map((agent) => [agent.agentPath, agent.status]),
    [
      ["buyer", "completed"],
      ["buyer/clerk#1", "completed"],
      ["buyer/clerk#2", "failed"],
    ],
  );
}

// 6. One tool, without an agent: the call that an agent would make of it.
{
  const { type, text } = await executeTool(lookUp, { thing: "pears" });
  assert.deepEqual([type, text], ["succeeded", '{"euros":12,"thing":"pears"}']);
  const wrong = await executeTool(lookUp, { name: "pears" });
  assert.equal(wrong.errorCode, "invalid_arguments");
}
