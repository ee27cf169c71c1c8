// The tree of agents of a result, as the views draw it. Pure.

import type { AgentId, RunResult } from "../index.ts";
import type { SpawnRefusalCode } from "../extend.ts";
import type { ShownAgent } from "./fold-tree.ts";

/** The tree of a run that is over, as its events would have left it. */
export function treeOf(result: RunResult): ShownAgent | undefined {
  const byParent = Map.groupBy(result.agents, (agent) => agent.parentAgentId);
  const openSteps = openStepsOf(result);
  const below = (parentId: AgentId | null): readonly ShownAgent[] =>
    (byParent.get(parentId) ?? []).map((agent) => {
      const { usage, status, reason, durationMs } = agent;
      return {
        agentPath: agent.agentPath,
        role: agent.role,
        task: agent.task,
        begunAtMs: 0,
        activity: status,
        retry: undefined,
        rest: { status, reason, durationMs, atMs: 0 },
        openCalls: [],
        step: openSteps.get(agent.agentId) ?? agent.steps.length,
        own: usage.own,
        subtree: usage.total,
        refusals: refusedSpawns(agent),
        children: below(agent.agentId),
      };
    });
  return below(null)[0];
}

type AgentReport = RunResult["agents"][number];

/** The steps in whose middle agents are paused; a result holds only those that are over. */
function openStepsOf({ pausedRun }: RunResult): ReadonlyMap<AgentId, number> {
  const steps = new Map<AgentId, number>();
  for (const { agentId, state } of pausedRun?.agents ?? []) {
    if (state.status === "paused" && state.step !== undefined)
      steps.set(agentId, state.step.number);
  }
  return steps;
}

/** Codes of refused spawns. `SpawnSubagent`: calls of any tool can have the code, and those of this tool are refused spawns. */
const SPAWN_REFUSALS: Readonly<Record<SpawnRefusalCode, "any" | "SpawnSubagent">> = {
  unknown_role: "any",
  forbidden_role: "any",
  invalid_role: "any",
  invalid_context: "any",
  unknown_subagent: "any",
  subagent_running: "any",
  subagent_ended: "any",
  group_decided: "any",
  blocked: "SpawnSubagent",
  tool_not_available: "SpawnSubagent",
  depth_limit: "any",
  breadth_limit: "any",
  total_limit: "any",
  budget_exhausted: "any",
  setup_failed: "any",
};

const REFUSED_TOOLS: ReadonlyMap<string, string> = new Map(Object.entries(SPAWN_REFUSALS));

function refusedSpawns({ steps }: AgentReport): number {
  const executions = steps.flatMap((step) => step.tools.executions);
  return executions.filter(({ errorCode = "", call }) => {
    const toolName = REFUSED_TOOLS.get(errorCode);
    return toolName === "any" || toolName === call.toolName;
  }).length;
}
