// A user's program in which only the library freezes values. Prints as JSON the received values
// that are writable, and its own values that the library has frozen.

import { z } from "zod";

import { approve, defineAgent, defineTool, memoryStore, Orchestrator, toolGuard } from "espalier";
import { toCallId } from "espalier/extend";
import { observe, processStep, transform, wrapModelCall } from "espalier/hooks";
import { asks, says, ScriptedModel, type ScriptedReply } from "espalier/testing";

import { stripToText } from "../../../src/model/recipient-messages.ts";

const writable = new Set<string>();
const seen = new Set<string>();

/** Records each writable part of a value by its path. */
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
  needsApproval: true,
  inputSchema: z.object({ at: z.object({ line: z.number() }) }),
  execute: ({ at }, { messages, metadata }) => {
    look("tool", Object.freeze({ messages, metadata }));
    return { lines: [at.line] };
  },
});
/** A reply with reasoning, as reasoning models write it. */
const thoughtful = (text: string): ScriptedReply => ({
  pieces: [
    { type: "reasoning", text: "Well.", data: { scripted: { sealed: ["a"] } } },
    { type: "text", text },
  ],
});
const answers = (): ScriptedModel =>
  new ScriptedModel([
    asks("read", { at: { line: 1 } }),
    asks("SpawnSubagent", { role: "helper", task: "Help." }),
    asks("read", { at: { line: 2 } }),
    thoughtful("done"),
  ]);
const helper = defineAgent({
  name: "helper",
  description: "Helps",
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
  contextPolicy: {
    selectMessages: (messages) => {
      look("selection", messages);
      return messages;
    },
  },
  sections: [
    {
      name: "note",
      lifetime: "step",
      text: ({ messages, steps, usage }) => {
        look("section", Object.freeze({ messages, steps, usage }));
        return undefined;
      },
    },
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
const store = memoryStore();
const orchestrator = new Orchestrator({
  store,
  approver: (question) => {
    look("approver", question);
    return approve(question);
  },
});
const { runId, result } = orchestrator.start(hooked, "Read.");
look("result", await result);
look("stored", await orchestrator.getResult(runId));

/** The history of this run is read only through its result. */
const alone = defineAgent({
  name: "alone",
  instructions: "Think.",
  tools: [
    defineTool({ name: "elsewhere", description: "Is run elsewhere.", inputSchema: z.object({}) }),
  ],
  model: new ScriptedModel([
    {
      pieces: [
        { type: "reasoning", text: "Well.", data: { scripted: { sealed: ["a"] } } },
        { type: "call", callId: toCallId("call_1"), toolName: "elsewhere", argumentsText: "{}" },
      ],
    },
  ]),
});
look("paused", await orchestrator.start(alone, "Think.").result);

const run = orchestrator.start(defineAgent({ ...common, model: answers() }), "Read.");
for await (const report of run.iterate()) look("report", report);
look("snapshot", run.snapshot());

/** Recovers the run from every prefix of its records. */
const thinker = defineAgent({
  name: "thinker",
  instructions: "Read.",
  tools: [read],
  model: new ScriptedModel(({ messages }) =>
    messages.some(({ role }) => role === "tool")
      ? thoughtful("done")
      : {
          pieces: [
            { type: "reasoning", text: "Well.", data: { scripted: { sealed: ["a"] } } },
            {
              type: "call",
              callId: toCallId("call_1"),
              toolName: "read",
              argumentsText: '{"at":{"line":1}}',
            },
          ],
        },
  ),
});
const thinking = orchestrator.start(thinker, "Read.");
await thinking.result;
const records: string[] = [];
for await (const record of store.read(thinking.runId)) records.push(record);
for (const count of records.keys()) {
  if (count < 2) continue; // The first record alone does not make a run.
  const other = memoryStore();
  const dead = await other.create(thinking.runId, "thinker", {
    token: "t",
    hostname: "h",
    processId: 1,
  });
  await other.append(dead, { firstNumber: 1, records: records.slice(0, count) });
  const recovering = new Orchestrator({
    store: other,
    roles: [thinker],
    approver: (question) => approve(question),
  });
  const recovered = await recovering.resume(thinking.runId, { takeOver: true });
  for await (const report of recovered.iterate()) look("recovered", report);
  look("recovered", await recovered.result);
}

const own = structuredClone((await result).messages);
stripToText(own);
const frozen = own
  .flatMap((message) => Object.values<unknown>({ ...message }))
  .filter((part) => typeof part === "object" && Object.isFrozen(part));

process.stdout.write(
  JSON.stringify({ seen: [...seen].toSorted(), writable: [...writable], frozen }),
);
