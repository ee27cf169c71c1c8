// Questions about calls. The approver answers them, the caller answers them when it resumes the
// run, or they stay open and the run pauses. An answer is about one exact call: it contains the
// hash of tool and arguments, and is used once.

import { joinSentences } from "../../kernel/sentence.ts";
import { omitUndefined, type JsonValue } from "../../kernel/json.ts";
import { computeCallHash, isOverdue, type Answer, type Question } from "../../protocol/question.ts";
import { rebindCall, type OwnCall, type BoundCall } from "../../tools/bind-call.ts";
import { describeDenial, type RejectedCall } from "../../tools/rejected-call.ts";
import type { QuestionDeferral } from "../agent-state.ts";
import { serializeError } from "../serialize-error.ts";
import { applyChain } from "../run-user-code.ts";
import {
  askApprover,
  findAnswerProblem,
  createQuestion,
  recordAnswer,
  type AnswerSource,
  type ApproverReply,
} from "./ask-approver.ts";
import {
  decideByGuards,
  decideAgain,
  describeApprovalNeed,
  type Decision,
  type Repetition,
} from "./call-decision.ts";
import type { CallInProgress } from "./open-call.ts";
import {
  failCall,
  createFailedOutcome,
  createRejectedOutcome,
  type Permission,
} from "./call-outcome.ts";
import {
  restoreApprovedCall,
  parseRecordOf,
  pickShownArguments,
  type CheckedCall,
} from "./parsed-call.ts";
import { formatToolResult } from "../../tools/result-text.ts";
import type { CallEnd } from "../effect-outcomes.ts";
import { settleUnstartedCall } from "./cancelled-calls.ts";
import { recordBegin, recordEnd } from "./record-calls.ts";

/**
 * Returns the permission of a call whose question was open when the run was paused. Without an
 * answer the approver is asked, once for each resumption.
 */
export function resumeQuestion(
  call: CallInProgress,
  bound: OwnCall,
  deferral: QuestionDeferral,
): Permission | Promise<Permission> {
  const { answer, agent } = call;
  const { clock, pendingAnswers, settings } = agent.run;
  const { question } = deferral;
  if (answer !== undefined || isOverdue(question, clock.nowMs()))
    return decideQuestion(call, bound, deferral, { answer, source: "caller" });
  const { approver } = settings.approvals;
  if (approver === undefined || pendingAnswers.wasAsked(question.questionId))
    return { type: "deferred", deferral };
  return decideByApprover(call, bound, deferral);
}

/**
 * Returns the permission of a call after guards have decided. Asks the approver if a guard or the
 * tool requires it.
 */
export async function decideOrAskApprover(
  call: CallInProgress,
  bound: OwnCall,
  repeated: Repetition | undefined,
): Promise<Permission> {
  const decision = await decideByGuards(call, bound, repeated);
  if (call.signal.aborted || decision.type !== "ask")
    return createPermission(call, bound, decision);
  // Repaired arguments are never put to an approver, because the model did not write them.
  if (bound.unrepaired !== undefined) return bound.unrepaired;
  const question = createQuestion(call, "approval", decision.reason, pickShownArguments(bound));
  // Created before the approver is asked, because it may change the value.
  return await decideByApprover(call, bound, createQuestionDeferral(call, bound, question));
}

/** Returns the permission that follows from the approver's answer, or from its absence. */
async function decideByApprover(
  call: CallInProgress,
  bound: OwnCall,
  deferral: QuestionDeferral,
): Promise<Permission> {
  const { agent } = call;
  const { question } = deferral;
  const { clock, settings, pauseSignal } = agent.run;
  const { unansweredPolicy } = settings.approvals;
  agent.recordWithinCall({ type: "question.asked", ...question }, call.position);
  agent.holdClock();
  let edited: OwnCall | RejectedCall | undefined;
  const reply = await askApprover(call, question, {
    findProblem: (answer) => {
      const input = answer.type === "approved" ? answer.arguments : undefined;
      edited = input === undefined ? undefined : rebindCall(bound.tool, input);
      return findAnswerProblem(answer, question) ?? describeMismatch(edited);
    },
    otherwise: unansweredPolicy === "deny" ? "the call is denied" : "the question stays open",
  });
  if (call.signal.aborted) {
    recordAnswer(call, question, { answer: "denied", source: "end" });
    agent.releaseClock();
    return { type: "cancelled" };
  }
  const { answer, failure } = reply;
  const isLate = isOverdue(question, clock.nowMs());
  if (answer === undefined && !isLate && (unansweredPolicy === "pause" || pauseSignal.aborted)) {
    const isNew = failure !== undefined && !question.reason.includes(failure);
    const reason = isNew ? joinSentences([question.reason, failure]) : question.reason;
    return { type: "deferred", deferral: { ...deferral, question: { ...question, reason } } };
  }
  agent.releaseClock();
  const source = "approver";
  return decideQuestion(call, bound, deferral, isLate ? { source } : { ...reply, edited, source });
}

function describeMismatch(edited: OwnCall | RejectedCall | undefined): string | undefined {
  if (edited?.type !== "rejected") return undefined;
  // The first and the last line are written for the model.
  const problems = edited.text.split("\n").slice(1, -1);
  return `its arguments do not fit: ${problems.map((line) => line.replace(/^- /u, "")).join("; ")}`;
}

/**
 * Decides a question that nothing waits for any longer. `edited` is the call with the arguments of
 * the answer, if they are already parsed.
 */
function decideQuestion(
  call: CallInProgress,
  bound: OwnCall,
  deferral: QuestionDeferral,
  reply: ApproverReply & {
    readonly source: AnswerSource;
    readonly edited?: OwnCall | RejectedCall | undefined;
  },
): Permission | Promise<Permission> {
  const { question } = deferral;
  const { answer, edited, source: from } = reply;
  const by = answer?.by;
  const isSameProcess = call.deferral === undefined;
  if (answer?.type === "approved") {
    const { arguments: changed } = answer;
    const more = omitUndefined({ by, arguments: changed });
    recordAnswer(call, question, { answer: "approved", source: from, ...more });
    if (changed !== undefined)
      return confirmEditedCall(call, changed, edited ?? rebindCall(bound.tool, changed));
    const approved = restoreApprovedCall(bound, deferral, isSameProcess);
    if (typeof approved === "string") return refuseCall(bound.tool, "blocked", approved);
    if (approved.type === "rejected") return approved;
    return isSameProcess
      ? { type: "granted", bound: approved, isApproved: true }
      : confirmPermission(call, approved);
  }
  const { reason, source } = explainDenial(call, question, reply);
  recordAnswer(call, question, { answer: "denied", source, ...omitUndefined({ by }), reason });
  // A denial contains the reason for the question, because guards gave reasons of their own.
  const isPlain = question.reason === describeApprovalNeed(question.toolName);
  const cause = `Approval was required for this reason: ${question.reason}`;
  return refuseCall(bound.tool, "denied", isPlain ? reason : joinSentences([reason, cause]));
}

/** Returns why a call is denied, and the source of the decision. */
function explainDenial(
  call: CallInProgress,
  question: Question,
  { answer, failure, source }: ApproverReply & { readonly source: AnswerSource },
): { readonly reason: string; readonly source: AnswerSource } {
  if (answer?.type === "denied") return { reason: answer.reason, source };
  if (failure !== undefined) return { reason: failure, source: "approver" };
  const { approver } = call.agent.run.settings.approvals;
  const nobody =
    approver === undefined
      ? "No approver is configured for this run."
      : "The approver returned no answer.";
  return explainNoAnswer(call, question, nobody);
}

/**
 * Returns the permission of a call that was approved before a pause or a crash. Current guards can
 * still deny it.
 */
export async function confirmPermission(
  call: CallInProgress,
  bound: OwnCall,
  denied?: CallInProgress["denial"],
): Promise<Permission> {
  const permission = createPermission(call, bound, await decideAgain(call, bound, denied));
  return permission.type === "granted" ? { ...permission, isApproved: true } : permission;
}

/** Returns the permission that follows from a decision without a further question. */
function createPermission(call: CallInProgress, bound: OwnCall, decision: Decision): Permission {
  if (call.signal.aborted) return { type: "cancelled" };
  return decision.type === "rejected" ? decision : { type: "granted", bound };
}

/**
 * Returns the permission of a call whose arguments were changed by an answer. Hooks and guards may
 * still deny it, and it is validated again. The approved arguments are the ones that run.
 */
async function confirmEditedCall(
  call: CallInProgress,
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
    return await confirmPermission(call, edited, denied);
  } catch (cause) {
    if (call.agent.cancelSignal.aborted) return { type: "cancelled" };
    return {
      ...refuseCall(edited.tool, "blocked", "A hook before the call failed."),
      failure: serializeError(cause),
    };
  }
}

/** Returns the refusal of a call with a question. */
export function refuseCall(
  tool: OwnCall["tool"],
  code: "blocked" | "denied",
  reason: string,
): RejectedCall {
  return { type: "rejected", tool, code, text: describeDenial(tool.name, reason), reason };
}

/**
 * Returns the reason why a question has no answer, and the source of that decision. `nobody` is the
 * reason if its deadline has not passed.
 */
function explainNoAnswer(
  { agent }: CallInProgress,
  question: Question,
  nobody: string,
): { readonly reason: string; readonly source: AnswerSource } {
  return isOverdue(question, agent.run.clock.nowMs())
    ? { reason: "Nobody answered in time.", source: "deadline" }
    : { reason: nobody, source: "nobody" };
}

/** Returns the stored form of a call that waits for an answer. */
function createQuestionDeferral(
  { call }: CallInProgress,
  bound: CheckedCall,
  question: Question,
): QuestionDeferral {
  const { callId } = call;
  const argumentsText = JSON.stringify(bound.input);
  const callHash = computeCallHash(call);
  const record = parseRecordOf(bound);
  return { type: "question", callId, question, argumentsText, callHash, ...record };
}

type ExternalCall = Extract<BoundCall, { readonly type: "external" }>;

/**
 * Returns the result of an external call, or asks for it. If a guard wants to ask too, its reason
 * becomes part of the same question.
 */
export async function callExternally(call: CallInProgress, bound: ExternalCall): Promise<CallEnd> {
  const { agent, position, deferral, answer } = call;
  if (deferral?.type === "question") {
    const { question } = deferral;
    if (answer === undefined && !isOverdue(question, agent.run.clock.nowMs()))
      return { type: "deferred", deferral };
    return await endWithAnswer(call, question, answer);
  }
  if (call.signal.aborted) return settleUnstartedCall(call);
  const decision = await decideByGuards(call, bound);
  if (call.signal.aborted) return settleUnstartedCall(call);
  if (decision.type === "rejected") return await recordEnd(call, createRejectedOutcome(decision));
  const why = `${bound.tool.name} is executed elsewhere.`;
  const reason = decision.type === "ask" ? `${why} ${decision.reason}` : why;
  const question = createQuestion(call, "external", reason, pickShownArguments(bound));
  agent.recordWithinCall({ type: "question.asked", ...question }, position);
  if (agent.run.settings.approvals.unansweredPolicy === "deny")
    return await endWithAnswer(call, question, undefined);
  agent.holdClock();
  return { type: "deferred", deferral: createQuestionDeferral(call, bound, question) };
}

/** Ends the call with the answer. Without an answer it fails. Its body never runs. */
async function endWithAnswer(
  call: CallInProgress,
  question: Question,
  answer: Answer | undefined,
): Promise<CallEnd> {
  const given = { source: "caller", ...omitUndefined({ by: answer?.by }) } as const;
  if (answer?.type === "result") {
    recordAnswer(call, question, { answer: "result", ...given });
    const text = formatToolResult(answer.result);
    return await recordEnd(call, { type: "succeeded", text }, recordBegin(call));
  }
  const before = `${question.toolName} failed: `;
  if (answer?.type === "failure") {
    const { message: words } = answer;
    recordAnswer(call, question, { answer: "failure", ...given, reason: words });
    const failed = createFailedOutcome("tool_error", { before, words });
    return await recordEnd(call, failed, recordBegin(call));
  }
  const nobody = "It is executed elsewhere, and this run does not wait for its result.";
  const { reason, source } = explainNoAnswer(call, question, nobody);
  recordAnswer(call, question, { answer: "failure", source, reason });
  return await recordEnd(call, failCall("tool_error", `${before}${reason}`, { reason }));
}
