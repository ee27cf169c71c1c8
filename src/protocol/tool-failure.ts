// Outcomes of tool calls, and the table of all failures, with their severity and their effect on the error budget.

import { lazySchema, z } from "./lazy-schema.ts";

/**
 * List of all refusal codes of subagents.
 *
 * @example
 * ```ts
 * const refused = SPAWN_REFUSAL_CODES.map((code) => [code, result.refusalsByCode[code] ?? 0]);
 * ```
 */
export const SPAWN_REFUSAL_CODES = [
  /** No role of this name may be started. */
  "unknown_role",
  /** The agent may not define roles. */
  "forbidden_role",
  /** The dynamic role is invalid. */
  "invalid_role",
  /** Building the inherited context failed. */
  "context_policy_failed",
  /** The agent has no subagent with this name. */
  "unknown_subagent",
  /** The subagent is still running. */
  "subagent_running",
  /** The subagent has ended or is paused, so it cannot read a message or be cancelled. */
  "subagent_ended",
  /** Other subagents of the same reply have already decided the outcome of the group. */
  "group_decided",
  /** A guard or a hook denied the call. */
  "blocked",
  /** A rule or a filter forbids the tool. */
  "tool_not_available",
  /** The tree has reached `maxDepth`. */
  "depth_limit",
  /** The parent has reached `maxBreadthPerParent`. */
  "breadth_limit",
  /** The run has reached `maxTotalSubagents`. */
  "total_limit",
  /** The budget has no room for a subagent. */
  "budget_exhausted",
  /** Creating the subagent failed. */
  "setup_failed",
  /** The parent was stopping, or the call that requested the subagent had ended. */
  "parent_stopped",
] as const;

/**
 * Reason why a subagent was not started.
 *
 * @example
 * ```ts
 * for await (const event of run.events())
 *   if (event.type === "subagent.refused" && event.error.code === "budget_exhausted")
 *     console.warn(`${event.agentPath}: no budget left for ${event.role}`);
 * ```
 */
export type SpawnRefusalCode = (typeof SPAWN_REFUSAL_CODES)[number];

/**
 * Code of a tool call that did not succeed. `docs/tool-errors.md` lists all codes with examples.
 *
 * @example
 * ```ts
 * const skipped: readonly ToolFailureCode[] = ["skipped", "not_executed"];
 * ```
 */
export type ToolFailureCode =
  /** The delegation was refused. */
  | SpawnRefusalCode
  /** The arguments are invalid JSON. */
  | "invalid_json"
  /** The arguments do not match the tool's schema. */
  | "invalid_arguments"
  /** The tool requested a corrected call. */
  | "tool_retry"
  /** The call was corrected as often as the tool allows, and still failed. */
  | "retry_limit"
  /** No tool has this name. */
  | "unknown_tool"
  /** The tool threw, returned a value that is not JSON, or `provideError` reported its failure. */
  | "tool_error"
  /** The tool exceeded its `timeoutMs`. */
  | "tool_timeout"
  /** The process died during the call, and the tool must not run twice. */
  | "interrupted"
  /** The subagent failed. */
  | "subagent_failed"
  /** The subagent was stopped before its answer. The result contains its partial text. */
  | "subagent_partial"
  /** The subagent ended without a text and without a typed result. */
  | "subagent_no_output"
  /** The subagent was cancelled. */
  | "subagent_cancelled"
  /** The approver denied the call. */
  | "denied"
  /** `needsApproval` failed, so the call was not permitted. */
  | "approval_check_failed"
  /** The caller skipped the calls of the step with `skipToolCalls`. */
  | "skipped"
  /** The budget of `toolCalls` is used up. */
  | "tool_call_limit"
  /** The time limit has passed. */
  | "time_limit"
  /** The agent had to end during the call. */
  | "cancelled"
  /** The agent stopped before the call. */
  | "not_executed";

/**
 * Consequence of a failed tool call.
 *
 * - `retryable`: the model is asked for a corrected call, a limited number of times.
 * - `recoverable`: the model reads the error and continues.
 * - `fatal`: the model reads the error, and must not repeat the call.
 * - `abortive`: the agent ends.
 *
 * @example
 * ```ts
 * for await (const event of run.events())
 *   if (event.type === "tool.ended" && event.error?.severity === "abortive")
 *     console.error(`${event.toolName} ended ${event.agentPath}: ${event.error.message}`);
 * ```
 */
export type ToolErrorSeverity = "retryable" | "recoverable" | "fatal" | "abortive";

/**
 * Outcome of a tool call.
 *
 * - `succeeded`: the tool returned a result.
 * - `retry`: the model is asked for a corrected call.
 * - `failed`: the tool failed, and the model reads the error.
 * - `refused`: a limit, guard, approver or rule forbade the call.
 * - `not_executed`: the agent stopped before the call.
 * - `cancelled`: the agent had to end during the call; a late result is discarded.
 *
 * @example
 * ```ts
 * const failed = result.steps.flatMap(({ tools }) =>
 *   tools.executions.filter(({ type }) => type === "failed" || type === "refused"),
 * );
 * ```
 */
export type ToolOutcomeType =
  | "succeeded"
  | "retry"
  | "failed"
  | "refused"
  | "not_executed"
  | "cancelled";

const TOOL_OUTCOME_TYPES = [
  "succeeded",
  "retry",
  "failed",
  "refused",
  "not_executed",
  "cancelled",
] as const satisfies readonly ToolOutcomeType[];

/** Consequences of a failure code. */
export interface FailureClass {
  readonly severity: ToolErrorSeverity;
  readonly outcome: Exclude<ToolOutcomeType, "succeeded">;
  /**
   * Share of the error budget that the failure uses: a tool error, a request for a corrected call,
   * or nothing.
   */
  readonly counts: "error" | "retry" | "nothing";
}

const RETRY: FailureClass = { severity: "retryable", outcome: "retry", counts: "retry" };
const FAILED: FailureClass = { severity: "recoverable", outcome: "failed", counts: "error" };
const BLOCKED: FailureClass = { severity: "fatal", outcome: "refused", counts: "error" };
const LIMITED: FailureClass = { severity: "fatal", outcome: "refused", counts: "nothing" };
/** Another call may be accepted. */
const UNFIT: FailureClass = { severity: "recoverable", outcome: "refused", counts: "nothing" };
const ENDED: FailureClass = { severity: "abortive", outcome: "refused", counts: "nothing" };

/** Consequences of every failure code. */
export const TOOL_FAILURES: Readonly<Record<ToolFailureCode, FailureClass>> = {
  invalid_json: RETRY,
  invalid_arguments: RETRY,
  tool_retry: RETRY,
  retry_limit: { severity: "fatal", outcome: "failed", counts: "error" },
  unknown_tool: FAILED,
  tool_not_available: { severity: "recoverable", outcome: "refused", counts: "error" },
  tool_error: FAILED,
  tool_timeout: FAILED,
  interrupted: { severity: "recoverable", outcome: "failed", counts: "nothing" },
  subagent_failed: FAILED,
  subagent_partial: { severity: "recoverable", outcome: "failed", counts: "nothing" },
  subagent_no_output: { severity: "recoverable", outcome: "failed", counts: "nothing" },
  subagent_cancelled: { severity: "recoverable", outcome: "cancelled", counts: "nothing" },
  blocked: BLOCKED,
  denied: BLOCKED,
  approval_check_failed: BLOCKED,
  skipped: { severity: "recoverable", outcome: "refused", counts: "nothing" },
  unknown_role: UNFIT,
  forbidden_role: UNFIT,
  invalid_role: UNFIT,
  context_policy_failed: UNFIT,
  unknown_subagent: UNFIT,
  subagent_running: UNFIT,
  subagent_ended: UNFIT,
  group_decided: UNFIT,
  depth_limit: LIMITED,
  breadth_limit: LIMITED,
  total_limit: LIMITED,
  budget_exhausted: LIMITED,
  setup_failed: LIMITED,
  parent_stopped: ENDED,
  tool_call_limit: ENDED,
  time_limit: ENDED,
  cancelled: { severity: "abortive", outcome: "cancelled", counts: "nothing" },
  not_executed: { severity: "abortive", outcome: "not_executed", counts: "nothing" },
};

/** Returns true for a code of the table. */
export function isToolFailureCode(code: string): code is ToolFailureCode {
  return Object.hasOwn(TOOL_FAILURES, code);
}

export const ToolErrorSeveritySchema = lazySchema(() =>
  z.enum(["retryable", "recoverable", "fatal", "abortive"]),
);

export const ToolOutcomeTypeSchema = lazySchema(() => z.enum(TOOL_OUTCOME_TYPES));

export const ToolFailureCodeSchema = lazySchema(() =>
  z.custom<ToolFailureCode>(
    (code) => typeof code === "string" && isToolFailureCode(code),
    "Expected the code of a tool failure",
  ),
);
