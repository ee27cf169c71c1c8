// Codes of tool calls that did not succeed, and of subagents that were not started.

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

export const ToolFailureCodeSchema = lazySchema(() =>
  z.enum([
    ...SPAWN_REFUSAL_CODES,
    "invalid_json",
    "invalid_arguments",
    "tool_retry",
    "retry_limit",
    "unknown_tool",
    "tool_error",
    "tool_timeout",
    "interrupted",
    "subagent_failed",
    "subagent_partial",
    "subagent_no_output",
    "subagent_cancelled",
    "denied",
    "approval_check_failed",
    "skipped",
    "tool_call_limit",
    "time_limit",
    "cancelled",
    "not_executed",
  ] satisfies readonly ToolFailureCode[]),
);
