// The trees of the waiters workload.

import { defineAgent, Orchestrator, type AgentRole, type Budget } from "espalier";

import { leadModel, leafModel } from "./spawn-model.ts";
import type { LimitAt } from "./waiters.ts";

const MOST = 1_000_000;
const SUBTREES = 100;
/** Of a call, and of the room for calls in flight. Calls use 120 tokens each; what they hold is nearly all output. */
const [USED_TOKENS, HELD_TOKENS, CALLS_IN_FLIGHT] = [120, 24_000, 50];

function lead(name: string, below: AgentRole, total: number, budget: Budget): AgentRole {
  return defineAgent({
    name,
    description: "Leads",
    instructions: "You delegate.",
    model: leadModel(below.name, total, total),
    maxOutputTokens: HELD_TOKENS,
    subagents: [below],
    budget,
  });
}

/** Room for all calls of a tree with so many subagents, and for some in flight. */
function tightBudget(subagents: number, callsInFlight: number): Budget {
  return { totalTokens: 2 * (subagents + 2) * USED_TOKENS + callsInFlight * HELD_TOKENS };
}

function treeOf(limitAt: LimitAt, size: number, isTight: boolean): AgentRole {
  const worker = defineAgent({
    name: "worker",
    description: "Works",
    instructions: "You work.",
    model: leafModel,
    maxOutputTokens: HELD_TOKENS,
  });
  if (limitAt === "root")
    return lead("lead", worker, size, isTight ? tightBudget(size, CALLS_IN_FLIGHT) : {});
  const subtrees = Math.min(SUBTREES, size / 10);
  const perSubtree = size / subtrees;
  const middle = lead("middle", worker, perSubtree, isTight ? tightBudget(perSubtree, 1) : {});
  return lead("lead", middle, subtrees, {});
}

export async function waiterFigures(
  limitAt: LimitAt,
  size: number,
): Promise<{ readonly freeUs: number; readonly waitingUs: number }> {
  const orchestrator = new Orchestrator({
    limits: { maxDepth: 10, maxBreadthPerParent: MOST, maxTotalSubagents: MOST },
  });

  async function cpuPerSubagent(root: AgentRole): Promise<number> {
    const before = process.cpuUsage();
    const { status, agents, reason } = await orchestrator.start(root, "Begin.", {
      budget: { steps: MOST, totalTokens: Number.MAX_SAFE_INTEGER },
    }).result;
    const failed = agents.find((agent) => agent.status !== "completed");
    if (status !== "completed" || failed !== undefined)
      throw new Error(failed?.reason.message ?? reason.message);
    if (agents.length <= size)
      throw new Error(`Expected more than ${size} agents, got ${agents.length}.`);
    const { user, system } = process.cpuUsage(before);
    return (user + system) / size;
  }

  await cpuPerSubagent(treeOf(limitAt, size, true));
  const freeUs = await cpuPerSubagent(treeOf(limitAt, size, false));
  const waitingUs = await cpuPerSubagent(treeOf(limitAt, size, true));
  return { freeUs, waitingUs };
}
