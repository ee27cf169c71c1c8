// Questions about calls: asked of the approver, answered by the caller that resumes a run, or left open, so that the run pauses.
// X17. An answer is about one exact call: it carries the fingerprint of tool and arguments, and is taken once.

import { joinSentences } from "../../kernel/sentence.ts";
import { defined, type JsonValue } from "../../kernel/json.ts";
import type { EventBody } from "../../protocol/event.ts";
import {
  argumentsHashOf,
  callHashOf,
  type Answer,
  type Question,
} from "../../protocol/question.ts";
import { rebindCall, type OwnCall } from "../../tools/bind-call.ts";
import { deniedText } from "../../tools/rejected-call.ts";
import type { PlannedCall } from "../effects.ts";
import { errorRecord } from "../error-record.ts";
import { applyChain } from "../consult.ts";
import {
  askApprover,
  isOverdue,
  problemWith,
  questionAbout,
  recordAnswer,
  type Said,
} from "./ask-approver.ts";
import {
  decideByGuards,
  decideAgain,
  plainReason,
  type Decision,
  type Repetition,
} from "./guards.ts";
import type { OpenCall } from "./open-call.ts";
import type { Deferred, Permission, Refused } from "./call-outcome.ts";
import { askedArguments } from "./call-arguments.ts";

/** A call about which a question was open when the run was paused. */
export function answered(
  call: OpenCall,
  bound: OwnCall,
  deferral: Extract<PlannedCall["deferral"], { readonly type: "question" }>,
): Permission | Promise<Permission> {
  const { answer } = call.planned;
  const { question } = deferral;
  if (answer === undefined && !isOverdue(call.agent, question))
    return { type: "deferred", deferral };
  return decided(call, bound, { question, answer });
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
  if (bound.unmended !== undefined) return { type: "refused", rejected: bound.unmended };
  const { reason } = decision;
  const question = questionAbout(call, "approval", reason, askedArguments(bound));
  call.agent.emit({ type: "question.asked", question }, call.position);
  return await ask(call, bound, question);
}

async function ask(call: OpenCall, bound: OwnCall, question: Question): Promise<Permission> {
  const { time } = call.agent;
  time.beginQuestion();
  const { unanswered } = call.agent.run.settings.approvals;
  const said = await askApprover(call, question, {
    problemWith: (answer) => problemWith(answer, question) ?? mismatchOf(answer, bound),
    otherwise: unanswered === "deny" ? "the call is denied" : "the question stays open",
  });
  if (call.signal.aborted) {
    recordAnswer(call, question, { answer: "denied", by: "end" });
    time.endQuestion();
    return { type: "cancelled" };
  }
  const { answer, failure } = said;
  const isLate = isOverdue(call.agent, question);
  const mayWait = unanswered === "pause" || call.agent.run.pauseSignal.aborted;
  if (answer === undefined && !isLate && mayWait) {
    const reason = joinSentences([question.reason, ...(failure === undefined ? [] : [failure])]);
    return deferred(call, { ...question, reason });
  }
  time.endQuestion();
  return decided(call, bound, { question, ...(isLate ? {} : said) });
}

function mismatchOf(answer: Answer, { tool }: OwnCall): string | undefined {
  if (answer.type !== "approved" || answer.arguments === undefined) return undefined;
  const again = rebindCall(tool, answer.arguments);
  if (again.type !== "rejected") return undefined;
  // Its first line and its last are for a model.
  const problems = again.text.split("\n").slice(1, -1);
  return `its arguments do not fit: ${problems.map((line) => line.replace(/^- /u, "")).join("; ")}`;
}

/** What becomes of the call, now that nothing more is waited for. */
function decided(
  call: OpenCall,
  bound: OwnCall,
  { question, answer, failure }: Said & { readonly question: Question },
): Permission | Promise<Permission> {
  if (answer?.type === "approved") {
    const { arguments: changed } = answer;
    const by = decider(call);
    recordAnswer(call, question, { answer: "approved", by, ...defined({ arguments: changed }) });
    if (changed !== undefined) return changedCall(call, bound, changed);
    if (call.planned.deferral === undefined) return { type: "granted", bound };
    return isAsShown(bound, question)
      ? permittedAgain(call, bound)
      : refused(bound.tool, "blocked", CHANGED_SCHEMA);
  }
  const { reason: given, by } = denial(call, { question, answer, failure });
  recordAnswer(call, question, { answer: "denied", by, reason: given });
  return refused(bound.tool, "denied", withCause(given, question));
}

const CHANGED_SCHEMA = "It is not the call any more that was approved: its schema changed.";

/** A denial with the reason for which the call was asked about: guards have theirs (C12). */
function withCause(reason: string, question: Question): string {
  if (question.reason === plainReason(question.toolName)) return reason;
  return joinSentences([reason, `It was asked about for this reason: ${question.reason}`]);
}

/** True if the call would run with the arguments that were shown with the question: an answer is about these alone (X17). */
function isAsShown(bound: OwnCall, { argumentsHash }: Question): boolean {
  return argumentsHashOf(bound.tool.name, askedArguments(bound)) === argumentsHash;
}

/** A call that was approved before the run was paused, or its process died: guards as they are now can deny it still (C50). */
export async function permittedAgain(call: OpenCall, bound: OwnCall): Promise<Permission> {
  return permissionFor(call, bound, await decideAgain(call, bound));
}

/** What follows from a decision without a further question. */
function permissionFor(call: OpenCall, bound: OwnCall, decision: Decision): Permission {
  if (call.signal.aborted) return { type: "cancelled" };
  return decision.type === "deny"
    ? { type: "refused", rejected: decision.rejected }
    : { type: "granted", bound };
}

/** A call whose arguments an answer changed: hooks and guards may still deny it, and it is checked again (C44). What was approved is what runs. */
async function changedCall(
  call: OpenCall,
  { tool }: OwnCall,
  input: JsonValue,
): Promise<Permission> {
  const { toolName, callId } = call.planned.call;
  const point = "beforeTool";
  try {
    const { patch, by } = await applyChain(call.agent, {
      point,
      stepNumber: call.effectPosition.stepNumber,
      position: call.position,
      input: { toolName, callId, arguments: input },
      toolName,
    });
    const again = rebindCall(tool, input);
    if (again.type === "rejected") return { type: "refused", rejected: again };
    const { deny: reason } = patch;
    const denied = reason === undefined ? undefined : { by: by ?? point, reason };
    return permissionFor(call, again, await decideAgain(call, again, denied));
  } catch (cause) {
    if (call.agent.signal.aborted) return { type: "cancelled" };
    return { ...refused(tool, "blocked", "A hook before it failed."), failure: errorRecord(cause) };
  }
}

function refused(tool: OwnCall["tool"], code: "blocked" | "denied", reason: string): Refused {
  const text = deniedText(tool.name, reason);
  return { type: "refused", rejected: { type: "rejected", tool, code, text, reason } };
}

type By = EventBody<"question.answered">["by"];

function denial(
  call: OpenCall,
  { question, answer, failure }: Said & { readonly question: Question },
): { readonly reason: string; readonly by: By } {
  if (answer?.type === "denied") return { reason: answer.reason, by: decider(call) };
  if (failure !== undefined) return { reason: failure, by: "approver" };
  return unanswered(call, question, "There is nobody who could approve it.");
}

/** Why a question has no answer, and who decided so; `nobody`: the reason if there was no approver. */
export function unanswered(
  { agent }: OpenCall,
  question: Question,
  nobody: string,
): { readonly reason: string; readonly by: By } {
  return isOverdue(agent, question)
    ? { reason: "Nobody answered in time.", by: "deadline" }
    : { reason: nobody, by: "nobody" };
}

/** The call waits for the answer. */
export function deferred({ planned }: OpenCall, question: Question): Deferred {
  const { callId } = planned.call;
  const argumentsText = JSON.stringify(question.arguments);
  const callHash = callHashOf(planned.call);
  return {
    type: "deferred",
    deferral: { type: "question", callId, question, argumentsText, callHash },
  };
}

/** A question that was deferred is answered by the caller that resumes the run. */
function decider({ planned }: OpenCall): By {
  return planned.deferral === undefined ? "approver" : "caller";
}
