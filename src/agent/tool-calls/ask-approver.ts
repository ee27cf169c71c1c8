// Asks the approver: whether a call may run, and questions of running tools.

import {
  invoke,
  createLinkedController,
  runBounded,
  sleep,
  type CancelSignal,
} from "../../kernel/cancel-signal.ts";
import { getErrorMessage } from "../../kernel/error.ts";
import { deepFreeze } from "../../kernel/json.ts";
import { warnOnce } from "../../kernel/warn-once.ts";
import type { EventBody } from "../../protocol/event.ts";
import { createQuestionId } from "../../protocol/ids.ts";
import {
  AnswerSchema,
  computeArgumentsHash,
  getAnsweredKind,
  type Answer,
  type Question,
} from "../../protocol/question.ts";
import { redactSecrets } from "../../tools/redact-secrets.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import type { CallInProgress } from "./open-call.ts";

/** Source of the decision about a question. */
export type AnswerSource = EventBody<"question.answered">["source"];

/** The answer of an approver. Neither field is set if there was no answer, or not in time. */
export interface ApproverReply {
  readonly answer?: Answer | undefined;
  /** The reason for which the approver gave no usable answer. */
  readonly failure?: string | undefined;
}

/**
 * Asks the approver, if there is one, until the answer is not needed any more: the call has to end,
 * its deadline passes, or the run was asked to pause.
 */
export async function askApprover(
  { agent, signal: ending }: { readonly agent: AgentRuntime; readonly signal: CancelSignal },
  question: Question,
  checks: {
    readonly findProblem: (answer: Answer) => string | undefined;
    /** The consequence of an unusable answer, for the warning. */
    readonly otherwise: string;
  },
): Promise<ApproverReply> {
  const { clock, pendingAnswers, pauseSignal, settings } = agent.run;
  const { approver } = settings.approvals;
  if (approver === undefined) return {};
  const linked = createLinkedController(ending);
  const { controller } = linked;
  if (question.deadlineAtMs !== null) {
    const leftMs = question.deadlineAtMs - clock.nowMs();
    void sleep(clock, leftMs, controller.signal).then(() => controller.abort());
  }
  const { signal } = controller;
  const giveUp = (): void => controller.abort();
  if (pauseSignal.aborted) giveUp();
  const stopListening = pauseSignal.onAbort(giveUp);
  const waiting = pendingAnswers.wait(question.questionId, checks.findProblem);
  try {
    const bounds = { signal, clock, graceMs: 0 };
    const race = () =>
      Promise.race([invoke(() => approver(deepFreeze(question), { signal })), waiting.answer]);
    const bounded = await runBounded(race, bounds);
    if (bounded.type === "threw") throw bounded.error;
    if (bounded.type === "abandoned" || bounded.value === undefined) return {};
    const answer = parseApproverAnswer(bounded.value);
    const problem = checks.findProblem(answer);
    if (problem !== undefined) throw new TypeError(problem);
    return { answer };
  } catch (cause) {
    // The approver may reject because its signal was aborted.
    if (signal.aborted) return {};
    const problem = redactSecrets(getErrorMessage(cause));
    warnOnce(
      approver,
      `The approver returned no usable answer for ${question.toolName} (${problem}); ${checks.otherwise}.`,
    );
    return { failure: `The approver returned no usable answer (${problem}).` };
  } finally {
    controller.abort();
    waiting.leave();
    stopListening();
    linked.unlink();
  }
}

/** Returns the parsed answer. Throws if it is invalid. */
function parseApproverAnswer(value: unknown): Answer {
  const parsed = AnswerSchema().safeParse(value);
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues.map(({ path, message }) =>
    path.length === 0 ? message : `${path.join(".")}: ${message}`,
  );
  throw new TypeError(issues.join("; "));
}

/** Returns the problem of an answer to this question. `undefined` if it fits. */
export function findAnswerProblem(answer: Answer, question: Question): string | undefined {
  if (answer.questionId !== question.questionId) return "it answers another question";
  if (answer.argumentsHash !== question.argumentsHash)
    return "its arguments differ from those of the call";
  if (getAnsweredKind(answer.type) !== question.kind)
    return `a question of kind ${question.kind} takes ${question.kind === "approval" ? "approve() or deny()" : "provideResult() or provideError()"}, not an answer of type ${answer.type}`;
  return undefined;
}

/** Creates a question about a call. Its id follows from the call's position. */
export function createQuestion(
  { agent, toolName, position: { stepId, callId }, index }: CallInProgress,
  kind: Question["kind"],
  reason: string,
  shown: Pick<Question, "arguments" | "writtenArguments" | "unparsed">,
): Question {
  const { agentId, agentPath } = agent.identity;
  const askedAtMs = agent.run.clock.nowMs();
  const { answerTimeoutMs } = agent.run.settings.approvals;
  return {
    questionId: createQuestionId(stepId, index),
    kind,
    agentId,
    agentPath,
    callId,
    toolName,
    ...shown,
    argumentsHash: computeArgumentsHash(toolName, shown.arguments),
    reason,
    askedAtMs,
    deadlineAtMs: answerTimeoutMs === undefined ? null : askedAtMs + answerTimeoutMs,
  };
}

type AnswerFacts = Pick<
  EventBody<"question.answered">,
  "answer" | "source" | "by" | "reason" | "arguments"
>;

/** Returns the event of an answer, with its source and its author. */
export function createAnsweredEvent(
  { run }: AgentRuntime,
  { questionId, toolName, askedAtMs }: Question,
  answer: AnswerFacts,
): EventBody<"question.answered"> {
  const waitedMs = run.clock.nowMs() - askedAtMs;
  return { type: "question.answered", questionId, toolName, ...answer, waitedMs };
}

export function recordAnswer(
  { agent, position }: CallInProgress,
  question: Question,
  answer: AnswerFacts,
): void {
  agent.recordWithinCall(createAnsweredEvent(agent, question, answer), position);
}
