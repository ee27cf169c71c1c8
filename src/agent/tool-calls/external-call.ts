// A call that another program executes: guarded like any other, then a question whose answer is its result (R29).

import type { Answer, Question } from "../../protocol/question.ts";
import type { BoundCall } from "../../tools/bind-call.ts";
import { resultText } from "../../tools/result-text.ts";
import type { CallEnd } from "../effects.ts";
import { isOverdue, questionAbout, recordAnswer } from "./ask-approver.ts";
import { failed, failedSaying, rejectedOutcome } from "./failed-outcome.ts";
import { decideByGuards } from "./guards.ts";
import type { OpenCall } from "./open-call.ts";
import { deferralOf, unanswered } from "./questions.ts";
import { recordBegin, recordEnd, rejectUnbegun, reject } from "./record.ts";
import { shownArguments } from "./parsed-call.ts";

type ExternalCall = Extract<BoundCall, { readonly type: "external" }>;

/** The result of the call, or the question for it. What a guard wants asked is part of that one question (C12). */
export async function callExternally(call: OpenCall, bound: ExternalCall): Promise<CallEnd> {
  const { agent, planned, position } = call;
  const { deferral, answer } = planned;
  if (deferral?.type === "question") {
    const { question } = deferral;
    if (answer === undefined && !isOverdue(agent, question)) return { type: "deferred", deferral };
    return await endWithAnswer(call, question, answer);
  }
  if (call.signal.aborted) return rejectUnbegun(call);
  const decision = await decideByGuards(call, bound);
  if (call.signal.aborted) return rejectUnbegun(call);
  if (decision.type === "deny") return await reject(call, rejectedOutcome(decision.rejected));
  const why = `${bound.tool.name} is executed elsewhere.`;
  const reason = decision.type === "ask" ? `${why} ${decision.reason}` : why;
  const question = questionAbout(call, "external", reason, shownArguments(bound));
  agent.emit({ type: "question.asked", question }, position);
  if (agent.run.settings.approvals.unanswered === "deny")
    return await endWithAnswer(call, question, undefined);
  agent.beginQuestion();
  return { type: "deferred", deferral: deferralOf(call, bound, question) };
}

/** Ends the call with the answer. Without an answer it fails; its body never runs. */
async function endWithAnswer(
  call: OpenCall,
  question: Question,
  answer: Answer | undefined,
): Promise<CallEnd> {
  if (answer?.type === "result") {
    recordAnswer(call, question, { answer: "result", by: "caller" });
    const text = resultText(answer.result);
    return await recordEnd(call, recordBegin(call), { type: "succeeded", text });
  }
  const before = `${question.toolName} failed: `;
  if (answer?.type === "failure") {
    const { message: words } = answer;
    recordAnswer(call, question, { answer: "failure", by: "caller", reason: words });
    return await recordEnd(call, recordBegin(call), failedSaying("tool_error", { before, words }));
  }
  const { reason, by } = unanswered(call, question, "There is nobody who could execute it.");
  recordAnswer(call, question, { answer: "failure", by, reason });
  return await reject(call, failed("tool_error", `${before}${reason}`, { reason }));
}
