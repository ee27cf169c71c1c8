// Approvals from a web page: the run waits while it is answered through the store, also after its
// process died.

import assert from "node:assert/strict";
import { setImmediate } from "node:timers/promises";

import { z } from "zod";

import {
  approve,
  defineAgent,
  defineTool,
  memoryStore,
  Orchestrator,
  type OrchestratorOptions,
  type Run,
} from "espalier";
import { says, ScriptedModel } from "espalier/testing";

const written: string[] = [];
const writeNote = defineTool({
  name: "writeNote",
  description: "Writes a note.",
  inputSchema: z.object({ name: z.string() }),
  needsApproval: true,
  execute: ({ name }) => {
    written.push(name);
    return `Written: ${name}.`;
  },
});
const names = ["pears", "shade"];
const clerk = defineAgent({
  name: "clerk",
  instructions: "Write notes.",
  model: new ScriptedModel(({ messages }) =>
    messages.at(-1)?.role === "tool"
      ? says("Both are written.")
      : { calls: names.map((name) => ({ toolName: "writeNote", arguments: { name } })) },
  ),
  tools: [writeNote],
});

// In your program a store that outlives the process: sqliteStore("runs.db"), or postgresStore.
const store = memoryStore();
const options: OrchestratorOptions = {
  roles: [clerk],
  store,
  approver: () => new Promise(() => undefined), // orchestrator.answer answers
};
let orchestrator = new Orchestrator(options);

/** Answers a question for a user of the page, which has read it from `listQuestions`. */
async function answer(questionId: string, user: string): Promise<void> {
  const { questions } = await orchestrator.listQuestions();
  const question = questions.find((open) => open.questionId === questionId);
  if (question === undefined) return; // somebody else has answered it
  const { runId } = question;
  await orchestrator.answer(runId, [approve(question, { by: user })]);
}

/** Returns the ids of the open questions of all runs, once there are enough. */
async function waitForQuestions(count: number): Promise<readonly string[]> {
  for (;;) {
    const { questions } = await orchestrator.listQuestions();
    if (questions.length >= count) return questions.map(({ questionId }) => questionId);
    await setImmediate();
  }
}

/** Logs who answered. */
async function log(run: Run): Promise<void> {
  for await (const event of run.events({ from: 1 })) {
    if (event.type !== "question.answered") continue;
    const { toolName, answer, by, source } = event;
    console.log(`${toolName}: ${answer} by ${by ?? source}`);
  }
}

const run = orchestrator.start(clerk, "Write of pears and of shade.");
const logged = log(run).catch(() => undefined); // it ends when the process gives the run up
await run.whenPersisted();
const [first = ""] = await waitForQuestions(2);
await answer(first, "ada@example.com");
while (written.length === 0) await setImmediate();
assert.deepEqual(written, ["pears"]); // the run waits for the other one, and has not paused

// The process ends. Another one continues, and the question is still there.
run.result.catch(() => undefined);
await run.release({ graceMs: 0 });
await logged;
orchestrator = new Orchestrator(options);
const { runs } = await orchestrator.resumeLostRuns();
const [second = ""] = await waitForQuestions(1);
await answer(second, "ben@example.com");
const result = await runs[0]?.result;
assert.equal(result?.status, "completed");
assert.deepEqual(written, ["pears", "shade"]);
console.log(result.text);

// Without an approver the run pauses. Another process needs only the store and the id of the run.
const { runId } = await new Orchestrator({ store }).start(clerk, "Write of pears and of shade.")
  .result;
const later = new Orchestrator({ roles: [clerk], store });
const { questions: open } = await later.getResult(runId);
const answers = open.map((question) => approve(question));
const resumed = await later.resume(runId, { answers });
const { status, text } = await resumed.result;
console.log(status, text);
assert.equal(status, "completed");

// A service whose runs pause: it answers, and continues the run if it has paused.
const desk = new Orchestrator({ roles: [clerk], store });
async function decide(questionId: string, user: string): Promise<void> {
  const { questions } = await desk.listQuestions();
  const question = questions.find((open) => open.questionId === questionId);
  if (question === undefined) return;
  const { runId } = question;
  await desk.answer(runId, [approve(question, { by: user })]);
  await desk.resumeLostRuns(); // continues the run if it has paused
}

const ticket = await desk.start(clerk, "Write of pears and of shade.").result;
const [pears, shade] = ticket.questions;
await decide(pears?.questionId ?? "", "ada@example.com"); // this note is written at once
await desk.findActiveRun(ticket.runId)?.result; // the run pauses again
await decide(shade?.questionId ?? "", "ben@example.com");
const done = await desk.findActiveRun(ticket.runId)?.result;
assert.equal(done?.status, "completed");
