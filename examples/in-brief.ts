import { defineAgent, openai, Orchestrator } from "espalier";

const model = openai("gpt-5-mini");
const description = "Answers one question";
const reader = defineAgent({ name: "reader", description, instructions: "Be brief.", model });
const instructions = "Ask one reader per part, all in one reply. Then sum up.";
const lead = defineAgent({ name: "lead", instructions, model, subagents: [reader] });

const orchestrator = new Orchestrator({ limits: { maxDepth: 1, maxTotalSubagents: 5 } });
const budget = { totalTokens: 50_000, steps: 20 };
const run = orchestrator.start(lead, "How do oak, beech and lime differ?", { budget });
const { status, text, reason } = await run.result;
console.log(status === "completed" ? text : `${status}: ${reason.message}`);
