// A custom delegation tool: the model calls `research({ topic })`, and code builds the task of the
// subagent.

import assert from "node:assert/strict";

import { z } from "zod";

import { defineAgent, defineDelegation, Orchestrator, toolFilter } from "espalier";
import { asks, says, ScriptedModel } from "espalier/testing";

const researcher = defineAgent({
  name: "researcher",
  description: "Researches one topic",
  instructions: "Research the topic you are given. Name your sources.",
  model: new ScriptedModel(() => says("Pears have been trained on walls since antiquity.")),
});

const research = defineDelegation({
  name: "research",
  description: "Has a topic researched, and returns the report.",
  inputSchema: z.object({ topic: z.string().min(3) }),
  execute: ({ topic }, { spawn }) =>
    spawn({
      role: "researcher",
      task: `Research ${topic}, in three sentences.`,
    }),
});

const verdict = z.object({ isTrue: z.boolean() });
const checker = defineAgent({
  name: "checker",
  description: "Checks one claim",
  instructions: "Check the claim you are given.",
  model: new ScriptedModel(() => asks("Finish", { isTrue: true })),
  output: verdict,
});

const check = defineDelegation({
  name: "check",
  description: "Has a claim checked.",
  inputSchema: z.object({ claim: z.string() }),
  async execute({ claim }, { spawn }) {
    const outcome = await spawn({ role: "checker", task: claim });
    if (outcome.type !== "ended") return outcome; // such as refused or paused
    const { output, text } = outcome.result;
    if (output === undefined) return { type: "answered", text };
    const { isTrue } = verdict.parse(output);
    return { type: "answered", text: isTrue ? "True." : "Wrong: rewrite it." };
  },
});

const model = new ScriptedModel([
  { calls: [{ toolName: "research", arguments: { topic: "pears" } }] },
  { calls: [{ toolName: "check", arguments: { claim: "Pears climb." } }] },
  says("Pears, then."),
]);
const lead = defineAgent({
  name: "lead",
  instructions: "Have one topic researched, then answer.",
  model,
  tools: [research, check],
  subagents: [researcher, checker], // the roles that a delegation can start
  toolFilters: [
    toolFilter(() => false, {
      name: "only research",
      tools: ["SpawnSubagent"],
    }),
  ],
});

const run = new Orchestrator().start(lead, "Which fruit for a wall?");
const { status, text, agents } = await run.result;
const report = model.requests[1]?.messages.at(-1)?.text ?? "";
console.log(report);
console.log(text);
assert.equal(status, "completed");
assert.deepEqual(
  model.requests[0]?.tools.map(({ name }) => name),
  ["research", "check"],
);
assert.match(report, /Pears have been trained on walls since antiquity\./);
assert.deepEqual(
  agents.map((agent) => [agent.agentPath, agent.status]),
  [
    ["lead", "completed"],
    ["lead/researcher#1", "completed"],
    ["lead/checker#1", "completed"],
  ],
);
