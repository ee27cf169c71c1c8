// Builds the viewer's row and details of an agent from its fold. Pure.

import { omitUndefined } from "../kernel/json.ts";
import type { AgentFold } from "./agent-fold.ts";
import { countNames, joinNames } from "./amounts.ts";
import {
  ACTIVITIES,
  type AgentDetail,
  type AgentRow,
  type OpenToolCall,
  type RefusalRow,
} from "./viewer-data.ts";

const LONGEST_TASK = 200;

export function createAgentRow(agent: AgentFold): AgentRow {
  const { own, subtree, end: rest } = agent;
  return [
    agent.parent?.index ?? -1,
    agent.agentId,
    agent.name,
    agent.role,
    agent.task.slice(0, LONGEST_TASK),
    agent.startedAtMs,
    rest === undefined || rest.status === "paused" ? -1 : rest.atMs,
    ACTIVITIES.indexOf(agent.activity),
    describeActivity(agent),
    agent.sinceMs,
    agent.step,
    own.totalTokens,
    own.costUsd,
    own.unpricedCalls,
    subtree.totalTokens,
    subtree.costUsd,
    subtree.unpricedCalls,
    agent.refusalCount,
    agent.toolErrorCount,
  ];
}

/** Returns the details of an agent. `refusals` are those of the whole run. */
export function createAgentDetail(agent: AgentFold, refusals: readonly RefusalRow[]): AgentDetail {
  const { agentId, agentPath, depth, role, provider, model, task, end: rest, inherited } = agent;
  const { executionCount: executions, startedAtMs, budget, remaining } = agent;
  const isOver = rest !== undefined && rest.status !== "paused";
  return {
    agentId,
    agentPath,
    depth,
    role,
    provider,
    model,
    task,
    status: agent.activity,
    ...omitUndefined({ reason: rest?.reason, error: rest?.error }),
    executionCount: executions,
    startedAtMs,
    ...(isOver ? { endedAtMs: rest.atMs } : {}),
    budget,
    ...omitUndefined({ remaining }),
    used: agent.used,
    own: agent.own,
    subtree: agent.subtree,
    steps: structuredClone(agent.steps),
    ...omitUndefined({ inherited }),
    refusals: refusals.filter((refusal) => refusal.agent === agent.index),
  };
}

/** Returns the running tool calls of a run, or the calls that a crash interrupted. */
export function openToolCalls({
  agents,
}: {
  readonly agents: readonly AgentFold[];
}): readonly OpenToolCall[] {
  return agents.flatMap(({ agentPath, openCalls }) =>
    openCalls.flatMap(({ kind, toolName }) => (kind === "tool" ? [{ agentPath, toolName }] : [])),
  );
}

/**
 * Returns the detail of the activity, for example `read ×2, mail`, `2 subagents` or `step_limit`.
 */
function describeActivity({
  activity,
  end: rest,
  retry,
  waitsForBudgetOf: budgetOf,
  openCalls,
}: AgentFold): string {
  if (rest !== undefined)
    return rest.status === "completed" ? "" : (rest.error ?? rest.reason).code;
  switch (activity) {
    case "awaiting_budget":
      return budgetOf?.name ?? "";
    case "retrying":
      return retry === undefined ? "" : `attempt ${retry.attempt}: ${retry.code}`;
    case "calling":
    case "asking": {
      const kind = activity === "calling" ? "tool" : "question";
      const calls = openCalls.filter((call) => call.kind === kind);
      return joinNames(countNames(calls.map(({ toolName }) => toolName)));
    }
    case "delegating": {
      const { length } = openCalls;
      return length === 1 ? "1 subagent" : `${length} subagents`;
    }
    default:
      return "";
  }
}
