// What one agent leaves behind: its report for the result of the run, and its result for its parent (R36, R135).

import type { JsonObject, JsonValue } from "../../kernel/json.ts";
import { lateFields } from "../../kernel/late-fields.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import { lastTextOf, type SettledState } from "../../agent/agent-state.ts";
import type { AgentId, ExecutionId } from "../../protocol/ids.ts";
import type { StepRecord } from "../../protocol/step-record.ts";
import type { ErrorRecord, SettledStatus, StopReason, StopSignal } from "../../protocol/stop.ts";
import type { SubagentOutcome, SubagentResult } from "../../protocol/subagent.ts";
import type { ToolErrorRecord } from "../../protocol/tool-error-record.ts";
import type { RemovedTool } from "../../protocol/tool-rule.ts";
import type { ModelUsage, UsageReport } from "../../protocol/usage.ts";
import { toolErrors, toolsUsed } from "./tool-report.ts";

/** An agent, whether or not it has settled: its place in the tree, and what it has consumed so far. */
export interface AgentSummary {
  readonly agentId: AgentId;
  readonly executionId: ExecutionId;
  /** Null for the root. */
  readonly parentAgentId: AgentId | null;
  /** Place in the tree: `lead/researcher#2`. */
  readonly agentPath: string;
  /** 0 for the root. */
  readonly depth: number;
  /** The name of its role. */
  readonly role: string;
  /** The id of its model. */
  readonly model: string;
  /** The text of its task. */
  readonly task: string;
  /** How often it was activated: once, and once more each time that it was continued. */
  readonly executions: number;
  /** What it and all below it consumed, over all its executions. */
  readonly usage: UsageReport;
  /** Part of its own usage: of other models of a fallback than the first. Absent: none was used. */
  readonly otherModels?: readonly ModelUsage[];
  /** The metadata that it worked with. */
  readonly metadata: JsonObject;
  /** Tools of its role that it did not have, and why. */
  readonly removedTools: readonly RemovedTool[];
  /** Milliseconds of its last execution that did not count against a time limit: a question was open, or the run was paused. */
  readonly pausedMs: number;
}

/** How one agent of the tree ended, or where it is paused. All but the counts of executions and usage is of its last execution. */
export interface AgentReport extends AgentSummary {
  /** How it ended, or `paused`. */
  readonly status: SettledStatus;
  /** Why it ended, or why it is paused. */
  readonly reason: StopReason;
  /** The last text that it wrote; partial unless it completed. */
  readonly text: string;
  /** The typed result, if its role declares one and it was given. */
  readonly output: JsonValue | undefined;
  /** The steps of its last execution, oldest first. */
  readonly steps: readonly StepRecord[];
  /** How often each tool ran, by name. */
  readonly toolsUsed: Readonly<Record<string, number>>;
  /** Its stop signals, in order of arrival; `reason` is that of the highest. An overshoot of its budget is among them. */
  readonly signals: readonly StopSignal[];
  /** Errors that ended it. */
  readonly errors: readonly ErrorRecord[];
  /** Tool calls that went wrong, in order, whether or not the agent recovered from them. */
  readonly toolErrors: readonly ToolErrorRecord[];
  /** Milliseconds from the start of its last execution to its end or its pause; earlier pauses included. `pausedMs` is a part of them. */
  readonly durationMs: number;
  /** Part of `durationMs` that was spent waiting for the budget. */
  readonly waitedMs: number;
}

/** An agent at rest, alive or as it is kept: what its report says, and the state from which the rest of it follows. */
export interface SettledAgent extends AgentSummary {
  readonly settled: SettledState;
}

/** Returns the facts about an agent that its report has at any time, with its state if it has settled. */
export function describeAgent(node: AgentRuntime): AgentSummary | SettledAgent {
  const { identity, role, model, account, settled } = node;
  const { runId: _ofAll, ...place } = identity;
  const { startedAtMs, stoodBeforeMs = 0 } = node.currentState.telemetry;
  return {
    ...place,
    role: role.name,
    model: model.id,
    task: node.taskText,
    executions: node.execution,
    usage: account.usage(),
    ...(account.otherModels.length === 0 ? {} : { otherModels: account.otherModels }),
    metadata: node.facts.metadata,
    removedTools: node.toolLimits.removed,
    pausedMs: startedAtMs === undefined ? 0 : account.stoodMs - stoodBeforeMs,
    ...(settled === undefined ? {} : { settled }),
  };
}

/** The report of an agent at rest. `atMs`: the time, for one that is paused. */
export function agentReport({ settled, ...known }: SettledAgent, atMs: number): AgentReport {
  return addSteps({ ...known, ...executionReport(settled, atMs) }, settled.log);
}

type StepList = Pick<AgentReport, "steps">;
type OnTools = Pick<AgentReport, "toolsUsed" | "toolErrors">;

const ON_TOOLS = {
  toolsUsed: ({ steps }: StepList) => toolsUsed(steps),
  toolErrors: ({ steps }: StepList) => toolErrors(steps),
};
const addOnTools = lateFields<StepList, OnTools>(ON_TOOLS);
const addSteps = lateFields<StepList, StepList & OnTools>({
  steps: ({ steps }) => steps,
  ...ON_TOOLS,
});

function executionReport(settled: SettledState, atMs: number) {
  const { status, reason, log, telemetry } = settled;
  const { output, signals, errors } = log;
  return {
    status,
    reason,
    text: lastTextOf(settled),
    output,
    signals,
    errors,
    durationMs: durationOf(settled, atMs),
    waitedMs: telemetry.waitedMs,
  };
}

/** How long the execution has lasted. `atMs`: the time, for one that is paused. */
export function durationOf({ telemetry }: SettledState, atMs: number): number {
  return (telemetry.endedAtMs ?? atMs) - (telemetry.startedAtMs ?? atMs);
}

/** What a parent is given of a subagent that has ended. */
export function resultOfEnded(node: AgentRuntime): SubagentResult {
  const { identity, role, settled, childName } = node;
  const { agentId, executionId, agentPath, depth } = identity;
  if (settled === undefined || settled.status === "paused")
    throw new Error(`${agentPath} has not ended.`);
  const { status, reason, log } = settled;
  const { output, steps, errors } = log;
  const text = lastTextOf(settled);
  const result = {
    agentId,
    executionId,
    role: role.name,
    childName,
    agentPath,
    depth,
    outcome: subagentOutcome({ status, text, output }),
    status,
    reason,
    text,
    ...(output === undefined ? {} : { output }),
    steps: steps.length,
    usage: node.account.usage(),
    errors,
    metadata: node.facts.metadata,
    removedTools: node.toolLimits.removed,
    durationMs: durationOf(settled, 0),
  };
  return addOnTools(result, log);
}

/** What a subagent's result is worth. */
export function subagentOutcome({
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
