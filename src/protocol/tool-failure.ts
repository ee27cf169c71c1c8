// The one table of what can go wrong with a tool call: where it comes from, what it means, and what counts against the error budget.

import type { SpawnRefusalCode } from "./subagent.ts";
import type { ToolErrorSeverity } from "./tool-error-record.ts";
import type { ToolOutcomeType } from "./tool-outcome.ts";

/** What a failure means, by its code. */
export interface FailureClass {
  readonly severity: ToolErrorSeverity;
  readonly outcome: Exclude<ToolOutcomeType, "succeeded">;
  /** What of the error budget it uses up: a tool error, a request for a corrected call, or nothing. */
  readonly counts: "error" | "retry" | "nothing";
}

/** Why a tool call did not succeed. `docs/errors.md` shows all of them with what they mean and an example of each text. */
export type ToolFailureCode =
  /** The delegation was refused. */
  | SpawnRefusalCode
  /** The arguments are no JSON. */
  | "invalid_json"
  /** The arguments do not fit the schema. */
  | "invalid_arguments"
  /** The tool asked for a corrected call. */
  | "tool_retry"
  /** The model was asked for a corrected call as often as the tool allows. */
  | "retry_limit"
  | "unknown_tool"
  /** The tool threw, its result is no JSON, or it was reported as failed from elsewhere. */
  | "tool_error"
  /** It did not end in its time. */
  | "tool_timeout"
  /** Its process died while it was under way, and it must not be made twice. */
  | "interrupted"
  | "subagent_failed"
  /** A subagent was stopped before its answer; what it had is in the result. */
  | "subagent_partial"
  /** A subagent ended without a text and without a typed result. */
  | "subagent_no_output"
  | "subagent_cancelled"
  /** The approver denied it. */
  | "denied"
  /** Whether it needs an approval could not be found out. */
  | "approval_check_failed"
  /** The caller had the calls of the step left out. */
  | "skipped"
  | "tool_call_limit"
  | "time_limit"
  /** The agent had to end while the call ran. */
  | "cancelled"
  /** The agent stopped before the call. */
  | "not_executed";

const RETRY: FailureClass = { severity: "retryable", outcome: "retry", counts: "retry" };
const FAILED: FailureClass = { severity: "recoverable", outcome: "failed", counts: "error" };
const BLOCKED: FailureClass = { severity: "fatal", outcome: "refused", counts: "error" };
const LIMITED: FailureClass = { severity: "fatal", outcome: "refused", counts: "nothing" };
/** Another call may fit. */
const UNFIT: FailureClass = { severity: "recoverable", outcome: "refused", counts: "nothing" };
const ENDED: FailureClass = { severity: "abortive", outcome: "refused", counts: "nothing" };

/** What each failure means. */
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
  tool_call_limit: ENDED,
  time_limit: ENDED,
  cancelled: { severity: "abortive", outcome: "cancelled", counts: "nothing" },
  not_executed: { severity: "abortive", outcome: "not_executed", counts: "nothing" },
};

/** True for a code of the table. */
export function isToolFailureCode(code: string): code is ToolFailureCode {
  return Object.hasOwn(TOOL_FAILURES, code);
}
