// Table of all failures of tool calls, with their severity and their effect on the error budget.

import type { ToolErrorSeverity } from "./tool-error-record.ts";
import type { ToolFailureCode } from "./tool-failure-code.ts";
import type { ToolOutcomeType } from "./tool-outcome.ts";

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
