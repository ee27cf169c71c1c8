// A call that somebody else executes: guarded like any other, then a question whose answer is its result (R29).

import type { Answer, Question } from "../../protocol/question.ts";
import type { BoundCall } from "../../tools/bind-call.ts";
import { resultText } from "../../tools/result-text.ts";
import {
  failed,
  failedSaying,
  rejectedOutcome,
  type CallOutcome,
  type FailedOutcome,
} from "./call-outcome.ts";
import { judge } from "./guards.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import { deferred, isOverdue, questionAbout, recordAnswer, type Deferred } from "./questions.ts";
import type { PlacedCall } from "./call-context.ts";
import { askedArguments } from "./used-arguments.ts";

export type ExternalEnd =
  | Deferred
  | { readonly type: "answered"; readonly outcome: CallOutcome }
  /** It is not run: denied, or no one said what came of it. */
  | { readonly type: "refused"; readonly outcome: FailedOutcome }
  | { readonly type: "cancelled" };

/** The result of the call, or the question for it. What a guard wants asked is part of that one question (C12). */
export async function callExternally(
  agent: AgentRuntime,
  call: PlacedCall,
  bound: Extract<BoundCall, { readonly type: "external" }>,
): Promise<ExternalEnd> {
  const { deferral, answer } = call.planned;
  if (deferral?.type === "question") {
    const { question } = deferral;
    if (answer === undefined && !isOverdue(agent, question)) return { type: "deferred", deferral };
    return endOf(agent, call, question, answer);
  }
  if (call.signal.aborted) return { type: "cancelled" };
  const asked = judge(agent, call, bound);
  const verdict = asked instanceof Promise ? await asked : asked;
  if (call.signal.aborted) return { type: "cancelled" };
  if (verdict.type === "deny")
    return { type: "refused", outcome: rejectedOutcome(verdict.rejected) };
  const why = `${bound.tool.name} is executed elsewhere.`;
  const reason = verdict.type === "ask" ? `${why} ${verdict.reason}` : why;
  const question = questionAbout(agent, call, {
    kind: "external",
    reason,
    input: askedArguments(bound),
  });
  agent.emit(
    { type: "question.asked", question },
    { stepId: call.place.stepId, callId: question.callId },
  );
  if (agent.run.settings.approvals.unanswered === "deny")
    return endOf(agent, call, question, undefined);
  agent.time.asking();
  return deferred(call, question);
}

function endOf(
  agent: AgentRuntime,
  call: PlacedCall,
  question: Question,
  answer: Answer | undefined,
): ExternalEnd {
  const { toolName } = question;
  if (answer?.type === "result") {
    recordAnswer(agent, call, question, { answer: "result", by: "caller" });
    return { type: "answered", outcome: { type: "succeeded", text: resultText(answer.result) } };
  }
  const isReported = answer?.type === "failure";
  const isLate = isOverdue(agent, question);
  const reason = isReported
    ? answer.message
    : isLate
      ? "Nobody answered in time."
      : "There is nobody who could execute it.";
  const by = isReported ? "caller" : isLate ? "deadline" : "nobody";
  recordAnswer(agent, call, question, { answer: "failure", by, reason });
  const before = `${toolName} failed: `;
  return isReported
    ? { type: "answered", outcome: failedSaying("tool_error", { before, words: reason }) }
    : { type: "refused", outcome: failed("tool_error", `${before}${reason}`, { reason }) };
}
