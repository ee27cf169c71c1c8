// The answers to a paused run's questions, checked whole before anything runs: the run stays as it is, and resumable, if one is wrong
// (R30, X17).

import { shown } from "../../kernel/check.ts";
import { EspalierError } from "../../kernel/error.ts";
import {
  defined,
  isRecord,
  parseJson,
  sameJson,
  type JsonObject,
  type JsonValue,
} from "../../kernel/json.ts";
import { problemWith } from "../../agent/tool-calls/ask-approver.ts";
import {
  AnswerSchema,
  argumentsHashOf,
  callHashOf,
  isOverdue,
  type Answer,
  type Question,
} from "../../protocol/question.ts";
import type { QuestionId } from "../../protocol/ids.ts";
import { rebindCall } from "../../tools/bind-call.ts";
import type { ToolSet } from "../../tools/tool-set.ts";
import type { RestoredAgent, RestoredRun } from "../durability/restored-run.ts";

/** Questions that wait for answers. */
export interface OpenQuestions {
  readonly questions: readonly Question[];
  readonly nowMs: number;
  /** Returns what is wrong with an answer to a question that is not among them. */
  readonly explainOther: (index: number, answer: Answer) => EspalierError;
}

/** Returns the answers by question. Throws `invalid_answer`, with the `problem` in its data. */
export function matchAnswers(
  given: unknown,
  { questions, nowMs, explainOther }: OpenQuestions,
): ReadonlyMap<QuestionId, Answer> {
  const open = new Map(questions.map((question) => [question.questionId, question]));
  const answers = new Map<QuestionId, Answer>();
  checkAnswerList(given);
  for (const [index, one] of given.entries()) {
    const answer = answerAt(index, one);
    const { questionId } = answer;
    const question = open.get(questionId);
    if (question === undefined) throw explainOther(index, answer);
    if (answers.has(questionId))
      throw wrong("duplicate", index, `a second answer to ${named(question)}. Give one`, question);
    const problem = problemWith(answer, question);
    if (problem !== undefined) {
      const code = answer.argumentsHash === question.argumentsHash ? "wrong_kind" : "altered";
      const got = `one that does not fit ${named(question)}: ${problem}. Answer the question as it is`;
      throw wrong(code, index, got, question);
    }
    if (isOverdue(question, nowMs)) {
      const outcome = question.kind === "approval" ? "denied" : "failed";
      const got = `one after the deadline of ${named(question)}. Leave it out: the question counts as ${outcome}`;
      throw wrong("late", index, got, question);
    }
    answers.set(questionId, answer);
  }
  return answers;
}

/** What answers are checked against. */
export interface AnswerChecks {
  readonly nowMs: number;
  readonly toolsOf: (agent: RestoredAgent) => ToolSet;
  /** Default true. False: questions may stay open. */
  readonly areAllNeeded?: boolean;
}

/** The answers by question. Throws `invalid_answer`, with the `problem` in its data, or `invalid_paused_run` if a tool is gone. */
export function checkAnswers(
  run: RestoredRun,
  given: unknown,
  { nowMs, toolsOf, areAllNeeded = true }: AnswerChecks,
): ReadonlyMap<QuestionId, Answer> {
  const explainOther = (index: number, answer: Answer) => unknown(index, answer, run);
  const answers = matchAnswers(given, { questions: run.questions, nowMs, explainOther });
  for (const question of run.questions) {
    const agent = run.agents.find(({ agentId }) => agentId === question.agentId);
    if (agent === undefined) continue;
    checkCall(agent, question);
    checkTool(toolsOf(agent), question, answers.get(question.questionId));
  }
  const missing = run.questions.find(
    (question) => !answers.has(question.questionId) && !isOverdue(question, nowMs),
  );
  if (missing !== undefined && areAllNeeded) {
    const { questionId, agentPath } = missing;
    const message = `Expected an answer to every open question, got none to ${named(missing)}. Answer it, too.`;
    throw invalid(message, { problem: "missing", questionId, agentPath });
  }
  return answers;
}

/** Throws `invalid_answer` for what is no list. */
export function checkAnswerList(given: unknown): asserts given is readonly unknown[] {
  if (Array.isArray(given)) return;
  const message = `Expected answers to be a list, got ${shown(given)}. Put it in brackets.`;
  throw invalid(message, { problem: "malformed" });
}

/** A question must be about the call of the history, and that call must be what would run (X17). */
function checkCall({ state }: RestoredAgent, question: Question): void {
  const { callId, questionId, agentPath, toolName, argumentsHash } = question;
  const { step } = state;
  const deferral = step?.deferrals.find((one) => one.callId === callId);
  if (deferral?.type !== "question") return;
  const isShown =
    argumentsHashOf(toolName, question.arguments) === argumentsHash &&
    sameJson(jsonOf(deferral.argumentsText), question.writtenArguments ?? question.arguments);
  const { callHash } = deferral;
  // Some servers give calls of several replies one id: the newest is the open one.
  const newest = state.conversation.messages.findLast(
    (message) =>
      message.role === "assistant" && message.toolCalls.some((call) => call.callId === callId),
  );
  const isWritten = [newest, step?.reply?.message]
    .flatMap((message) => (message?.role === "assistant" ? message.toolCalls : []))
    .filter((call) => call.callId === callId)
    .every((call) => callHashOf(call) === callHash);
  if (isShown && isWritten) return;
  throw new EspalierError({
    code: "invalid_paused_run",
    message: `Expected the call ${callId} of ${toolName} that question ${questionId} of ${agentPath} is about to be the one that was shown, got another in the ${isShown ? "history" : "question"}. Resume the paused run as it was kept.`,
    data: { toolName, questionId, agentPath },
  });
}

function jsonOf(text: string): JsonValue {
  try {
    return parseJson(text);
  } catch {
    return text;
  }
}

/** The tool must be there still, and accept what an approval changed. */
function checkTool(tools: ToolSet, question: Question, answer: Answer | undefined): void {
  const { toolName, questionId, agentPath, kind } = question;
  const tool = tools.find(toolName);
  const isOwn = tool?.kind === "function" || tool?.kind === "delegation";
  if (tool === undefined || (kind === "approval" ? !isOwn : tool.kind !== "external")) {
    throw new EspalierError({
      code: "invalid_paused_run",
      message: `Expected the tool ${toolName}, which question ${questionId} of ${agentPath} is about, got none of its kind. Resume with the roles that the run was started with.`,
      data: { toolName, questionId, agentPath },
    });
  }
  if (answer?.type !== "approved" || answer.arguments === undefined) return;
  const bound = rebindCall(tool, answer.arguments);
  if (bound.type !== "rejected") return;
  const message = `Expected the arguments of the answer to ${questionId} of ${agentPath} to fit ${toolName}, got others. ${bound.text}`;
  throw invalid(message, { problem: "invalid_arguments", questionId, agentPath });
}

function answerAt(index: number, given: unknown): Answer {
  const parsed = parsedAnswer(given);
  if (parsed?.success === true) return parsed.data;
  const [issue] = parsed?.error.issues ?? [];
  const why =
    isRecord(given) && issue !== undefined ? `: ${issue.path.join(".")} ${issue.message}` : "";
  const got = `something else${why}. Make it with approve, deny, giveResult or reportFailure`;
  throw wrong("malformed", index, got);
}

/** Returns the outcome of the schema; `undefined` for a value that is nested too deep for it. */
function parsedAnswer(given: unknown) {
  try {
    return AnswerSchema.safeParse(given);
  } catch (cause) {
    if (cause instanceof RangeError) return undefined;
    throw cause;
  }
}

function unknown(index: number, { questionId }: Answer, run: RestoredRun): EspalierError {
  if (!run.answered.includes(questionId)) {
    const got = `one to ${questionId}, which this run does not ask. Take the questions from pausedRun.questions`;
    return wrong("unknown", index, got, { questionId });
  }
  // The id of a question is `<executionId>.<step>.<index>`.
  const askedBy = questionId.split(".").slice(0, -2).join(".");
  const asker = run.agents.find(({ executionId }) => executionId === askedBy);
  const of = asker === undefined ? "" : ` of ${asker.agentPath}`;
  const got = `one to ${questionId}${of}, which has been answered. Leave it out`;
  return wrong("already_answered", index, got, { questionId, agentPath: asker?.agentPath });
}

/** A question, as an error names it: its id, its agent and its call. */
function named({ questionId, toolName, agentPath }: Question): string {
  return `${questionId} (${toolName} of ${agentPath})`;
}

type Problem =
  | "missing"
  | "unknown"
  | "duplicate"
  | "wrong_kind"
  | "altered"
  | "already_answered"
  | "late"
  | "invalid_arguments"
  | "malformed";

interface About {
  readonly questionId?: string;
  readonly agentPath?: string | undefined;
}

/** Returns an `invalid_answer` of one answer of a list. */
export function wrong(
  problem: Problem,
  index: number,
  got: string,
  about: About = {},
): EspalierError {
  const { questionId, agentPath } = about;
  const message = `Expected answers[${index}] to be the answer to an open question of this run, got ${got}.`;
  return invalid(message, { problem, index, ...defined({ questionId, agentPath }) });
}

function invalid(message: string, data: JsonObject & { readonly problem: Problem }): EspalierError {
  return new EspalierError({ code: "invalid_answer", message, data });
}
