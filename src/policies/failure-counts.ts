// Counts the failed tool calls of an execution. Pure.

import { CountSchema, lazyObject, z } from "../protocol/lazy-schema.ts";
import { TOOL_FAILURES, isToolFailureCode } from "../protocol/tool-failure.ts";
import type { ToolExecution } from "../protocol/tool-outcome.ts";

export const FailureCountsSchema = lazyObject(() => ({
  toolErrors: CountSchema(),
  consecutiveErrors: CountSchema(),
  retryErrors: CountSchema(),
  /**
   * Requests for a corrected call since the last success, by tool. Tools without requests are
   * absent.
   */
  retriesByTool: z.record(z.string(), CountSchema()).readonly(),
}));
/** The failures of an execution so far, as part of its state. */
export type FailureCounts = Readonly<z.infer<ReturnType<typeof FailureCountsSchema>>>;

export const NO_FAILURES: FailureCounts = Object.freeze({
  toolErrors: 0,
  consecutiveErrors: 0,
  retryErrors: 0,
  retriesByTool: Object.freeze({}),
});

/**
 * Returns true if one of these calls failed, or an earlier one. Otherwise neither counts nor stop
 * signals can change.
 */
export function hasFailures(before: FailureCounts, executions: readonly ToolExecution[]): boolean {
  if (before.toolErrors > 0 || before.retryErrors > 0) return true;
  for (const { type } of executions) if (type !== "succeeded") return true;
  return false;
}

/** Returns the retries of a tool since its last success. */
export function getRetryCount({ retriesByTool }: FailureCounts, toolName: string): number {
  return Object.hasOwn(retriesByTool, toolName) ? (retriesByTool[toolName] ?? 0) : 0;
}

/**
 * Returns the counts after the calls of a reply, in call order. Several corrected calls of the same
 * tool in a reply count as one retry, since the model was asked once.
 */
export function countFailures(
  before: FailureCounts,
  executions: readonly ToolExecution[],
): FailureCounts {
  let { toolErrors, consecutiveErrors, retryErrors } = before;
  for (const execution of executions) {
    if (execution.type === "succeeded") consecutiveErrors = 0;
    const counts = classifyErrorBudgetUse(execution);
    if (counts === "retry") retryErrors += 1;
    if (counts === "error") {
      toolErrors += 1;
      consecutiveErrors += 1;
    }
  }
  const retriesByTool = countRetries(before.retriesByTool, executions);
  return { toolErrors, consecutiveErrors, retryErrors, retriesByTool };
}

/** Returns the part of the error budget that a call uses. */
export function classifyErrorBudgetUse({
  errorCode,
}: ToolExecution): "error" | "retry" | "nothing" {
  if (errorCode === undefined || !isToolFailureCode(errorCode)) return "nothing";
  return TOOL_FAILURES[errorCode].counts;
}

function countRetries(
  before: FailureCounts["retriesByTool"],
  executions: readonly ToolExecution[],
): FailureCounts["retriesByTool"] {
  const after = new Map(Object.entries(before));
  const isAsked = new Set<string>();
  for (const { call, type } of executions) {
    const { toolName } = call;
    if (type === "succeeded") {
      after.delete(toolName);
      isAsked.delete(toolName);
    } else if (type === "retry" && !isAsked.has(toolName)) {
      after.set(toolName, (after.get(toolName) ?? 0) + 1);
      isAsked.add(toolName);
    }
  }
  return Object.fromEntries(after);
}
