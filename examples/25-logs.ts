// Your own logs with the ids of the run, agent, step and span.

import assert from "node:assert/strict";

import { z } from "zod";

import {
  getCorrelationIds,
  defineAgent,
  defineTool,
  Orchestrator,
  type EspalierEvent,
} from "espalier";
import { asks, says, ScriptedModel } from "espalier/testing";

/** Writes a line of JSON, with the ids of the place at which it is called. */
function log(message: string): void {
  print({ message, ...getCorrelationIds() });
}

const lines: Record<string, unknown>[] = [];
function print(line: Record<string, unknown>): void {
  lines.push(line);
  console.log(JSON.stringify(line));
}

const look = defineTool({
  name: "look",
  description: "Looks at a plant.",
  inputSchema: z.object({ plant: z.string() }),
  execute: async ({ plant }) => {
    await grow();
    log(`looked at the ${plant}`);
    return "It grows.";
  },
});

/** Knows nothing of agents, and needs not. */
async function grow(): Promise<void> {
  await Promise.resolve();
  log("growing");
}

const gardener = defineAgent({
  name: "gardener",
  description: "Looks after one plant",
  instructions: "Look after your plant.",
  model: new ScriptedModel(({ messages }) => {
    const plant = messages.find(({ role }) => role === "user")?.text ?? "";
    return messages.some(({ role }) => role === "tool")
      ? says(`The ${plant} grows.`)
      : asks("look", { plant });
  }),
  tools: [look],
});
const lead = defineAgent({
  name: "lead",
  instructions: "Send gardeners.",
  model: new ScriptedModel([
    {
      calls: ["rose", "tulip"].map((plant) => ({
        toolName: "SpawnSubagent",
        arguments: { role: "gardener", task: plant },
      })),
    },
    says("Both grow."),
  ]),
  subagents: [gardener],
});

const events: EspalierEvent[] = [];
const orchestrator = new Orchestrator({ sinks: [{ emit: (event) => void events.push(event) }] });
log("before the run");
const { traceId } = await orchestrator.start(lead, "How are the plants?").result;

// The lines of two agents that work at the same time are distinguished, and each is in the span of its call.
const spanOf = (agentPath: string): string | undefined =>
  events.find((event) => event.type === "tool.started" && event.agentPath === agentPath)?.spanId;
assert.deepEqual(
  new Set(lines.map((line) => [line["message"], line["agentPath"], line["spanId"]])),
  new Set([
    ["before the run", undefined, undefined],
    ["growing", "lead/gardener#1", spanOf("lead/gardener#1")],
    ["growing", "lead/gardener#2", spanOf("lead/gardener#2")],
    ["looked at the rose", "lead/gardener#1", spanOf("lead/gardener#1")],
    ["looked at the tulip", "lead/gardener#2", spanOf("lead/gardener#2")],
  ]),
);
assert.deepEqual(new Set(lines.slice(1).map((line) => line["traceId"])), new Set([traceId]));
