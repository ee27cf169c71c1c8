// Reports of an agent: for the result of the run, and for its parent.

import type { JsonObject, JsonValue } from "../../kernel/json.ts";
import { defineLazyFields } from "../../kernel/lazy-fields.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import { getLastText, type SettledState } from "../../agent/agent-state.ts";
import type { AgentId, ExecutionId } from "../../protocol/ids.ts";
import type { StepRecord } from "../../protocol/step-record.ts";
import type { ErrorRecord, SettledStatus, StopReason, StopSignal } from "../../protocol/stop.ts";
import type { SubagentOutcome, SubagentResult } from "../../protocol/subagent.ts";
import type { ToolErrorRecord } from "../../protocol/tool-error-record.ts";
import type { RemovedTool } from "../../protocol/tool-rule.ts";
import type { ModelUsage, UsageReport } from "../../protocol/usage.ts";
import { collectToolErrors, countToolsUsed } from "./tool-report.ts";

/**
 * Place in the tree, task and usage of an agent, whether or not it has ended.
 *
 * @example
 * ```ts
 * for (const { agentPath, task, usage } of result.detached)
 *   console.log(`${agentPath} still works on "${task}": ${usage.total.totalTokens} tokens so far`);
 * ```
 */
export interface AgentSummary {
  /** Id of the agent. */
  readonly agentId: AgentId;
  /** Id of the agent's last execution. */
  readonly executionId: ExecutionId;
  /** Id of the agent that started this one. `null` for the root. */
  readonly parentAgentId: AgentId | null;
  /** Place of the agent in the tree, such as `lead/researcher#2`. */
  readonly agentPath: string;
  /** Depth in the tree. 0 for the root. */
  readonly depth: number;
  /** Name of the agent's role. */
  readonly role: string;
  /** Id of the agent's model. */
  readonly model: string;
  /** Text of the agent's task. */
  readonly task: string;
  /** Number of executions of the agent: 1, plus 1 for each time it was continued after its end. */
  readonly executionCount: number;
  /** Usage of the agent over all its executions: its own, that of its subagents, and in total. */
  readonly usage: UsageReport;
  /**
   * Usage of the fallback models that answered in place of the agent's first model, as a part of
   * `usage.own`. Absent if none was used.
   */
  readonly otherModels?: readonly ModelUsage[];
  /** Metadata of the agent. */
  readonly metadata: JsonObject;
  /** Tools of the role that the agent did not have, each with the rule that removed it. */
  readonly removedTools: readonly RemovedTool[];
  /**
   * Milliseconds of the last execution that did not count towards `timeMs`, because a question was
   * open or the run was paused.
   */
  readonly pausedMs: number;
}

/**
 * Result of an agent that has ended or is paused. All fields except `usage` and `executionCount`
 * describe the agent's last execution.
 *
 * @example
 * ```ts
 * const [root, ...subagents] = result.agents;
 * console.log(root?.toolsUsed);
 * for (const { agentPath, status, text } of subagents) console.log(agentPath, status, text);
 * ```
 */
export interface AgentReport extends AgentSummary {
  /** How the agent ended, or `paused`. */
  readonly status: SettledStatus;
  /** Reason of the end or of the pause. */
  readonly reason: StopReason;
  /**
   * Last text that the agent wrote. Empty if it wrote none; partial unless `status` is `completed`.
   */
  readonly text: string;
  /** Typed result of the agent. `undefined` if its role declares no `output`, or none was given. */
  readonly output: JsonValue | undefined;
  /** Steps of the last execution, oldest first. */
  readonly steps: readonly StepRecord[];
  /** Number of executed calls by tool name. */
  readonly toolsUsed: Readonly<Record<string, number>>;
  /**
   * Stop signals in order of arrival. `reason` is the reason of the most important signal. A reply
   * that exceeded a budget limit is recorded here, too.
   */
  readonly signals: readonly StopSignal[];
  /** Errors that ended the agent. Empty unless it failed. */
  readonly errors: readonly ErrorRecord[];
  /** Failed tool calls in order, including those from which the agent recovered. */
  readonly toolErrors: readonly ToolErrorRecord[];
  /**
   * Milliseconds from the start of the last execution to its end or its pause, including
   * `pausedMs`.
   */
  readonly durationMs: number;
  /** Part of `durationMs` in which the agent waited for budget that other agents had reserved. */
  readonly budgetWaitMs: number;
}

/**
 * Settled agent, live or stored: its summary, and the state from which the rest of its report
 * follows.
 */
export interface SettledAgent extends AgentSummary {
  readonly settled: SettledState;
}

/** Returns the facts that an agent's report has at any time, with the state if it has settled. */
export function describeAgent(node: AgentRuntime): AgentSummary | SettledAgent {
  const { identity, role, model, account, settled } = node;
  const { runId: _ofAll, ...place } = identity;
  const { startedAtMs, pausedBeforeMs = 0 } = node.currentState.telemetry;
  return {
    ...place,
    role: role.name,
    model: model.id,
    task: node.taskText,
    executionCount: node.execution,
    usage: account.usage(),
    ...(account.otherModels.length === 0 ? {} : { otherModels: account.otherModels }),
    metadata: node.facts.metadata,
    removedTools: node.toolLimits.removed,
    pausedMs: startedAtMs === undefined ? 0 : account.pausedMs - pausedBeforeMs,
    ...(settled === undefined ? {} : { settled }),
  };
}

/** Returns the report of a settled agent. `atMs` is the present time, for a paused agent. */
export function createAgentReport({ settled, ...known }: SettledAgent, atMs: number): AgentReport {
  const { status, reason, log, telemetry } = settled;
  const { output, signals, errors } = log;
  const report = {
    ...known,
    status,
    reason,
    text: getLastText(settled),
    output,
    signals,
    errors,
    durationMs: computeDuration(settled, atMs),
    budgetWaitMs: telemetry.budgetWaitMs,
  };
  return addSteps(report, log);
}

type StepList = Pick<AgentReport, "steps">;
type OnTools = Pick<AgentReport, "toolsUsed" | "toolErrors">;

const ON_TOOLS = {
  toolsUsed: ({ steps }: StepList) => countToolsUsed(steps),
  toolErrors: ({ steps }: StepList) => collectToolErrors(steps),
};
const addOnTools = defineLazyFields<StepList, OnTools>(ON_TOOLS);
const addSteps = defineLazyFields<StepList, StepList & OnTools>({
  steps: ({ steps }) => steps,
  ...ON_TOOLS,
});

/**
 * Returns the duration of the execution in milliseconds. `atMs` is the present time, for a paused
 * agent.
 */
export function computeDuration({ telemetry }: SettledState, atMs: number): number {
  return (telemetry.endedAtMs ?? atMs) - (telemetry.startedAtMs ?? atMs);
}

/** Returns the result of an ended subagent for its parent. */
export function createSubagentResult(node: AgentRuntime): SubagentResult {
  const { identity, role, settled, childName } = node;
  const { agentId, executionId, agentPath, depth } = identity;
  if (settled === undefined || settled.status === "paused")
    throw new Error(`${agentPath} has not ended.`);
  const { status, reason, log } = settled;
  const { output, steps, errors } = log;
  const text = getLastText(settled);
  const result = {
    agentId,
    executionId,
    role: role.name,
    subagent: childName,
    agentPath,
    depth,
    outcome: createSubagentOutcome({ status, text, output }),
    status,
    reason,
    text,
    ...(output === undefined ? {} : { output }),
    stepCount: steps.length,
    usage: node.account.usage(),
    errors,
    metadata: node.facts.metadata,
    removedTools: node.toolLimits.removed,
    durationMs: computeDuration(settled, 0),
  };
  return addOnTools(result, log);
}

/** Returns the outcome of a subagent from its status and its output. */
export function createSubagentOutcome({
  status,
  text,
  output,
}: Pick<SubagentResult, "status" | "text"> & {
  readonly output?: unknown;
}): SubagentOutcome {
  if (status === "failed" || status === "cancelled") return status;
  if (text.trim() === "" && output === undefined) return "no_output";
  return status === "completed" ? "completed" : "partial";
}
