// Questions about calls: asked of the approver, answered by the caller that resumes a run, or left open, so that the run pauses.
// X17. An answer is about one exact call: it carries the fingerprint of tool and arguments, and is taken once.

import { z } from "zod";

import { isPromiseLike, linkedController, runBounded, valueInTime } from "../../kernel/cancel.ts";
import { sleep } from "../../kernel/clock.ts";
import { messageOf } from "../../kernel/error.ts";
import type { JsonValue } from "../../kernel/json.ts";
import { warnOnce } from "../../kernel/warn-once.ts";
import type { EventBody } from "../../protocol/event.ts";
import { questionIdOf } from "../../protocol/ids.ts";
import {
  AnswerSchema,
  argumentsHashOf,
  kindAnsweredBy,
  type Answer,
  type Question,
  type QuestionKind,
} from "../../protocol/question.ts";
import type { ErrorRecord } from "../../protocol/stop.ts";
import { deniedText, rebindCall, type BoundCall } from "../../tools/bind-call.ts";
import { resultText } from "../../tools/result-text.ts";
import type { CallEnd, EffectPlace, PlannedCall } from "../effects.ts";
import { errorRecord } from "../life-cycle.ts";
import { applyChain } from "./apply-chain.ts";
import type { LocalEffectsOptions } from "./local-options.ts";
import { SubtaskQueue, toolContext } from "./tool-context.ts";

type Bound<Type extends BoundCall["type"]> = Extract<BoundCall, { readonly type: Type }>;
type Deferred = Extract<CallEnd, { readonly type: "deferred" }>;

export type Permission =
  | { readonly type: "granted"; readonly bound: Bound<"function"> }
  | Refused
  | { readonly type: "cancelled" }
  | Deferred;

interface Refused {
  readonly type: "refused";
  readonly rejected: Bound<"rejected">;
  /** Set when a hook broke. */
  readonly failure?: ErrorRecord;
}

/** One call at its place. */
interface Asking {
  readonly place: EffectPlace;
  readonly planned: PlannedCall;
}

/** May this call run? Asks whoever can say so, where the tool wants it; never rejects. At once where nobody has to be asked. */
export function askForPermission(
  options: LocalEffectsOptions,
  place: EffectPlace,
  planned: PlannedCall,
  bound: Bound<"function">,
): Permission | Promise<Permission> {
  const asking = { place, planned };
  const { deferral, answer } = planned;
  if (deferral?.type !== "question") {
    return bound.use.needsApproval === false
      ? { type: "granted", bound }
      : askAnew(options, asking, bound);
  }
  const { question } = deferral;
  if (answer === undefined && !isOverdue(options, question)) return { type: "deferred", deferral };
  return decided(options, asking, bound, { question, answer });
}

async function askAnew(
  options: LocalEffectsOptions,
  asking: Asking,
  bound: Bound<"function">,
): Promise<Permission> {
  const reason = await approvalReason(options, asking, bound);
  if (reason === undefined) return { type: "granted", bound };
  if (typeof reason !== "string") return { type: "refused", rejected: reason };
  const question = questionAbout(options, asking, { kind: "approval", reason, input: bound.input });
  options.record({ type: "question.asked", question }, at(asking));
  return await ask(options, asking, bound, question);
}

/** Why the call needs an approval, as a text; undefined: it needs none. A check that throws refuses the call. */
async function approvalReason(
  options: LocalEffectsOptions,
  { place, planned }: Asking,
  bound: Bound<"function">,
): Promise<string | undefined | Bound<"rejected">> {
  const { toolName } = planned.call;
  const context = toolContext(options, place, planned, new SubtaskQueue());
  try {
    const { needsApproval } = bound.use;
    const given = typeof needsApproval === "function" ? needsApproval(context) : needsApproval;
    const wanted: unknown = isPromiseLike(given) ? await checked(options, given) : given;
    if (wanted === false) return undefined;
    if (wanted === true) return `${toolName} needs an approval.`;
    if (typeof wanted === "string" && wanted !== "") return wanted;
    throw new TypeError("it gave neither true, false nor a reason");
  } catch (cause) {
    const text = `Not executed: whether ${toolName} may run could not be decided (${messageOf(cause)}).`;
    return rejected("approval_check_failed", text);
  }
}

async function checked(
  options: LocalEffectsOptions,
  given: PromiseLike<unknown>,
): Promise<unknown> {
  const { signal, clock, graceMs, hookTimeoutMs: timeoutMs } = options;
  const rest = options.working();
  try {
    return await valueInTime(given, { signal, clock, graceMs, timeoutMs });
  } finally {
    rest();
  }
}

async function ask(
  options: LocalEffectsOptions,
  asking: Asking,
  bound: Bound<"function">,
  question: Question,
): Promise<Permission> {
  const settle = options.asking();
  const { approver, unanswered } = options.desk;
  const answer =
    approver === undefined ? undefined : await askApprover(options, question, asking, bound);
  if (options.startSignal.aborted) {
    recordAnswer(options, asking, question, { answer: "denied", by: "end" });
    settle();
    return { type: "cancelled" };
  }
  const isLate = isOverdue(options, question);
  const mayWait = unanswered === "pause" || options.pauseSignal.aborted;
  if (answer === undefined && !isLate && mayWait) return deferred(asking, question);
  settle();
  return decided(options, asking, bound, { question, answer: isLate ? undefined : answer });
}

/** The approver's answer; undefined if it gives none that can be used, or not in time. */
async function askApprover(
  options: LocalEffectsOptions,
  question: Question,
  { planned }: Asking,
  bound: Bound<"function">,
): Promise<Answer | undefined> {
  const { approver } = options.desk;
  if (approver === undefined) return undefined;
  const linked = linkedController(options.startSignal);
  const { controller } = linked;
  const { clock } = options;
  if (question.deadlineAtMs !== null) {
    const leftMs = question.deadlineAtMs - clock.nowMs();
    void sleep(clock, leftMs, controller.signal).then(() => controller.abort());
  }
  const { signal } = controller;
  const giveUp = (): void => controller.abort();
  if (options.pauseSignal.aborted) giveUp();
  else options.pauseSignal.addEventListener("abort", giveUp, { once: true });
  try {
    const bounded = await runBounded(() => approver(question, { signal }), {
      signal,
      clock,
      graceMs: 0,
    });
    if (bounded.type === "threw") throw bounded.error;
    if (bounded.type === "abandoned" || bounded.value === undefined) return undefined;
    const parsed = AnswerSchema.safeParse(bounded.value);
    if (!parsed.success) throw new TypeError(z.prettifyError(parsed.error));
    const answer = parsed.data;
    const problem = problemWith(answer, question) ?? misfit(answer, planned, bound);
    if (problem !== undefined) throw new TypeError(problem);
    return answer;
  } catch (cause) {
    warnOnce(
      approver,
      `The approver gave no answer that can be used for ${question.toolName} (${messageOf(cause)}); the question stays open.`,
    );
    return undefined;
  } finally {
    controller.abort();
    options.pauseSignal.removeEventListener("abort", giveUp);
    linked.unlink();
  }
}

/** What is wrong with an answer to this question; undefined: it fits. */
export function problemWith(answer: Answer, question: Question): string | undefined {
  if (answer.questionId !== question.questionId) return "it answers another question";
  if (answer.argumentsHash !== question.argumentsHash)
    return "it was given for other arguments than those of the call";
  if (kindAnsweredBy(answer.type) !== question.kind)
    return `a question of kind ${question.kind} cannot be answered with ${answer.type}`;
  return undefined;
}

function misfit(
  answer: Answer,
  { call }: PlannedCall,
  bound: Bound<"function">,
): string | undefined {
  if (answer.type !== "approved" || answer.arguments === undefined) return undefined;
  const again = rebindCall(bound.tool, call, answer.arguments);
  return again.type === "rejected" ? again.text : undefined;
}

/** What becomes of the call, now that nothing more is waited for. */
function decided(
  options: LocalEffectsOptions,
  asking: Asking,
  bound: Bound<"function">,
  { question, answer }: { readonly question: Question; readonly answer: Answer | undefined },
): Permission | Promise<Permission> {
  if (answer?.type === "approved") {
    const { arguments: changed } = answer;
    const by = decider(asking);
    const change = changed === undefined ? {} : { arguments: changed };
    recordAnswer(options, asking, question, { answer: "approved", by, ...change });
    return answer.arguments === undefined
      ? { type: "granted", bound }
      : changedCall(options, asking, bound, answer.arguments);
  }
  const { reason, by } = denial(options, asking, { question, answer });
  recordAnswer(options, asking, question, { answer: "denied", by, reason });
  const { toolName } = asking.planned.call;
  return { type: "refused", rejected: rejected("denied", deniedText(toolName, reason)) };
}

/** A call whose arguments an answer changed: the hooks before it may still deny it, and it is checked again (C44). What was approved is what runs. */
async function changedCall(
  options: LocalEffectsOptions,
  { place, planned }: Asking,
  bound: Bound<"function">,
  input: JsonValue,
): Promise<Permission> {
  const { call } = planned;
  const { toolName, callId } = call;
  const point = "beforeTool";
  const chain = options.hooks.chain(point, toolName);
  const asked = { toolName, callId, arguments: input };
  const at = { stepId: place.stepId, callId };
  try {
    const { patch, by } = await applyChain(options, { point, chain, input: asked, place, at });
    if (patch.deny !== undefined) return blocked(toolName, patch.deny, by);
    const again = rebindCall(bound.tool, call, input);
    return again.type === "function"
      ? { type: "granted", bound: again }
      : { type: "refused", rejected: again };
  } catch (cause) {
    if (options.signal.aborted) return { type: "cancelled" };
    return { ...blocked(toolName, "A hook before it failed."), failure: errorRecord(cause) };
  }
}

function blocked(toolName: string, reason: string, by?: string): Refused {
  const hook = by === undefined ? {} : { by };
  return {
    type: "refused",
    rejected: { ...rejected("blocked", deniedText(toolName, reason)), ...hook },
  };
}

type By = EventBody<"question.answered">["by"];

function denial(
  options: LocalEffectsOptions,
  asking: Asking,
  { question, answer }: { readonly question: Question; readonly answer: Answer | undefined },
): { readonly reason: string; readonly by: By } {
  if (answer?.type === "denied") return { reason: answer.reason, by: decider(asking) };
  if (isOverdue(options, question)) return { reason: "Nobody answered in time.", by: "deadline" };
  return { reason: "There is nobody who could approve it.", by: "nobody" };
}

/** The result of a call that is executed elsewhere, or the question for it. */
export function externalQuestion(
  options: LocalEffectsOptions,
  place: EffectPlace,
  planned: PlannedCall,
  bound: Bound<"external">,
): Deferred | { readonly type: "answered"; readonly outcome: ExternalOutcome } {
  const asking = { place, planned };
  const { deferral, answer } = planned;
  if (deferral?.type === "question") {
    const { question } = deferral;
    if (answer === undefined && !isOverdue(options, question))
      return { type: "deferred", deferral };
    return { type: "answered", outcome: externalOutcome(options, asking, question, answer) };
  }
  const reason = `${planned.call.toolName} is executed elsewhere.`;
  const question = questionAbout(options, asking, { kind: "external", reason, input: bound.input });
  options.record({ type: "question.asked", question }, at(asking));
  if (options.desk.unanswered === "deny")
    return { type: "answered", outcome: externalOutcome(options, asking, question, undefined) };
  options.asking();
  return deferred(asking, question);
}

export interface ExternalOutcome {
  readonly type: "succeeded" | "failed";
  readonly text: string;
  readonly errorCode?: string;
}

function externalOutcome(
  options: LocalEffectsOptions,
  asking: Asking,
  question: Question,
  answer: Answer | undefined,
): ExternalOutcome {
  const { toolName } = question;
  if (answer?.type === "result") {
    recordAnswer(options, asking, question, { answer: "result", by: "caller" });
    return { type: "succeeded", text: resultText(answer.result) };
  }
  const isLate = isOverdue(options, question);
  const reason =
    answer?.type === "failure"
      ? answer.message
      : isLate
        ? "Nobody answered in time."
        : "There is nobody who could execute it.";
  const by = answer?.type === "failure" ? "caller" : isLate ? "deadline" : "nobody";
  recordAnswer(options, asking, question, { answer: "failure", by, reason });
  return { type: "failed", text: `${toolName} failed: ${reason}`, errorCode: "tool_error" };
}

function questionAbout(
  options: LocalEffectsOptions,
  { place, planned }: Asking,
  about: {
    readonly kind: QuestionKind;
    readonly reason: string;
    readonly input: Question["arguments"];
  },
): Question {
  const { agentId, agentPath } = options.identity;
  const { toolName, callId } = planned.call;
  const askedAtMs = options.clock.nowMs();
  const { answerTimeoutMs } = options.desk;
  return {
    questionId: questionIdOf(place.stepId, planned.index),
    kind: about.kind,
    agentId,
    agentPath,
    callId,
    toolName,
    arguments: about.input,
    argumentsHash: argumentsHashOf(toolName, about.input),
    reason: about.reason,
    askedAtMs,
    deadlineAtMs: answerTimeoutMs === undefined ? null : askedAtMs + answerTimeoutMs,
  };
}

function recordAnswer(
  options: LocalEffectsOptions,
  asking: Asking,
  question: Question,
  said: Pick<EventBody<"question.answered">, "answer" | "by" | "reason" | "arguments">,
): void {
  const { questionId, toolName, askedAtMs } = question;
  const waitedMs = options.clock.nowMs() - askedAtMs;
  options.record(
    { type: "question.answered", questionId, toolName, ...said, waitedMs },
    at(asking),
  );
}

function deferred({ planned }: Asking, question: Question): Deferred {
  const { callId } = planned.call;
  const argumentsText = JSON.stringify(question.arguments);
  return { type: "deferred", deferral: { type: "question", callId, question, argumentsText } };
}

/** A question that was deferred is answered by whoever resumes the run. */
function decider({ planned }: Asking): By {
  return planned.deferral === undefined ? "approver" : "caller";
}

function isOverdue({ clock }: LocalEffectsOptions, { deadlineAtMs }: Question): boolean {
  return deadlineAtMs !== null && clock.nowMs() >= deadlineAtMs;
}

function rejected(code: Bound<"rejected">["code"], text: string): Bound<"rejected"> {
  return { type: "rejected", outcome: "refused", code, text };
}

function at({ place, planned }: Asking): {
  stepId: EffectPlace["stepId"];
  callId: PlannedCall["call"]["callId"];
} {
  return { stepId: place.stepId, callId: planned.call.callId };
}
