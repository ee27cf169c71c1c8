// Questions about calls: asked of the approver, answered by the caller that resumes a run, or left open, so that the run pauses.
// X17. An answer is about one exact call: it carries the fingerprint of tool and arguments, and is taken once.

import { linkedController, runBounded } from "../../kernel/cancel.ts";
import { sleep } from "../../kernel/clock.ts";
import { messageOf } from "../../kernel/error.ts";
import { joinSentences } from "../../kernel/sentence.ts";
import type { JsonValue } from "../../kernel/json.ts";
import { warnOnce } from "../../kernel/warn-once.ts";
import type { EventBody } from "../../protocol/event.ts";
import { questionIdOf } from "../../protocol/ids.ts";
import {
  AnswerSchema,
  argumentsHashOf,
  callHashOf,
  kindAnsweredBy,
  type Answer,
  type Question,
  type QuestionKind,
} from "../../protocol/question.ts";
import type { ErrorRecord } from "../../protocol/stop.ts";
import { rebindCall, type OwnCall } from "../../tools/bind-call.ts";
import { deniedText, type RejectedCall } from "../../tools/rejected-call.ts";
import { redactSecrets } from "../../tools/redact-secrets.ts";
import type { Approver } from "../approver.ts";
import type { CallEnd, EffectPlace, PlannedCall } from "../effects.ts";
import { errorRecord } from "../error-record.ts";
import { applyChain } from "./apply-chain.ts";
import { judge, judgeAgain, plainReason } from "./guards.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import type { PlacedCall } from "./call-context.ts";
import { askedArguments } from "./used-arguments.ts";

export type Deferred = Extract<CallEnd, { readonly type: "deferred" }>;

export type Permission =
  | { readonly type: "granted"; readonly bound: OwnCall }
  | Refused
  | { readonly type: "cancelled" }
  | Deferred;

export interface Refused {
  readonly type: "refused";
  readonly rejected: RejectedCall;
  /** Set when a hook broke. */
  readonly failure?: ErrorRecord;
}

/** May this call run? Asks whoever can say so; never rejects. At once where nobody has to be asked. */
export function askForPermission(
  agent: AgentRuntime,
  call: PlacedCall,
  bound: OwnCall,
): Permission | Promise<Permission> {
  const { deferral, answer } = call.planned;
  if (deferral?.type === "question") {
    const { question } = deferral;
    if (answer === undefined && !isOverdue(agent, question)) return { type: "deferred", deferral };
    return decided(agent, call, bound, { question, answer });
  }
  if (call.signal.aborted) return { type: "cancelled" };
  const verdict = judge(agent, call, bound);
  if (verdict instanceof Promise) return judged(agent, call, bound, verdict);
  return verdict.type === "allow"
    ? { type: "granted", bound }
    : judged(agent, call, bound, Promise.resolve(verdict));
}

async function judged(
  agent: AgentRuntime,
  call: PlacedCall,
  bound: OwnCall,
  asked: ReturnType<typeof judgeAgain>,
): Promise<Permission> {
  const verdict = await asked;
  if (call.signal.aborted) return { type: "cancelled" };
  if (verdict.type === "allow") return { type: "granted", bound };
  if (verdict.type === "deny") return { type: "refused", rejected: verdict.rejected };
  const { reason } = verdict;
  const question = questionAbout(agent, call, {
    kind: "approval",
    reason,
    input: askedArguments(bound),
  });
  agent.emit({ type: "question.asked", question }, at(call));
  return await ask(agent, call, bound, question);
}

async function ask(
  agent: AgentRuntime,
  call: PlacedCall,
  bound: OwnCall,
  question: Question,
): Promise<Permission> {
  const settle = agent.time.asking();
  const { approver, unanswered } = agent.run.settings.approvals;
  const said =
    approver === undefined ? {} : await askApprover(agent, call, approver, { question, bound });
  if (call.signal.aborted) {
    recordAnswer(agent, call, question, { answer: "denied", by: "end" });
    settle();
    return { type: "cancelled" };
  }
  const { answer, failure } = said;
  const isLate = isOverdue(agent, question);
  const mayWait = unanswered === "pause" || agent.run.pauseSignal.aborted;
  if (answer === undefined && !isLate && mayWait) {
    const reason = joinSentences([question.reason, ...(failure === undefined ? [] : [failure])]);
    return deferred(call, { ...question, reason });
  }
  settle();
  return decided(agent, call, bound, { question, ...(isLate ? {} : said) });
}

/** What came of a question; neither: no answer was given, or not in time. */
interface Said {
  readonly answer?: Answer | undefined;
  /** What went wrong when the approver was asked. */
  readonly failure?: string | undefined;
}

async function askApprover(
  agent: AgentRuntime,
  call: PlacedCall,
  approver: Approver,
  { question, bound }: { readonly question: Question; readonly bound: OwnCall },
): Promise<Said> {
  const linked = linkedController(call.signal);
  const { controller } = linked;
  const { clock } = agent.run;
  if (question.deadlineAtMs !== null) {
    const leftMs = question.deadlineAtMs - clock.nowMs();
    void sleep(clock, leftMs, controller.signal).then(() => controller.abort());
  }
  const { signal } = controller;
  const giveUp = (): void => controller.abort();
  if (agent.run.pauseSignal.aborted) giveUp();
  else agent.run.pauseSignal.addEventListener("abort", giveUp, { once: true });
  try {
    const bounded = await runBounded(() => approver(question, { signal }), {
      signal,
      clock,
      graceMs: 0,
    });
    if (bounded.type === "threw") throw bounded.error;
    if (bounded.type === "abandoned" || bounded.value === undefined) return {};
    const parsed = AnswerSchema.safeParse(bounded.value);
    if (!parsed.success) {
      const issues = parsed.error.issues.map(({ path, message }) =>
        path.length === 0 ? message : `${path.join(".")}: ${message}`,
      );
      throw new TypeError(issues.join("; "));
    }
    const answer = parsed.data;
    const problem = problemWith(answer, question) ?? misfit(answer, bound);
    if (problem !== undefined) throw new TypeError(problem);
    return { answer };
  } catch (cause) {
    const what = redactSecrets(messageOf(cause));
    warnOnce(
      approver,
      `The approver gave no answer that can be used for ${question.toolName} (${what}); ${agent.run.settings.approvals.unanswered === "deny" ? "the call is denied" : "the question stays open"}.`,
    );
    return { failure: `The approver gave no answer that can be used (${what}).` };
  } finally {
    controller.abort();
    agent.run.pauseSignal.removeEventListener("abort", giveUp);
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

function misfit(answer: Answer, { tool }: OwnCall): string | undefined {
  if (answer.type !== "approved" || answer.arguments === undefined) return undefined;
  const again = rebindCall(tool, answer.arguments);
  if (again.type !== "rejected") return undefined;
  // Its first line and its last are for a model.
  const problems = again.text.split("\n").slice(1, -1);
  return `its arguments do not fit: ${problems.map((line) => line.replace(/^- /u, "")).join("; ")}`;
}

/** What becomes of the call, now that nothing more is waited for. */
function decided(
  agent: AgentRuntime,
  call: PlacedCall,
  bound: OwnCall,
  { question, answer, failure }: Said & { readonly question: Question },
): Permission | Promise<Permission> {
  if (answer?.type === "approved") {
    const { arguments: changed } = answer;
    const by = decider(call);
    const change = changed === undefined ? {} : { arguments: changed };
    recordAnswer(agent, call, question, { answer: "approved", by, ...change });
    if (changed !== undefined) return changedCall(agent, call, bound, changed);
    if (call.planned.deferral === undefined) return { type: "granted", bound };
    return isAsShown(bound, question)
      ? permittedAgain(agent, call, bound)
      : blocked(bound.tool, "It is not the call any more that was approved: its schema changed.");
  }
  const { reason: given, by } = denial(agent, call, { question, answer, failure });
  recordAnswer(agent, call, question, { answer: "denied", by, reason: given });
  const reason = withCause(given, question);
  const text = deniedText(question.toolName, reason);
  return {
    type: "refused",
    rejected: { type: "rejected", tool: bound.tool, code: "denied", text, reason },
  };
}

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
export async function permittedAgain(
  agent: AgentRuntime,
  call: PlacedCall,
  bound: OwnCall,
): Promise<Permission> {
  const verdict = await judgeAgain(agent, call, bound);
  if (call.signal.aborted) return { type: "cancelled" };
  return verdict.type === "deny"
    ? { type: "refused", rejected: verdict.rejected }
    : { type: "granted", bound };
}

/** A call whose arguments an answer changed: hooks and guards may still deny it, and it is checked again (C44). What was approved is what runs. */
async function changedCall(
  agent: AgentRuntime,
  call: PlacedCall,
  { tool }: OwnCall,
  input: JsonValue,
): Promise<Permission> {
  const { place, planned } = call;
  const { toolName, callId } = planned.call;
  const point = "beforeTool";
  const chain = agent.hooks.chain(point, toolName);
  const asked = { toolName, callId, arguments: input };
  try {
    const { patch, by } = await applyChain(agent, {
      point,
      chain,
      input: asked,
      place,
      at: at(call),
    });
    const again = rebindCall(tool, input);
    if (again.type === "rejected") return { type: "refused", rejected: again };
    const { deny: reason } = patch;
    const denied = reason === undefined ? undefined : { by: by ?? point, reason };
    const verdict = await judgeAgain(agent, call, again, denied);
    if (call.signal.aborted) return { type: "cancelled" };
    return verdict.type === "deny"
      ? { type: "refused", rejected: verdict.rejected }
      : { type: "granted", bound: again };
  } catch (cause) {
    if (agent.signal.aborted) return { type: "cancelled" };
    return { ...blocked(tool, "A hook before it failed."), failure: errorRecord(cause) };
  }
}

function blocked(tool: OwnCall["tool"], reason: string): Refused {
  const text = deniedText(tool.name, reason);
  return { type: "refused", rejected: { type: "rejected", tool, code: "blocked", text, reason } };
}

type By = EventBody<"question.answered">["by"];

function denial(
  agent: AgentRuntime,
  call: PlacedCall,
  { question, answer, failure }: Said & { readonly question: Question },
): { readonly reason: string; readonly by: By } {
  if (answer?.type === "denied") return { reason: answer.reason, by: decider(call) };
  if (failure !== undefined) return { reason: failure, by: "approver" };
  if (isOverdue(agent, question)) return { reason: "Nobody answered in time.", by: "deadline" };
  return { reason: "There is nobody who could approve it.", by: "nobody" };
}

/** A question about a call, under an id that its place gives. */
export function questionAbout(
  agent: AgentRuntime,
  { place, planned }: PlacedCall,
  about: {
    readonly kind: QuestionKind;
    readonly reason: string;
    readonly input: Question["arguments"];
  },
): Question {
  const { agentId, agentPath } = agent.identity;
  const { toolName, callId } = planned.call;
  const askedAtMs = agent.nowMs();
  const { answerTimeoutMs } = agent.run.settings.approvals;
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

/** Says what was answered, and by whom. */
export function recordAnswer(
  agent: AgentRuntime,
  call: PlacedCall,
  question: Question,
  said: Pick<EventBody<"question.answered">, "answer" | "by" | "reason" | "arguments">,
): void {
  const { questionId, toolName, askedAtMs } = question;
  const waitedMs = agent.nowMs() - askedAtMs;
  agent.emit({ type: "question.answered", questionId, toolName, ...said, waitedMs }, at(call));
}

/** The call waits for the answer. */
export function deferred({ planned }: PlacedCall, question: Question): Deferred {
  const { callId } = planned.call;
  const argumentsText = JSON.stringify(question.arguments);
  const callHash = callHashOf(planned.call);
  return {
    type: "deferred",
    deferral: { type: "question", callId, question, argumentsText, callHash },
  };
}

/** A question that was deferred is answered by whoever resumes the run. */
function decider({ planned }: PlacedCall): By {
  return planned.deferral === undefined ? "approver" : "caller";
}

/** True once the answer would come too late. */
export function isOverdue(agent: AgentRuntime, { deadlineAtMs }: Question): boolean {
  return deadlineAtMs !== null && agent.nowMs() >= deadlineAtMs;
}

function at({ place, planned }: PlacedCall): {
  readonly stepId: EffectPlace["stepId"];
  readonly callId: PlannedCall["call"]["callId"];
} {
  return { stepId: place.stepId, callId: planned.call.callId };
}
