// How many failures of tool calls an execution bears, of which kind, and what is done about single ones. Pure: counts in, signals out.

import { checkCount, checkKeys, defaultAdvice, misdefinition } from "../kernel/check.ts";
import type { StopCode, StopSignal } from "../protocol/stop.ts";
import { failureClass, isToolFailureCode } from "../protocol/tool-failure.ts";
import type { ToolExecution } from "../protocol/tool-outcome.ts";

/** How many failures of tool calls one execution bears (C46: N are borne, N + 1 stop it). */
export interface ErrorBudget {
  /** Failed and blocked calls in all. Default 5. */
  readonly maxToolErrors: number;
  /** Failed and blocked calls with no successful one between them. Default 3. */
  readonly maxConsecutiveErrors: number;
  /** Requests for a corrected call, over all tools. Default 10. */
  readonly maxRetryErrors: number;
}

/** What is done about single failures. */
export interface ErrorPolicy {
  /** When a guard, a hook or whoever was asked denies a call, or whether to ask cannot be found out: the agent goes on (default), or stops with `blocked` (R71). */
  readonly onBlocked: "continue" | "stop";
  /** When a tool was retried as often as it allows: the agent stops with `retry_limit` (default), or goes on without the call (R110). */
  readonly onRetryLimit: "stop" | "continue";
}

export const DEFAULT_ERROR_BUDGET: ErrorBudget = Object.freeze({
  maxToolErrors: 5,
  maxConsecutiveErrors: 3,
  maxRetryErrors: 10,
});

const DEFAULT_ERROR_POLICY: ErrorPolicy = Object.freeze({
  onBlocked: "continue",
  onRetryLimit: "stop",
});

/** The error budget of a definition. Throws `invalid_option` for what it cannot be. */
export function errorBudget(field: string, given: Partial<ErrorBudget>): ErrorBudget {
  checkKeys(field, given, Object.keys(DEFAULT_ERROR_BUDGET));
  for (const limit of ["maxToolErrors", "maxConsecutiveErrors", "maxRetryErrors"] as const) {
    const advice = defaultAdvice(DEFAULT_ERROR_BUDGET[limit]);
    if (given[limit] !== undefined) checkCount(`${field}.${limit}`, given[limit], advice);
  }
  return Object.freeze({
    maxToolErrors: given.maxToolErrors ?? DEFAULT_ERROR_BUDGET.maxToolErrors,
    maxConsecutiveErrors: given.maxConsecutiveErrors ?? DEFAULT_ERROR_BUDGET.maxConsecutiveErrors,
    maxRetryErrors: given.maxRetryErrors ?? DEFAULT_ERROR_BUDGET.maxRetryErrors,
  });
}

/** The error policy of a definition. Throws `invalid_option` or `invalid_definition` for what it cannot be. */
export function errorPolicy(field: string, given: Partial<ErrorPolicy>): ErrorPolicy {
  checkKeys(field, given, Object.keys(DEFAULT_ERROR_POLICY));
  for (const [key, value] of Object.entries(given)) {
    if (value === undefined || value === "continue" || value === "stop") continue;
    throw misdefinition(`${field}.${key}`, '"continue" or "stop"', value, "Choose one.");
  }
  return Object.freeze({
    onBlocked: given.onBlocked ?? DEFAULT_ERROR_POLICY.onBlocked,
    onRetryLimit: given.onRetryLimit ?? DEFAULT_ERROR_POLICY.onRetryLimit,
  });
}

/** What an execution has borne so far. Plain JSON; part of its state. */
export interface FailureCounts {
  readonly toolErrors: number;
  readonly consecutiveErrors: number;
  readonly retryErrors: number;
  /** Requests for a corrected call since the last success, by tool; tools without any are absent. */
  readonly retriesByTool: Readonly<Record<string, number>>;
}

export const NO_FAILURES: FailureCounts = Object.freeze({
  toolErrors: 0,
  consecutiveErrors: 0,
  retryErrors: 0,
  retriesByTool: Object.freeze({}),
});

/** The retries of a tool so far. */
export function retriesOf({ retriesByTool }: FailureCounts, toolName: string): number {
  return Object.hasOwn(retriesByTool, toolName) ? (retriesByTool[toolName] ?? 0) : 0;
}

/**
 * The counts after the calls of one reply, in call order. However many calls of a tool had to be corrected in one reply, the model was
 * asked once (R109).
 */
export function countFailures(
  before: FailureCounts,
  executions: readonly ToolExecution[],
): FailureCounts {
  let { toolErrors, consecutiveErrors, retryErrors } = before;
  for (const execution of executions) {
    if (execution.type === "succeeded") consecutiveErrors = 0;
    const counts = countsAs(execution);
    if (counts === "retry") retryErrors += 1;
    if (counts === "error") {
      toolErrors += 1;
      consecutiveErrors += 1;
    }
  }
  const retriesByTool = retriesAfter(before.retriesByTool, executions);
  return { toolErrors, consecutiveErrors, retryErrors, retriesByTool };
}

/** What of an error budget a call uses up. */
export function countsAs({ errorCode }: ToolExecution): "error" | "retry" | "nothing" {
  if (errorCode === undefined || !isToolFailureCode(errorCode)) return "nothing";
  return failureClass(errorCode).counts;
}

function retriesAfter(
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
    return [signal("error_budget", message, { data: { limit, maximum, current } })];
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
    return [signal("retry_limit", message, { data })];
  }
  if (!BLOCKED.has(errorCode ?? "") || policy.onBlocked !== "stop") return [];
  const by = blockedBy === undefined ? {} : { name: blockedBy };
  return [signal("blocked", `A call of ${call.toolName} was denied: ${text}`, { data, ...by })];
}

function signal(
  code: StopCode,
  message: string,
  more: { readonly data: StopSignal["reason"]["data"]; readonly name?: string },
): StopSignal {
  const { data, name } = more;
  return {
    source: "tool",
    reason: { code, message, data },
    ...(name === undefined ? {} : { name }),
  };
}
