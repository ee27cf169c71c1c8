// What failed tool calls make an execution stop for. Pure: counts in, signals out.

import { defined } from "../kernel/json.ts";
import type { StopCode, StopSignal } from "../protocol/stop.ts";
import type { ToolExecution } from "../protocol/tool-outcome.ts";
import type { ErrorBudget, ErrorPolicy } from "./error-budget.ts";
import { countFailures, countsAs, type FailureCounts } from "./failure-counts.ts";

/** What the calls of a reply make the execution stop for: every limit that they went beyond, and what the policy says of single ones. */
export function failureSignals(
  before: FailureCounts,
  executions: readonly ToolExecution[],
  { budget, policy }: { readonly budget: ErrorBudget; readonly policy: ErrorPolicy },
): readonly StopSignal[] {
  const after = countFailures(before, executions);
  const counts = { ...after, consecutiveErrors: longestRow(before, executions) };
  const beyond = (["toolErrors", "consecutiveErrors", "retryErrors"] as const).flatMap((kind) => {
    const { limit, what } = LIMITS[kind];
    const maximum = budget[limit];
    const current = counts[kind];
    if (current <= maximum) return [];
    const message = `${current} ${what}, and ${limit} is ${maximum}.`;
    return [signal("error_budget", message, { limit, maximum, current })];
  });
  return [...executions.flatMap((execution) => singleSignal(execution, policy)), ...beyond];
}

/** The most errors in a row at any call: a row that was too long stays so, whatever succeeds after it in the same reply. */
function longestRow(
  { consecutiveErrors: row }: FailureCounts,
  executions: readonly ToolExecution[],
): number {
  let current = row;
  let longest = 0;
  for (const execution of executions) {
    if (execution.type === "succeeded") current = 0;
    if (countsAs(execution) === "error") current += 1;
    longest = Math.max(longest, current);
  }
  return longest;
}

const LIMITS = {
  toolErrors: { limit: "maxToolErrors", what: "tool calls failed" },
  consecutiveErrors: { limit: "maxConsecutiveErrors", what: "tool calls in a row failed" },
  retryErrors: { limit: "maxRetryErrors", what: "tool calls had to be corrected" },
} as const;

const BLOCKED: ReadonlySet<string> = new Set(["blocked", "denied", "approval_check_failed"]);

function singleSignal(execution: ToolExecution, policy: ErrorPolicy): readonly StopSignal[] {
  const { call, errorCode, blockedBy, text } = execution;
  const data = { toolName: call.toolName, callId: call.callId };
  if (errorCode === "retry_limit" && policy.onRetryLimit === "stop") {
    const message = `${call.toolName} was retried as often as it allows, and needs another correction.`;
    return [signal("retry_limit", message, data)];
  }
  if (!BLOCKED.has(errorCode ?? "") || policy.onBlocked !== "stop") return [];
  return [signal("blocked", `A call of ${call.toolName} was denied: ${text}`, data, blockedBy)];
}

function signal(
  code: StopCode,
  message: string,
  data: StopSignal["reason"]["data"],
  name?: string,
): StopSignal {
  return { source: "tool", reason: { code, message, data }, ...defined({ name }) };
}
