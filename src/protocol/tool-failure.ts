// The one table of what can go wrong with a tool call: where it comes from, what it means, and what counts against the error budget.

import type { ToolErrorSeverity } from "./tool-error-record.ts";
import type { ToolOutcomeType } from "./tool-outcome.ts";

/** What a failure means, by its code. */
export interface FailureClass {
  readonly severity: ToolErrorSeverity;
  readonly outcome: Exclude<ToolOutcomeType, "succeeded">;
  /** What of the error budget it uses up: a tool error, a request for a corrected call, or nothing. */
  readonly counts: "error" | "retry" | "nothing";
}

const RETRY: FailureClass = { severity: "retryable", outcome: "retry", counts: "retry" };
const FAILED: FailureClass = { severity: "recoverable", outcome: "failed", counts: "error" };
const BLOCKED: FailureClass = { severity: "fatal", outcome: "refused", counts: "error" };
const LIMITED: FailureClass = { severity: "fatal", outcome: "refused", counts: "nothing" };
/** Another call may fit. */
const UNFIT: FailureClass = { severity: "recoverable", outcome: "refused", counts: "nothing" };
const ENDED: FailureClass = { severity: "abortive", outcome: "refused", counts: "nothing" };

/** Every failure code of a tool call (R160). `docs/errors.md` shows the table with an example of each text. */
export const TOOL_FAILURES = {
  /** The arguments are no JSON. */
  invalid_json: RETRY,
  /** The arguments do not fit the schema. */
  invalid_arguments: RETRY,
  /** The tool asked for a corrected call. */
  tool_retry: RETRY,
  /** The model was asked for a corrected call as often as the tool allows. */
  retry_limit: { severity: "fatal", outcome: "failed", counts: "error" },
  unknown_tool: FAILED,
  /** A filter took the tool away in this step. */
  tool_not_available: { severity: "recoverable", outcome: "refused", counts: "error" },
  /** The tool threw, its result is no JSON, or it was reported as failed from elsewhere. */
  tool_error: FAILED,
  /** It did not end in its time. */
  tool_timeout: FAILED,
  /** Its process died while it was under way, and it must not be made twice. */
  interrupted: { severity: "recoverable", outcome: "failed", counts: "nothing" },
  subagent_failed: FAILED,
  /** A subagent was stopped before its answer; what it had is in the result. */
  subagent_partial: { severity: "recoverable", outcome: "failed", counts: "nothing" },
  /** A subagent ended without a text and without a typed result. */
  subagent_no_output: { severity: "recoverable", outcome: "failed", counts: "nothing" },
  subagent_cancelled: { severity: "recoverable", outcome: "cancelled", counts: "nothing" },
  /** A guard or a hook denied it. */
  blocked: BLOCKED,
  /** The approver denied it. */
  denied: BLOCKED,
  /** Whether it needs an approval could not be found out. */
  approval_check_failed: BLOCKED,
  /** The caller had the calls of the step left out. */
  skipped: { severity: "recoverable", outcome: "refused", counts: "nothing" },
  unknown_role: UNFIT,
  /** The agent may not write roles of its own. */
  forbidden_role: UNFIT,
  /** A role that was written at spawn cannot be used. */
  invalid_role: UNFIT,
  /** What the subagent was to inherit could not be put together. */
  invalid_context: UNFIT,
  /** The agent has no subagent of that name. */
  unknown_subagent: UNFIT,
  subagent_running: UNFIT,
  subagent_ended: UNFIT,
  /** What others of the same reply came to leaves nothing to do for this one. */
  group_decided: UNFIT,
  depth_limit: LIMITED,
  breadth_limit: LIMITED,
  total_limit: LIMITED,
  budget_exhausted: LIMITED,
  setup_failed: LIMITED,
  tool_calls_limit: ENDED,
  time_limit: ENDED,
  /** The agent had to end while the call ran. */
  cancelled: { severity: "abortive", outcome: "cancelled", counts: "nothing" },
  /** The agent stopped before the call. */
  not_executed: { severity: "abortive", outcome: "not_executed", counts: "nothing" },
} as const satisfies Readonly<Record<string, FailureClass>>;

/** Why a tool call did not succeed. */
export type ToolFailureCode = keyof typeof TOOL_FAILURES;

/** What a failure means. */
export function failureClass(code: ToolFailureCode): FailureClass {
  return TOOL_FAILURES[code];
}

/** True for a code of the table. */
export function isToolFailureCode(code: string): code is ToolFailureCode {
  return Object.hasOwn(TOOL_FAILURES, code);
}
