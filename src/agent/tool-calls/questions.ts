// Questions about calls: asked of the approver, answered by the caller that resumes a run, or left open, so that the run pauses.
// X17. An answer is about one exact call: it carries the fingerprint of tool and arguments, and is taken once.

import { joinSentences } from "../../kernel/sentence.ts";
import { defined, type JsonValue } from "../../kernel/json.ts";
import { callHashOf, isOverdue, type Answer, type Question } from "../../protocol/question.ts";
import { rebindCall, type OwnCall, type BoundCall } from "../../tools/bind-call.ts";
import { deniedText, type RejectedCall } from "../../tools/rejected-call.ts";
import type { QuestionDeferral } from "../agent-state.ts";
import { errorRecord } from "../error-record.ts";
import { applyChain } from "../consult.ts";
import {
  askApprover,
  problemWith,
  makeQuestion,
  recordAnswer,
  type Decider,
  type Said,
} from "./ask-approver.ts";
import {
  decideByGuards,
  decideAgain,
  plainReason,
  type Decision,
  type Repetition,
} from "./authorize.ts";
import type { OpenCall } from "./open-call.ts";
import { failed, failedSaying, rejectedOutcome, type Permission } from "./call-outcome.ts";
import { approvedCall, parseRecordOf, shownArguments, type CheckedCall } from "./parsed-call.ts";
import { resultText } from "../../tools/result-text.ts";
import type { CallEnd } from "../effects.ts";
import { recordBegin, recordEnd, rejectUnbegun } from "./record.ts";

/** A call about which a question was open when the run was paused. */
export function answered(
  call: OpenCall,
  bound: OwnCall,
  deferral: QuestionDeferral,
): Permission | Promise<Permission> {
  const { answer } = call;
  const { question } = deferral;
  if (answer === undefined && !isOverdue(question, call.agent.run.clock.nowMs()))
    return { type: "deferred", deferral };
  return decided(call, bound, { deferral, answer });
}

/** Lets guards decide, and asks the approver if one of them, or the tool, wants it. */
export async function askedAbout(
  call: OpenCall,
  bound: OwnCall,
  repeated: Repetition | undefined,
): Promise<Permission> {
  const decision = await decideByGuards(call, bound, repeated);
  if (call.signal.aborted || decision.type !== "ask") return permissionFor(call, bound, decision);
  // Never ask for approval of arguments that the model did not write.
  if (bound.unmended !== undefined) return bound.unmended;
  const { reason } = decision;
  const question = makeQuestion(call, "approval", reason, shownArguments(bound));
  call.agent.emit({ type: "question.asked", question }, call.position);
  return await ask(call, bound, deferralOf(call, bound, question));
}

async function ask(
  call: OpenCall,
  bound: OwnCall,
  deferral: QuestionDeferral,
): Promise<Permission> {
  const { question } = deferral;
  let edited: OwnCall | RejectedCall | undefined;
  call.agent.beginQuestion();
  const { unanswered } = call.agent.run.settings.approvals;
  const said = await askApprover(call, question, {
    problemWith: (answer) => {
      edited = editedCall(answer, bound);
      return problemWith(answer, question) ?? mismatchOf(edited);
    },
    otherwise: unanswered === "deny" ? "the call is denied" : "the question stays open",
  });
  if (call.signal.aborted) {
    recordAnswer(call, question, { answer: "denied", by: "end" });
    call.agent.endQuestion();
    return { type: "cancelled" };
  }
  const { answer, failure } = said;
  const isLate = isOverdue(question, call.agent.run.clock.nowMs());
  const mayWait = unanswered === "pause" || call.agent.run.pauseSignal.aborted;
  if (answer === undefined && !isLate && mayWait) {
    const reason = joinSentences([question.reason, ...(failure === undefined ? [] : [failure])]);
    return { type: "deferred", deferral: { ...deferral, question: { ...question, reason } } };
  }
  call.agent.endQuestion();
  return decided(call, bound, { deferral, ...(isLate ? {} : { ...said, edited }) });
}

/** Returns the call with the arguments of the answer. `undefined` if the answer has none. */
function editedCall(
  answer: Answer | undefined,
  { tool }: OwnCall,
): OwnCall | RejectedCall | undefined {
  const input = answer?.type === "approved" ? answer.arguments : undefined;
  return input === undefined ? undefined : rebindCall(tool, input);
}

function mismatchOf(edited: OwnCall | RejectedCall | undefined): string | undefined {
  if (edited?.type !== "rejected") return undefined;
  // Its first line and its last are for a model.
  const problems = edited.text.split("\n").slice(1, -1);
  return `its arguments do not fit: ${problems.map((line) => line.replace(/^- /u, "")).join("; ")}`;
}

interface Decided extends Said {
  readonly deferral: QuestionDeferral;
  /** The call with the arguments of the answer, if it was parsed already. */
  readonly edited?: OwnCall | RejectedCall | undefined;
}

/** What becomes of the call, now that nothing more is waited for. */
function decided(
  call: OpenCall,
  bound: OwnCall,
  { deferral, answer, failure, edited }: Decided,
): Permission | Promise<Permission> {
  const { question } = deferral;
  if (answer?.type === "approved") {
    const { arguments: changed } = answer;
    const by = decider(call);
    recordAnswer(call, question, { answer: "approved", by, ...defined({ arguments: changed }) });
    if (changed !== undefined)
      return changedCall(call, changed, edited ?? rebindCall(bound.tool, changed));
    const isSameProcess = call.deferral === undefined;
    const approved = approvedCall(bound, deferral, isSameProcess);
    if (typeof approved === "string") return refuseCall(bound.tool, "blocked", approved);
    if (approved.type === "rejected") return approved;
    return isSameProcess
      ? { type: "granted", bound: approved, isApproved: true }
      : permittedAgain(call, approved);
  }
  const { reason: given, by } = denial(call, { question, answer, failure });
  recordAnswer(call, question, { answer: "denied", by, reason: given });
  return refuseCall(bound.tool, "denied", withCause(given, question));
}

/** A denial with the reason for which the call was asked about: guards have theirs (C12). */
function withCause(reason: string, question: Question): string {
  if (question.reason === plainReason(question.toolName)) return reason;
  return joinSentences([reason, `It was asked about for this reason: ${question.reason}`]);
}

/** A call that was approved before the run was paused, or its process died: guards as they are now can deny it still (C50). */
export async function permittedAgain(call: OpenCall, bound: OwnCall): Promise<Permission> {
  return approvedUnless(call, bound, await decideAgain(call, bound));
}

function approvedUnless(call: OpenCall, bound: OwnCall, decision: Decision): Permission {
  const permission = permissionFor(call, bound, decision);
  return permission.type === "granted" ? { ...permission, isApproved: true } : permission;
}

/** What follows from a decision without a further question. */
function permissionFor(call: OpenCall, bound: OwnCall, decision: Decision): Permission {
  if (call.signal.aborted) return { type: "cancelled" };
  return decision.type === "rejected" ? decision : { type: "granted", bound };
}

/** A call whose arguments an answer changed: hooks and guards may still deny it, and it is checked again (C44). What was approved is what runs. */
async function changedCall(
  call: OpenCall,
  input: JsonValue,
  edited: OwnCall | RejectedCall,
): Promise<Permission> {
  if (edited.type === "rejected") return edited;
  const { toolName, callId } = call.call;
  const point = "beforeTool";
  try {
    const { patch, by } = await applyChain(call.agent, {
      point,
      stepNumber: call.stepNumber,
      position: call.position,
      input: { toolName, callId, arguments: input },
      toolName,
    });
    const { deny: reason } = patch;
    const denied = reason === undefined ? undefined : { by: by ?? point, reason };
    return approvedUnless(call, edited, await decideAgain(call, edited, denied));
  } catch (cause) {
    if (call.agent.signal.aborted) return { type: "cancelled" };
    return {
      ...refuseCall(edited.tool, "blocked", "A hook before it failed."),
      failure: errorRecord(cause),
    };
  }
}

/** Returns the refusal of a call that was asked about. */
export function refuseCall(
  tool: OwnCall["tool"],
  code: "blocked" | "denied",
  reason: string,
): RejectedCall {
  return { type: "rejected", tool, code, text: deniedText(tool.name, reason), reason };
}

function denial(
  call: OpenCall,
  { question, answer, failure }: Said & { readonly question: Question },
): { readonly reason: string; readonly by: Decider } {
  if (answer?.type === "denied") return { reason: answer.reason, by: decider(call) };
  if (failure !== undefined) return { reason: failure, by: "approver" };
  return unanswered(call, question, "There is nobody who could approve it.");
}

/** Why a question has no answer, and who decided so; `nobody`: the reason if there was no approver. */
function unanswered(
  { agent }: OpenCall,
  question: Question,
  nobody: string,
): { readonly reason: string; readonly by: Decider } {
  return isOverdue(question, agent.run.clock.nowMs())
    ? { reason: "Nobody answered in time.", by: "deadline" }
    : { reason: nobody, by: "nobody" };
}

/** Returns the call as it is stored while it waits for the answer. */
function deferralOf({ call }: OpenCall, bound: CheckedCall, question: Question): QuestionDeferral {
  const { callId } = call;
  const argumentsText = JSON.stringify(bound.input);
  const callHash = callHashOf(call);
  const record = parseRecordOf(bound);
  return { type: "question", callId, question, argumentsText, callHash, ...record };
}

/** A question that was deferred is answered by the caller that resumes the run. */
function decider({ deferral }: OpenCall): Decider {
  return deferral === undefined ? "approver" : "caller";
}

type ExternalCall = Extract<BoundCall, { readonly type: "external" }>;

/** The result of the call, or the question for it. What a guard wants asked is part of that one question (C12). */
export async function callExternally(call: OpenCall, bound: ExternalCall): Promise<CallEnd> {
  const { agent, position, deferral, answer } = call;
  if (deferral?.type === "question") {
    const { question } = deferral;
    if (answer === undefined && !isOverdue(question, agent.run.clock.nowMs()))
      return { type: "deferred", deferral };
    return await endWithAnswer(call, question, answer);
  }
  if (call.signal.aborted) return rejectUnbegun(call);
  const decision = await decideByGuards(call, bound);
  if (call.signal.aborted) return rejectUnbegun(call);
  if (decision.type === "rejected") return await recordEnd(call, rejectedOutcome(decision));
  const why = `${bound.tool.name} is executed elsewhere.`;
  const reason = decision.type === "ask" ? `${why} ${decision.reason}` : why;
  const question = makeQuestion(call, "external", reason, shownArguments(bound));
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
    return await recordEnd(call, { type: "succeeded", text }, recordBegin(call));
  }
  const before = `${question.toolName} failed: `;
  if (answer?.type === "failure") {
    const { message: words } = answer;
    recordAnswer(call, question, { answer: "failure", by: "caller", reason: words });
    return await recordEnd(call, failedSaying("tool_error", { before, words }), recordBegin(call));
  }
  const { reason, by } = unanswered(call, question, "There is nobody who could execute it.");
  recordAnswer(call, question, { answer: "failure", by, reason });
  return await recordEnd(call, failed("tool_error", `${before}${reason}`, { reason }));
}
