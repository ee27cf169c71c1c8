// A program as users have it: nothing is frozen but by the library itself. Prints as JSON what it saw that could be written to.

import { z } from "zod";

import { defineAgent, defineTool, Orchestrator, toolGuard } from "espalier";
import { observe, processStep, transform, wrapModelCall } from "espalier/hooks";
import { asks, says, ScriptedModel } from "espalier/testing";

const writable = new Set<string>();
const seen = new Set<string>();

/** Notes each part of a value that is not frozen, by its place. */
function look(place: string, value: unknown, known = new Set<unknown>()): void {
  seen.add(place.split(".")[0] ?? place);
  if (typeof value !== "object" || value === null || known.has(value)) return;
  known.add(value);
  if (!Object.isFrozen(value)) writable.add(place);
  for (const [key, part] of Object.entries(value)) look(`${place}.${key}`, part, known);
}

const read = defineTool({
  name: "read",
  description: "Reads.",
  input: z.object({ at: z.object({ line: z.number() }) }),
  execute: ({ at }, { messages, metadata }) => {
    look("tool", Object.freeze({ messages, metadata }));
    return { lines: [at.line] };
  },
});
const answers = (): ScriptedModel =>
  new ScriptedModel([
    asks("read", { at: { line: 1 } }),
    asks("SpawnSubagent", { role: "helper", task: "Help." }),
    asks("read", { at: { line: 2 } }),
    says("done"),
  ]);
const helper = defineAgent({
  name: "helper",
  purpose: "Helps",
  instructions: "Help.",
  model: new ScriptedModel([says("helped"), says("helped"), says("helped")]),
});
const common = { name: "lead", instructions: "Read.", tools: [read], subagents: [helper] };
const hooked = defineAgent({
  ...common,
  model: answers(),
  guards: [
    toolGuard((call, { messages }) => {
      look("guard", Object.freeze({ call, messages }));
      return { type: "allow" };
    }),
  ],
  stopWhen: [
    ({ steps, usage }) => {
      look("condition", Object.freeze({ steps, usage }));
      return undefined;
    },
  ],
  hooks: [
    processStep((step) => look("processor", step)),
    transform("beforeModel", (input) => look("transform", input)),
    transform("stop", (input) => look("stop", input)),
    wrapModelCall(async ({ request }, next) => {
      look("request", request);
      const reply = await next();
      look("reply", reply);
      return reply;
    }),
    observe(["step.completed", "tool.ended", "agent.ended"], (event) => look("event", event)),
  ],
});
const orchestrator = new Orchestrator();
const result = await orchestrator.start(hooked, "Read.").result;
look("result", result);

const run = orchestrator.start(defineAgent({ ...common, model: answers() }), "Read.");
for await (const report of run.iterate()) look("report", report);
look("snapshot", run.snapshot());

process.stdout.write(JSON.stringify({ seen: [...seen].toSorted(), writable: [...writable] }));
