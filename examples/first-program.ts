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
  description: "Reads one file and describes its purpose",
  instructions: "Read the file. Describe its purpose in one sentence.",
  model: openai("gpt-5-mini"),
  tools: [read],
  budget: { totalTokens: 20_000, steps: 5 },
});

const lead = defineAgent({
  name: "lead",
  instructions: "Start one reader per file, all in one reply. Then sum up.",
  model: openai("gpt-5-mini"),
  subagents: [reader],
});

const limits = { maxDepth: 1, maxTotalSubagents: 5 };
const orchestrator = new Orchestrator({ limits });
const task = "Tell me about package.json and README.md.";
const run = orchestrator.start(lead, task, {
  budget: { totalTokens: 100_000, steps: 20, timeMs: 120_000 },
});

for await (const event of run.events()) {
  const who = event.agentPath;
  if (event.type === "agent.started") console.log(`${who}: ${event.task}`);
  if (event.type === "tool.ended") {
    const { toolName, outcome } = event;
    console.log(`${who}: ${toolName} ${outcome}`);
  }
  if (event.type === "agent.ended" && event.status !== "completed")
    console.error(`${who} ${event.status}: ${event.reason.message}`);
}
const { status, reason, text, usage } = await run.result;
const { totalTokens } = usage.total;
console.log(`${status} (${reason.code}), ${totalTokens} tokens\n\n${text}`);
if (status !== "completed") process.exitCode = 1;
