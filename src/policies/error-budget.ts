// Limits on the failed tool calls of an execution, reactions to single failures, and the stop
// signals that follow from both.

import { checkCount, checkKeys, adviseDefault, mismatch } from "../kernel/argument-checks.ts";
import { omitUndefined } from "../kernel/json.ts";
import type { StopCode, StopSignal } from "../protocol/stop.ts";
import type { ToolExecution } from "../protocol/tool-outcome.ts";
import { countFailures, classifyErrorBudgetUse, type FailureCounts } from "./failure-counts.ts";

/**
 * Failed tool calls that one execution tolerates. `n` failures are tolerated, failure `n + 1` stops
 * the agent with `error_budget`.
 *
 * @example
 * ```ts
 * const errorBudget: Partial<ErrorBudget> = { maxToolErrors: 10, maxConsecutiveErrors: 2 };
 * ```
 */
export interface ErrorBudget {
  /**
   * Maximum number of failed and blocked calls.
   *
   * @default 5
   */
  readonly maxToolErrors: number;
  /**
   * Maximum number of failed and blocked calls in a row, without a successful call between them.
   *
   * @default 3
   */
  readonly maxConsecutiveErrors: number;
  /**
   * Maximum number of requests for a corrected call, over all tools.
   *
   * @default 10
   */
  readonly maxRetryErrors: number;
}

/**
 * The reaction to single failed calls.
 *
 * @example
 * ```ts
 * const errorPolicy: Partial<ErrorPolicy> = {
 *   blockedPolicy: "stop",
 *   retryLimitPolicy: "continue",
 * };
 * ```
 */
export interface ErrorPolicy {
  /**
   * The reaction to a call that a guard, a hook or an approver denied, or whose approval check
   * failed. `"stop"` ends the agent with `blocked`.
   *
   * @default "continue"
   */
  readonly blockedPolicy: "continue" | "stop";
  /**
   * The reaction to a call that needs another correction after `maxRetries`. `"stop"` ends the
   * agent with `retry_limit`, `"continue"` fails the call only.
   *
   * @default "stop"
   */
  readonly retryLimitPolicy: "stop" | "continue";
}

/** The error budget of a role that sets none. */
export const DEFAULT_ERROR_BUDGET: ErrorBudget = Object.freeze({
  maxToolErrors: 5,
  maxConsecutiveErrors: 3,
  maxRetryErrors: 10,
});

const DEFAULT_ERROR_POLICY: ErrorPolicy = Object.freeze({
  blockedPolicy: "continue",
  retryLimitPolicy: "stop",
});

/**
 * Returns the given error budget merged over the defaults. Throws `invalid_argument` if a field is
 * unknown or invalid.
 */
export function resolveErrorBudget(field: string, options: Partial<ErrorBudget>): ErrorBudget {
  checkKeys(field, options, Object.keys(DEFAULT_ERROR_BUDGET));
  for (const limit of ["maxToolErrors", "maxConsecutiveErrors", "maxRetryErrors"] as const) {
    const advice = adviseDefault(DEFAULT_ERROR_BUDGET[limit]);
    if (options[limit] !== undefined) checkCount(`${field}.${limit}`, options[limit], advice);
  }
  return Object.freeze({ ...DEFAULT_ERROR_BUDGET, ...omitUndefined(options) });
}

/**
 * Returns the given error policy merged over the defaults. Throws `invalid_argument` if a field is
 * unknown, and `invalid_argument` if a value is.
 */
export function resolveErrorPolicy(field: string, options: Partial<ErrorPolicy>): ErrorPolicy {
  checkKeys(field, options, Object.keys(DEFAULT_ERROR_POLICY));
  for (const [key, value] of Object.entries(options)) {
    if (value === undefined || value === "continue" || value === "stop") continue;
    throw mismatch(`${field}.${key}`, '"continue" or "stop"', value, "Choose one.");
  }
  return Object.freeze({ ...DEFAULT_ERROR_POLICY, ...omitUndefined(options) });
}

/**
 * Returns the stop signals of a reply's calls: one for each exceeded limit, and one for each call
 * that the policy stops at.
 */
export function collectFailureSignals(
  before: FailureCounts,
  executions: readonly ToolExecution[],
  { budget, policy }: { readonly budget: ErrorBudget; readonly policy: ErrorPolicy },
): readonly StopSignal[] {
  const after = countFailures(before, executions);
  const counts = { ...after, consecutiveErrors: countLongestRow(before, executions) };
  const beyond = (["toolErrors", "consecutiveErrors", "retryErrors"] as const).flatMap((kind) => {
    const { limit, event } = LIMITS_BY_KIND[kind];
    const maximum = budget[limit];
    const current = counts[kind];
    if (current <= maximum) return [];
    const message = `${current} ${event}, and ${limit} is ${maximum}.`;
    return [createSignal("error_budget", message, { limit, maximum, current })];
  });
  return [...executions.flatMap((execution) => findCallSignals(execution, policy)), ...beyond];
}

/**
 * Returns the largest number of consecutive errors at any call. A later success in the same reply
 * does not lower it.
 */
function countLongestRow(
  { consecutiveErrors: row }: FailureCounts,
  executions: readonly ToolExecution[],
): number {
  let current = row;
  let longest = 0;
  for (const execution of executions) {
    if (execution.type === "succeeded") current = 0;
    if (classifyErrorBudgetUse(execution) === "error") current += 1;
    longest = Math.max(longest, current);
  }
  return longest;
}

const LIMITS_BY_KIND = {
  toolErrors: { limit: "maxToolErrors", event: "tool calls failed" },
  consecutiveErrors: { limit: "maxConsecutiveErrors", event: "tool calls in a row failed" },
  retryErrors: { limit: "maxRetryErrors", event: "tool calls had to be corrected" },
} as const;

const BLOCKED: ReadonlySet<string> = new Set(["blocked", "denied", "approval_check_failed"]);

function findCallSignals(execution: ToolExecution, policy: ErrorPolicy): readonly StopSignal[] {
  const { call, errorCode, blockedBy, text } = execution;
  const data = { toolName: call.toolName, callId: call.callId };
  if (errorCode === "retry_limit" && policy.retryLimitPolicy === "stop") {
    const message = `${call.toolName} used all its retries and needs another correction.`;
    return [createSignal("retry_limit", message, data)];
  }
  if (!BLOCKED.has(errorCode ?? "") || policy.blockedPolicy !== "stop") return [];
  return [
    createSignal("blocked", `A call of ${call.toolName} was denied: ${text}`, data, blockedBy),
  ];
}

function createSignal(
  code: StopCode,
  message: string,
  data: StopSignal["reason"]["data"],
  name?: string,
): StopSignal {
  return { source: "tool", reason: { code, message, data }, ...omitUndefined({ name }) };
}
