// What becomes of a budget of 10,000 tokens and of a depth of two where five subagents at once want more and more: `greedy.ts <task>`, which
// is JSON, does it once with one contender and prints how it ended. What was spent, the server knows.

import { defineAgent, openai, Orchestrator, type AgentRole } from "espalier";

import { greed, modelName, roleName, type AgentWork } from "./agent-work.ts";
import type { ContenderName } from "../harness/workload.ts";
import { contenderOf } from "./workloads.ts";

export const GREEDY_TOKENS = 10_000;
export const GREEDY_DEPTH = 2;
const SUBAGENTS = 5;

export interface GreedyTask {
  readonly contender: ContenderName;
  readonly serverUrl: string;
}

async function ended({ contender, serverUrl }: GreedyTask): Promise<string> {
  const work = greed(SUBAGENTS);
  if (contender === "espalier") return await endedHere(work, serverUrl);
  const run = (await contenderOf(contender, serverUrl, GREEDY_TOKENS)).prepare(work);
  try {
    await run();
    return "as if all were well";
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

async function endedHere(work: AgentWork, serverUrl: string): Promise<string> {
  const orchestrator = new Orchestrator({ limits: { maxDepth: GREEDY_DEPTH } });
  const budget = { totalTokens: GREEDY_TOKENS };
  const { status, reason } = await orchestrator.start(roleOf(work, serverUrl), "Begin.", { budget })
    .result;
  return `${status}: ${reason.message}`;
}

function roleOf(work: AgentWork, serverUrl: string): AgentRole {
  const { child } = work;
  return defineAgent({
    name: roleName(work.level),
    description: "Works",
    instructions: "You work.",
    model: openai(modelName(work), { baseUrl: `${serverUrl}/v1` }),
    maxOutputTokens: 100,
    ...(child === undefined ? {} : { subagents: [roleOf(child, serverUrl)] }),
  });
}

function isTask(value: unknown): value is GreedyTask {
  return typeof value === "object" && value !== null && "contender" in value;
}

if (import.meta.main) {
  const task: unknown = JSON.parse(process.argv[2] ?? "null");
  if (!isTask(task)) throw new Error("Expected a task, which peers.ts makes.");
  process.stdout.write(JSON.stringify({ ended: await ended(task) }));
}
