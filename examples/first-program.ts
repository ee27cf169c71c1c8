import { readFile } from "node:fs/promises";

import { z } from "zod";

import { defineAgent, defineTool, openai, Orchestrator } from "espalier";

const read = defineTool({
  name: "read",
  description: "Reads a text file.",
  inputSchema: z.object({ path: z.string() }),
  execute: ({ path }) => readFile(path, "utf8"),
});

const reader = defineAgent({
  name: "reader",
  description: "Reads one file and says in a sentence what it is for",
  instructions: "Read the file you are given and say in one sentence what it is for.",
  model: openai("gpt-5-mini"),
  tools: [read],
  budget: { totalTokens: 20_000, steps: 5 },
});

const lead = defineAgent({
  name: "lead",
  instructions: "Start one reader per file, all in one reply. Then sum up in three lines.",
  model: openai("gpt-5-mini"),
  subagents: [reader],
});

const orchestrator = new Orchestrator({ limits: { maxDepth: 1, maxTotalSubagents: 5 } });
const run = orchestrator.start(lead, "Tell me about package.json and README.md.", {
  budget: { totalTokens: 100_000, steps: 20, timeMs: 120_000 },
});

for await (const event of run.events()) {
  if (event.type === "agent.started") console.log(`${event.agentPath}: ${event.task}`);
  if (event.type === "tool.ended")
    console.log(`${event.agentPath}: ${event.toolName} ${event.outcome}`);
  if (event.type === "agent.ended" && event.status !== "completed")
    console.error(`${event.agentPath} ${event.status}: ${event.reason.message}`);
}
const { status, reason, text, usage } = await run.result;
console.log(`${status} (${reason.code}), ${usage.total.totalTokens} tokens\n\n${text}`);
if (status !== "completed") process.exitCode = 1;
