// Creates the context that a tool receives: facts about the call, and requests that the tool may
// make while the call runs.

import { CancelSignal, addAbortHandler } from "../../kernel/cancel-signal.ts";
import { checkAmount, checkKeys, checkText, mismatch } from "../../kernel/argument-checks.ts";
import { deepFreezeList } from "../../kernel/append-only-list.ts";
import { deepFreeze, omitUndefined, isRecord } from "../../kernel/json.ts";
import { createQuestionId } from "../../protocol/ids.ts";
import { JsonObjectSchema } from "../../protocol/json-value.ts";
import { copyContent } from "../../protocol/message-content.ts";
import { isOverdue, type Answer, type Question } from "../../protocol/question.ts";
import { SpawnRequestSchema, type SpawnRequest } from "../../protocol/subagent.ts";
import {
  QUESTION_ENDED,
  type AskOutcome,
  type AskRequest,
  type ToolContext,
  type ToolProgress,
} from "../../tools/tool-context.ts";
import { readAgentFacts } from "../run-user-code.ts";
import {
  askApprover,
  createQuestion,
  findAnswerProblem,
  recordAnswer,
  type AnswerSource,
} from "./ask-approver.ts";
import type { CallInProgress } from "./open-call.ts";

/** Maximum number of progress reports of a call that are recorded as events. */
const MOST_REPORTS = 1_000;

/** Returns the context for the body of a tool. */
export function createToolContext(call: CallInProgress): ToolContext {
  return createCallContext(call, { ask: (request: AskRequest) => askForTool(call, request) });
}

/** Returns the context of any tool, with additional services. */
export function createCallContext<Services extends object>(
  call: CallInProgress,
  services: Services,
): Omit<ToolContext, "ask"> & Services {
  const { agent, position, stepNumber, settings } = call;
  const { stepId, callId } = position;
  return Object.freeze({
    ...readAgentFacts(agent),
    stepNumber,
    callId,
    idempotencyKey: `${agent.identity.runId}/${stepId}/${callId}`,
    retryCount: call.retryCount,
    maxRetries: settings.maxRetries,
    messages: deepFreezeList(call.history.messages),
    signal: call.signal.abortSignal,
    queueSubtask: (request: SpawnRequest) => queueSubtask(call, request),
    reportProgress: (progress: ToolProgress) => reportProgress(call, progress),
    ...services,
  });
}

function queueSubtask(call: CallInProgress, request: unknown): void {
  const spawn = checkSpawnRequest("subtask", request);
  if (spawn.background === true) {
    const advice = "Leave it out: a subtask always runs before the next model call.";
    throw mismatch("subtask.background", "left out", true, advice);
  }
  if (!call.isClosed) call.subtasks = [...(call.subtasks ?? []), spawn];
}

function reportProgress(call: CallInProgress, progress: ToolProgress): void {
  checkKeys("progress", progress, ["done", "total", "message"]);
  const { done, total, message } = progress;
  if (done !== undefined) checkAmount("progress.done", done, "Leave it out if it is unknown.");
  if (total !== undefined) checkAmount("progress.total", total, "Leave it out if it is unknown.");
  if (message !== undefined) checkText("progress.message", message);
  if (call.isClosed || call.reports >= MOST_REPORTS) return;
  call.reports += 1;
  const { agent, toolName } = call;
  const reported = omitUndefined({ done, total, message });
  agent.recordWithinCall({ type: "tool.progressed", toolName, ...reported }, call.position);
}

/** Throws `invalid_argument` for a value that is not a request. */
export function checkSpawnRequest(field: string, request: unknown): SpawnRequest {
  const parts = isRecord(request) && Array.isArray(request["task"]) ? request["task"] : undefined;
  const task = parts && copyContent(`${field}.task`, parts);
  const parsed = SpawnRequestSchema().safeParse(
    isRecord(request) ? { ...request, ...omitUndefined({ task }) } : request,
  );
  if (parsed.success) return parsed.data;
  const advice = "Pass both as non-empty strings; role is the name of a role.";
  throw mismatch(field, "an object with role and task", request, advice);
}

/** Returns a checked copy, because the question is recorded and must not change later. */
function parseAskRequest(request: AskRequest): AskRequest {
  checkKeys("ask", request, ["reason", "arguments", "validate", "signal"]);
  const { reason, validate: check } = request;
  const signal: unknown = request.signal; // Untyped callers pass anything.
  checkText("ask.reason", reason);
  const parsed = JsonObjectSchema().safeParse(request.arguments);
  if (!parsed.success)
    throw mismatch(
      "ask.arguments",
      "an object of plain JSON",
      request.arguments,
      "Pass the arguments that the person is to approve.",
    );
  if (check !== undefined && typeof check !== "function")
    throw mismatch("ask.validate", "a function", check, "Leave it out to accept any value.");
  if (signal !== undefined && !(signal instanceof AbortSignal))
    throw mismatch(
      "ask.signal",
      "an AbortSignal",
      signal,
      "Leave it out to end the question with the call.",
    );
  return {
    reason,
    arguments: deepFreeze(structuredClone(parsed.data)),
    ...omitUndefined({ validate: check, signal }),
  };
}

/**
 * Asks the approver on behalf of a running tool. Rejects only with `invalid_argument`, for an invalid
 * request.
 */
async function askForTool(call: CallInProgress, input: AskRequest): Promise<AskOutcome> {
  const request = parseAskRequest(input);
  const signals = [call.signal, ...(request.signal === undefined ? [] : [request.signal])];
  if (call.isClosed || signals.some(({ aborted }) => aborted)) return QUESTION_ENDED;
  const { agent } = call;
  call.questions += 1;
  const question: Question = {
    ...createQuestion(call, "external", request.reason, { arguments: request.arguments }),
    questionId: createQuestionId(call.stepId, call.index, call.questions),
  };
  const ending = new CancelSignal();
  const end = (): void => ending.abort(undefined);
  const unlinks = signals.map((signal) => addAbortHandler(signal, end));
  call.endings ??= new Set();
  call.endings.add(end);
  agent.recordWithinCall({ type: "question.asked", ...question }, call.position);
  let outcome: AskOutcome | undefined;
  const conclude = (source: AnswerSource, concluded: AskOutcome, by?: string): AskOutcome => {
    if (outcome !== undefined) return outcome;
    outcome = concluded;
    const isAnswered = concluded.type === "answered";
    const reason = isAnswered ? undefined : concluded.reason;
    const more = omitUndefined({ by, reason });
    recordAnswer(call, question, { answer: isAnswered ? "result" : "failure", source, ...more });
    return outcome;
  };
  // Synchronously, so that no event of a call follows its end.
  const unlink = ending.onAbort(() => conclude("end", QUESTION_ENDED));
  const { answer, failure } = await askApprover({ agent, signal: ending }, question, {
    findProblem: (reply) => findReplyProblem(reply, question, request),
    otherwise: "its tool learns that nobody answered",
  });
  for (const stop of [unlink, ...unlinks]) stop();
  call.endings.delete(end);
  switch (answer?.type) {
    case "result":
      return conclude("approver", { type: "answered", value: answer.result }, answer.by);
    case "failure":
      return conclude("approver", { type: "declined", reason: answer.message }, answer.by);
    case "denied":
      return conclude("approver", { type: "declined", reason: answer.reason }, answer.by);
    default:
      return conclude(...decideWithoutAnswer(call, question, failure));
  }
}

/**
 * Returns the problem of an answer to a tool's question. It is answered like an external call, and
 * denying it declines it.
 */
function findReplyProblem(
  answer: Answer,
  question: Question,
  request: AskRequest,
): string | undefined {
  const { type, questionId, argumentsHash } = answer;
  const reply: Answer =
    type === "denied"
      ? { type: "failure", questionId, argumentsHash, message: answer.reason }
      : answer;
  const problem = findAnswerProblem(reply, question);
  if (problem !== undefined || answer.type !== "result") return problem;
  return request.validate?.(answer.result);
}

function decideWithoutAnswer(
  { agent: { run } }: CallInProgress,
  question: Question,
  failure: string | undefined,
): [AnswerSource, AskOutcome] {
  if (run.settings.approvals.approver === undefined)
    return ["nobody", { type: "declined", reason: "No approver is configured for this run." }];
  if (isOverdue(question, run.clock.nowMs()))
    return ["deadline", { type: "unanswered", reason: "Nobody answered in time." }];
  const reason = failure ?? "The approver returned no answer.";
  return ["approver", { type: "unanswered", reason }];
}
