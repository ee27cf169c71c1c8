import { defineAgent, openai, Orchestrator } from "espalier";

const model = openai("gpt-5-mini");
const reader = defineAgent({
  name: "reader",
  description: "Answers one question",
  instructions: "Be brief.",
  model,
});
const lead = defineAgent({
  name: "lead",
  instructions: "Ask one reader per part, all in one reply. Then sum up.",
  model,
  subagents: [reader],
});

const limits = { maxDepth: 1, maxTotalSubagents: 5 }; // the lead is at depth 0
const budget = { totalTokens: 50_000, steps: 20 }; // shared by the whole tree
const task = "How do oak, beech and lime differ?";
const run = new Orchestrator({ limits }).start(lead, task, { budget });
const { status, text, reason } = await run.result;
console.log(status === "completed" ? text : `${status}: ${reason.message}`);
