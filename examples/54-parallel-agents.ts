// A limit on how many agents work at once: a delegation waits in a queue before it starts a
// subagent.

import assert from "node:assert/strict";

import PQueue from "p-queue";
import { z } from "zod";

import { defineAgent, defineDelegation, defineTool, Orchestrator } from "espalier";
import { says, ScriptedModel } from "espalier/testing";

let working = 0;
let most = 0;
const readPage = defineTool({
  name: "readPage",
  description: "Reads the page about a topic.",
  inputSchema: z.object({}),
  async execute() {
    working += 1;
    most = Math.max(most, working);
    await new Promise((resolve) => setImmediate(resolve));
    working -= 1;
    return "A page.";
  },
});
const researcher = defineAgent({
  name: "researcher",
  description: "Researches one topic",
  instructions: "Research the topic you are given.",
  model: new ScriptedModel(({ messages }) =>
    messages.at(-1)?.role === "tool"
      ? says("Done.")
      : { calls: [{ toolName: "readPage", arguments: {} }] },
  ),
  tools: [readPage],
});

const queue = new PQueue({ concurrency: 2 });
const research = defineDelegation({
  name: "research",
  description: "Has a topic researched, and returns the report.",
  inputSchema: z.object({ topic: z.string() }),
  async execute({ topic: task }, { spawn }) {
    return await queue.add(() => spawn({ role: "researcher", task }));
  },
});

const topics = ["pears", "apples", "figs", "plums", "vines"];
const lead = defineAgent({
  name: "lead",
  instructions: "Have every topic researched, then answer.",
  model: new ScriptedModel([
    {
      calls: topics.map((topic) => ({
        toolName: "research",
        arguments: { topic },
      })),
    },
    says("All five are researched."),
  ]),
  tools: [research],
  subagents: [researcher],
});

const { text, agents } = await new Orchestrator().start(lead, "Five fruits.").result;
console.log(`${text} At most ${most} worked at one time.`);
assert.equal(agents.length, 6);
assert.equal(most, 2);
