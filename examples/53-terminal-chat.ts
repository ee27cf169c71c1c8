// A chat at the terminal: each line starts a run in one session, the answer streams, and Ctrl-C cancels the answer.

import assert from "node:assert/strict";
import { createInterface } from "node:readline";
import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";

import { defineAgent, memoryStore, Orchestrator, type AgentRole, type Run } from "espalier";
import { says, ScriptedModel } from "espalier/testing";

/** In your program: chat(lead, process.stdin, process.stdout). */
async function chat(lead: AgentRole, input: NodeJS.ReadableStream, output: NodeJS.WritableStream) {
  const orchestrator = new Orchestrator({
    store: memoryStore(), // sessions need a store
    unansweredPolicy: "deny", // nobody approves calls here
  });
  const session = await orchestrator.openSession("terminal");

  let run: Run | undefined;
  const lines = createInterface({ input, output, prompt: "> " });
  lines.on("SIGINT", () => {
    if (run === undefined) lines.close(); // at the prompt: ends the chat
    else void run.cancel("Ctrl-C"); // during an answer: cancels it
  });

  const answer = async (task: string): Promise<void> => {
    const budget = { steps: 20, timeMs: 120_000 };
    run = orchestrator.start(lead, task, { session, budget });
    for await (const part of run.stream()) {
      if (part.agentPath !== lead.name) continue; // hides the subagents
      if (part.type === "text") output.write(part.text);
      if (part.type === "reset") output.write("\n"); // the reply starts again
    }
    const { status, reason } = await run.result;
    run = undefined;
    const end = status === "completed" ? "" : `${status}: ${reason.message}`;
    output.write(`${end}\n`);
  };

  lines.prompt();
  for await (const line of lines) {
    if (line.trim() !== "") await answer(line);
    lines.prompt();
  }
}

// Ann types two questions, cancels the second answer, and ends the chat at the prompt.
const input = new PassThrough();
const output = Object.assign(new PassThrough(), { isTTY: true });
const model = new ScriptedModel([
  says("A tree along a wall."),
  () => {
    setImmediate(() => input.write("\u0003"));
    return says("Never said.", { after: new Promise(() => undefined) });
  },
]);
const lead = defineAgent({ name: "lead", instructions: "Answer briefly.", model });
const shown = text(output);
const chatting = chat(lead, input, output);
input.write("What is an espalier?\n");
input.write("And a cordon?\n");
output.on("data", (chunk) => {
  if (String(chunk).startsWith("cancelled")) input.write("\u0003");
});
await chatting;
output.end();

// The terminal also shows the typed lines and the prompts, with control characters.
const seen = await shown;
console.log(seen);
assert.match(seen, /A tree along a wall\./);
assert.match(seen, /cancelled: .*Ctrl-C/);
assert.doesNotMatch(seen, /Never said/);
