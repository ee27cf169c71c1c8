// A program for the terminal: a live tree on stderr, the answer on stdout, Ctrl-C and exit codes.

import assert from "node:assert/strict";
import { createInterface } from "node:readline/promises";
import { PassThrough } from "node:stream";

import { z } from "zod";

import {
  approve,
  defineAgent,
  defineTool,
  deny,
  EspalierError,
  memoryStore,
  Orchestrator,
  type AgentRole,
  type Approver,
  type EventSink,
  type Run,
} from "espalier";
import type { Store } from "espalier/extend";
import { formatRunReport, stripControlCharacters, terminalView } from "espalier/terminal";
import { asks, says, ScriptedModel, type ScriptedReply } from "espalier/testing";
import { RunFold } from "espalier/view";

const EXIT_CODES = {
  completed: 0,
  failed: 1,
  stopped: 3,
  paused: 4,
  cancelled: 130,
};

/** Does what is asked, and gives the exit code. */
async function command(lead: AgentRole, task: string): Promise<number> {
  const view = terminalView({ stream: process.stderr, lastFrame: "erase" });
  const interruption = new AbortController();
  const onInterrupt = (): void => {
    view.print("Cancelling. Press Ctrl-C again to exit at once.\n");
    interruption.abort(new Error("Ctrl-C")); // the reason of the result
  };
  process.once("SIGINT", onInterrupt); // a second Ctrl-C ends the process

  let fold: RunFold | undefined;
  const folding: EventSink = {
    emit: (event) => (fold ??= new RunFold(event.runId)).apply(event),
  };
  const orchestrator = new Orchestrator({
    sinks: [view, folding],
    unansweredPolicy: "deny",
  });
  const result = await orchestrator.start(lead, task, {
    budget: { steps: 20, timeMs: 600_000 },
    signal: interruption.signal,
  }).result;
  process.off("SIGINT", onInterrupt);

  const color = process.stderr.isTTY && process.stderr.hasColors(); // NO_COLOR
  console.error(formatRunReport(result, { color }));
  for (const { agentPath, step, code, message } of fold?.causes() ?? [])
    console.error(`  ${agentPath}, step ${step ?? 0}: ${code}: ${message}`);
  if (result.status === "completed") console.log(result.text);
  return EXIT_CODES[result.status];
}

/** Runs or resumes a run that Ctrl-C pauses, and whose calls a person approves. Returns its end. */
async function resumable(
  begin: (orchestrator: Orchestrator) => Run | Promise<Run>,
  { store, role, input }: { store: Store; role: AgentRole; input: NodeJS.ReadableStream },
): Promise<string> {
  const view = terminalView({ stream: process.stderr, lastFrame: "erase" });
  const terminal = createInterface({ input, output: process.stderr });
  let last: Promise<unknown> = Promise.resolve(); // one prompt at a time
  const approver: Approver = (question, { signal }) => {
    const answer = last.then(async () => {
      const call = `${question.toolName} ${JSON.stringify(question.arguments)}`;
      const text = stripControlCharacters(`${question.reason} ${call}`);
      const restore = view.suspend();
      try {
        const prompt = `${text}\nApprove? [y/N] `;
        const reply = await terminal.question(prompt, { signal });
        return reply === "y" ? approve(question) : deny(question, "Refused.");
      } finally {
        restore();
      }
    });
    last = answer.catch(() => undefined);
    return answer;
  };

  let fold: RunFold | undefined;
  const folding: EventSink = {
    emit: (event) => (fold ??= new RunFold(event.runId)).apply(event),
  };
  const person: EventSink = {
    emit: ({ type }) => void (type === "question.asked" && setImmediate(answerPrompt)),
  };
  const sinks = [view, folding, person];
  const orchestrator = new Orchestrator({ roles: [role], store, approver, sinks });
  const run = await begin(orchestrator);

  let presses = 0;
  const onInterrupt = (): void => {
    presses += 1;
    if (presses === 1) run.requestPause(); // lets calls in progress end
    else if (presses === 2) void run.release({ graceMs: 0 }); // aborts them
    else process.exit(130);
  };
  process.on("SIGINT", onInterrupt);
  terminal.on("SIGINT", onInterrupt); // a prompt receives Ctrl-C itself

  const { status } = await run.result.catch((error: unknown) => {
    if (!EspalierError.is(error) || error.code !== "run_released") throw error;
    const { totalTokens = 0 } = fold?.root?.subtree ?? {};
    console.error(`Released after ${totalTokens} tokens.`);
    return { status: "released" } as const;
  });
  process.off("SIGINT", onInterrupt);
  terminal.close();
  return status;
}

/** What the person does at a prompt. */
let answerPrompt = (): void => undefined;

// In your program: model: openai("gpt-5-mini"). The models of these have their replies by heart.
const leadThat = (...replies: readonly ScriptedReply[]): AgentRole =>
  defineAgent({
    name: "lead",
    instructions: "Answer in one sentence. Ring the bell where you must wait.",
    model: new ScriptedModel(replies),
    tools: [bell],
  });

/** Somebody presses Ctrl-C while it rings. */
const bell = defineTool({
  name: "ring",
  description: "Rings the bell.",
  inputSchema: z.object({}),
  execute: (_input, { signal }) =>
    new Promise<string>((resolve) => {
      signal.addEventListener("abort", () => resolve("It has stopped ringing."));
      process.kill(process.pid, "SIGINT");
    }),
});

assert.equal(await command(leadThat(asks("ring", {}), says("Never.")), "Ring."), 130);
assert.equal(process.listenerCount("SIGINT"), 0);

const lead = leadThat(says("Pears: they ripen early on a warm wall."));
process.exitCode = await command(lead, process.argv[2] ?? "Which fruit for a wall?");
assert.equal(process.exitCode, 0);

// A person pauses the run at a prompt, resumes it, and approves the call in a second prompt.
const store = memoryStore();
const remove = defineTool({
  name: "remove",
  description: "Removes a tree.",
  inputSchema: z.object({ tree: z.string() }),
  needsApproval: true,
  execute: ({ tree }) => `${tree} is removed.`,
});
const gardener = defineAgent({
  name: "gardener",
  instructions: "Remove dead trees.",
  model: new ScriptedModel([asks("remove", { tree: "the old plum" }), says("It is removed.")]),
  tools: [remove],
});
answerPrompt = () => void process.kill(process.pid, "SIGINT");
const first = { store, role: gardener, input: new PassThrough() };
const start = (orchestrator: Orchestrator): Run =>
  orchestrator.start(gardener, "Tidy up.", { runId: "garden" });
assert.equal(await resumable(start, first), "paused");
const input = new PassThrough();
answerPrompt = () => void input.write("y\n");
const resume = (orchestrator: Orchestrator): Promise<Run> => orchestrator.resume("garden");
assert.equal(await resumable(resume, { ...first, input }), "completed");

// Two interrupts during a call release the run.
const patient = defineAgent({
  name: "patient",
  instructions: "Wait.",
  model: new ScriptedModel([asks("listen", {}), says("Never.")]),
  tools: [
    defineTool({
      name: "listen",
      description: "Listens for Ctrl-C.",
      inputSchema: z.object({}),
      execute: async (_input, { signal }) => {
        process.emit("SIGINT");
        process.emit("SIGINT");
        await new Promise((_resolve, reject) => {
          signal.addEventListener("abort", () => reject(signal.reason));
        });
      },
    }),
  ],
});
const listen = (orchestrator: Orchestrator): Run => orchestrator.start(patient, "Listen.");
assert.equal(await resumable(listen, { ...first, role: patient }), "released");

const runs = await store.list({ limit: 20 });
const last = runs.find(({ status }) => status !== "ended");
assert.equal(last?.status, "open"); // the released run
