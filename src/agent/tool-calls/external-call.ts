// A call that another program executes: guarded like any other, then a question whose answer is its result (R29).

import type { Answer, Question } from "../../protocol/question.ts";
import type { BoundCall } from "../../tools/bind-call.ts";
import { resultText } from "../../tools/result-text.ts";
import type { CallEnd } from "../effects.ts";
import type { CallOutcome, FailedOutcome, Deferred } from "./call-outcome.ts";
import { failed, failedSaying, rejectedOutcome } from "./failed-outcome.ts";
import { decideByGuards } from "./guards.ts";
import type { OpenCall } from "./open-call.ts";
import { deferred, isOverdue, questionAbout, recordAnswer } from "./questions.ts";
import { recordBegin, recordEnd, rejectUnbegun, reject } from "./record.ts";
import { askedArguments } from "./call-arguments.ts";

type ExternalEnd =
  | Deferred
  | { readonly type: "answered"; readonly outcome: CallOutcome }
  /** It is not run: denied, or no one said what came of it. */
  | { readonly type: "refused"; readonly outcome: FailedOutcome }
  | { readonly type: "cancelled" };

type ExternalCall = Extract<BoundCall, { readonly type: "external" }>;

export async function callExternally(call: OpenCall, bound: ExternalCall): Promise<CallEnd> {
  const end = await answerOf(call, bound);
  switch (end.type) {
    case "deferred":
      return end;
    case "cancelled":
      return rejectUnbegun(call);
    case "refused":
      return await reject(call, end.outcome);
    case "answered":
      return await recordEnd(call, recordBegin(call), end.outcome);
  }
}

/** The result of the call, or the question for it. What a guard wants asked is part of that one question (C12). */
async function answerOf(call: OpenCall, bound: ExternalCall): Promise<ExternalEnd> {
  const { deferral, answer } = call.planned;
  if (deferral?.type === "question") {
    const { question } = deferral;
    if (answer === undefined && !isOverdue(call.agent, question))
      return { type: "deferred", deferral };
    return endOf(call, question, answer);
  }
  if (call.signal.aborted) return { type: "cancelled" };
  const decision = await decideByGuards(call, bound);
  if (call.signal.aborted) return { type: "cancelled" };
  if (decision.type === "deny")
    return { type: "refused", outcome: rejectedOutcome(decision.rejected) };
  const why = `${bound.tool.name} is executed elsewhere.`;
  const reason = decision.type === "ask" ? `${why} ${decision.reason}` : why;
  const question = questionAbout(call, "external", reason, askedArguments(bound));
  call.agent.emit({ type: "question.asked", question }, call.position);
  if (call.agent.run.settings.approvals.unanswered === "deny")
    return endOf(call, question, undefined);
  call.agent.time.beginQuestion();
  return deferred(call, question);
}

function endOf(call: OpenCall, question: Question, answer: Answer | undefined): ExternalEnd {
  const { toolName } = question;
  if (answer?.type === "result") {
    recordAnswer(call, question, { answer: "result", by: "caller" });
    return { type: "answered", outcome: { type: "succeeded", text: resultText(answer.result) } };
  }
  const isReported = answer?.type === "failure";
  const isLate = isOverdue(call.agent, question);
  const reason = isReported
    ? answer.message
    : isLate
      ? "Nobody answered in time."
      : "There is nobody who could execute it.";
  const by = isReported ? "caller" : isLate ? "deadline" : "nobody";
  recordAnswer(call, question, { answer: "failure", by, reason });
  const before = `${toolName} failed: `;
  return isReported
    ? { type: "answered", outcome: failedSaying("tool_error", { before, words: reason }) }
    : { type: "refused", outcome: failed("tool_error", `${before}${reason}`, { reason }) };
}
