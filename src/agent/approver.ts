// The approver, which answers questions about calls, and its settings. A question without an answer
// waits: the run pauses.

import { checkAmount, mismatch, NO_LIMIT_ADVICE } from "../kernel/argument-checks.ts";
import { EspalierError } from "../kernel/error.ts";
import {
  approve,
  deny,
  provideResult,
  provideError,
  type Answer,
  type Question,
} from "../protocol/question.ts";

/**
 * A function that answers the questions of a run while the run waits. The function may ask a person
 * and take hours, because the time limit of the agent does not count the wait.
 *
 * - For a tool call that needs an approval, return `approve(question)` or `deny(question, reason)`.
 * - For a question of kind `external`, which `ask` of a running tool sends, return
 *   `provideResult(question, value)` or `provideError(question, message)`. The approver does not
 *   receive the calls of tools without `execute`.
 * - Return `undefined` to give no answer. The run then pauses, or follows `unansweredPolicy`.
 *
 * The function is called once per question. An approver that throws, or returns an answer that does
 * not fit, has given no answer. `signal` is aborted when the answer is no longer needed.
 *
 * @example
 * ```ts
 * const approver: Approver = (question) =>
 *   question.toolName.startsWith("read_")
 *     ? approve(question)
 *     : deny(question, "Only reading is allowed here.");
 * const supervised = new Orchestrator({ approver });
 * ```
 */
export type Approver = (
  question: Question,
  context: { readonly signal: AbortSignal },
) => Answer | undefined | Promise<Answer | undefined>;

/** The treatment of a question that no approver answers: the run pauses, or the call is denied. */
export type UnansweredPolicy = "pause" | "deny";

/** The settings of how the questions of a run are answered. */
export interface ApprovalHandler {
  readonly approver: Approver | undefined;
  /**
   * Milliseconds from the question on. After them an approval counts as denied, and an external
   * call as failed.
   */
  readonly answerTimeoutMs: number | undefined;
  readonly unansweredPolicy: UnansweredPolicy;
}

/** Throws `invalid_argument` unless the settings are valid. */
export function checkApprovals(options: {
  readonly approver?: Approver;
  readonly answerTimeoutMs?: number;
  readonly unansweredPolicy?: UnansweredPolicy;
}): void {
  const { approver, answerTimeoutMs, unansweredPolicy = "pause" } = options;
  if (approver !== undefined) checkApprover(approver);
  if (answerTimeoutMs !== undefined)
    checkAmount("answerTimeoutMs", answerTimeoutMs, NO_LIMIT_ADVICE);
  if (unansweredPolicy !== "pause" && unansweredPolicy !== "deny")
    throw mismatch("unansweredPolicy", `"pause" or "deny"`, unansweredPolicy, "Choose one.");
}

/**
 * Functions that create answers. They cannot be approvers, because each would take the approver's
 * context for an argument of its own.
 */
const ANSWER_MAKERS: readonly unknown[] = [approve, deny, provideResult, provideError];

function checkApprover(approver: unknown): void {
  const expected = "a function that takes a question and returns an answer";
  const advice = "Write (question) => approve(question), or deny(question, reason).";
  if (typeof approver !== "function") throw mismatch("approver", expected, approver, advice);
  if (!ANSWER_MAKERS.includes(approver)) return;
  throw new EspalierError({
    code: "invalid_argument",
    message: `Expected approver to be ${expected}, got ${approver.name} itself. ${advice}`,
    data: { field: "approver", expected, got: approver.name },
  });
}
