// A program for the terminal: a live tree on stderr, the answer on stdout, Ctrl-C and exit codes.

import assert from "node:assert/strict";

import { z } from "zod";

import { defineAgent, defineTool, Orchestrator, type AgentRole, type EventSink } from "espalier";
import { formatRunReport, terminalView } from "espalier/terminal";
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

  console.error(formatRunReport(result, { color: process.stderr.isTTY }));
  for (const { agentPath, step, code, message } of fold?.causes() ?? [])
    console.error(`  ${agentPath}, step ${step ?? 0}: ${code}: ${message}`);
  if (result.status === "completed") console.log(result.text);
  return EXIT_CODES[result.status];
}

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
