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
  type EspalierEvent,
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

/** What a page shows: the questions, as events or `toSse` give them. */
const questions = new Map<string, EspalierEvent<"question.asked">>();
async function show(run: Run): Promise<void> {
  for await (const event of run.events({ from: 1 })) {
    if (event.type === "question.asked") questions.set(event.questionId, event);
    if (event.type !== "question.answered") continue;
    questions.delete(event.questionId);
    console.log(`${event.toolName}: ${event.answer} by ${event.by ?? event.source}`);
  }
}

/** What it posts: an answer to one of them. */
async function answer(runId: string, questionId: string, user: string): Promise<void> {
  const question = questions.get(questionId);
  if (question === undefined) return;
  await orchestrator.answer(runId, [approve(question, { by: user })]);
}

const run = orchestrator.start(clerk, "Write of pears and of shade.");
const shown = show(run).catch(() => undefined); // it ends when the process gives the run up
while (questions.size < 2) await setImmediate();
const [first = "", second = ""] = questions.keys();
await answer(run.runId, first, "ada@example.com");
while (written.length === 0) await setImmediate();
assert.deepEqual(written, ["pears"]); // the run waits for the other one, and has not paused

// The process ends. Another one continues, and the question is still there.
run.result.catch(() => undefined);
await run.release({ graceMs: 0 });
await shown;
orchestrator = new Orchestrator(options);
const { runs } = await orchestrator.resumeLostRuns();
await answer(run.runId, second, "ben@example.com");
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
