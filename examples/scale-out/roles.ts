// Who compares markets: a lead, and a researcher for each of them. In your program their models are `openai("gpt-5-mini")`; these need no
// key. What the tools do to the world is lines in the file `LOG`.

import { appendFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";

import { defineAgent, defineTool, type Model } from "espalier";
import { toCallId } from "espalier/extend";
import { z } from "zod";

const { LOG = "log.txt" } = process.env;

const lookUp = defineTool({
  name: "look_up",
  description: "Looks up what a market sells.",
  inputSchema: z.object({ market: z.string() }),
  execute: async ({ market }, { signal }) => {
    appendFileSync(LOG, `${process.pid} looks up ${market}\n`);
    await setTimeout(500, undefined, { signal });
    return `${market} sells trees.`;
  },
});

const publish = defineTool({
  name: "publish",
  description: "Publishes a text.",
  inputSchema: z.object({ text: z.string() }),
  needsApproval: true,
  retryAfterCrash: false, // a second copy would be read twice
  execute: ({ text }, { idempotencyKey }) => {
    appendFileSync(LOG, `${process.pid} publishes "${text}" under ${idempotencyKey}\n`);
    return "Published.";
  },
});

type Call = readonly [toolName: string, input: object];

/** What a model would say, by the task and what the tools have said since. */
function modelThat(says: (task: string, results: readonly string[]) => string | Call[]): Model {
  return {
    provider: "example",
    id: "market-model",
    generate: async ({ messages }, { signal }) => {
      await setTimeout(100, undefined, { signal });
      const task = messages.find((one) => one.role === "user")?.text ?? "";
      const results = messages.flatMap((one) => (one.role === "tool" ? [one.text] : []));
      const said = says(task, results);
      if (typeof said === "string")
        return { message: { role: "assistant", text: said, toolCalls: [] }, finishReason: "stop" };
      const toolCalls = said.map(([toolName, input], index) => ({
        callId: toCallId(`call_${results.length + index}`),
        toolName,
        argumentsText: JSON.stringify(input),
      }));
      return { message: { role: "assistant", text: "", toolCalls }, finishReason: "tool_calls" };
    },
  };
}

export const researcher = defineAgent({
  name: "researcher",
  description: "Looks at one market",
  instructions: "Look up the market you are given, and report in a sentence.",
  model: modelThat((task, [result]) => result ?? [["look_up", { market: task }]]),
  tools: [lookUp],
});

const MARKETS = ["Ghent", "Lucca", "Riga"];

export const lead = defineAgent({
  name: "lead",
  instructions:
    "Start a researcher for each market, publish what they found, and say that you have.",
  model: modelThat((_task, results) => {
    if (results.length === 0)
      return MARKETS.map((task) => ["SpawnSubagent", { role: "researcher", task }]);
    const isPublished = results.length > MARKETS.length;
    return isPublished ? "All of them sell trees." : [["publish", { text: "Three markets." }]];
  }),
  tools: [publish],
  subagents: [researcher],
});
