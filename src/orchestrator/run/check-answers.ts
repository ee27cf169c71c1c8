// Checks answers to the questions of a paused run, and the calls that the questions are about,
// before anything runs. The stored arguments of a call can be replaced together with their hash, if
// the paused run has no signature. The message of the model still contains the original arguments.

import type { AgentRole } from "../../agent/agent-role.ts";
import { isWholeReply } from "../../agent/agent-state.ts";
import { findAnswerProblem } from "../../agent/tool-calls/ask-approver.ts";
import {
  cloneObject,
  computeSchemaHash,
  getStoredCall,
} from "../../agent/tool-calls/parsed-call.ts";
import { describeReceived } from "../../kernel/argument-checks.ts";
import { sha256 } from "../../kernel/crypto.ts";
import { EspalierError } from "../../kernel/error.ts";
import { computeFingerprint } from "../../kernel/fingerprint.ts";
import {
  stringifyCanonical,
  omitUndefined,
  isRecord,
  type JsonObject,
  sameJson,
} from "../../kernel/json.ts";
import type { AgentId, CallId, QuestionId, RunId } from "../../protocol/ids.ts";
import type { ToolCall } from "../../protocol/message.ts";
import { type Answer, AnswerSchema, isOverdue, type Question } from "../../protocol/question.ts";
import { bindCall, type BoundCall, rebindCall } from "../../tools/bind-call.ts";
import type { ToolSet } from "../../tools/tool-set.ts";
import type { Tool } from "../../tools/tool.ts";
import {
  createCannotContinueError,
  isForged,
  type PausedAgent,
  type PausedRunRecord,
} from "../durability/paused-run.ts";
import { findDeferralProblem } from "../durability/paused-run-checks.ts";
import type { RestoredAgent, RestoredRun } from "../durability/restored-run.ts";
import type { RoleRegistry } from "../tree/role-registry.ts";

/** Questions that wait for answers. */
export interface OpenQuestions {
  readonly questions: readonly Question[];
  readonly nowMs: number;
  /** Returns the error for an answer to a question that is not in the list. */
  readonly explainOther: (index: number, answer: Answer) => EspalierError;
}

/** Returns the answers by question. Throws `invalid_answer`, with the `problem` in its data. */
export function matchAnswers(
  values: unknown,
  { questions, nowMs, explainOther }: OpenQuestions,
): ReadonlyMap<QuestionId, Answer> {
  const open = new Map(questions.map((question) => [question.questionId, question]));
  const answers = new Map<QuestionId, Answer>();
  checkAnswerList(values);
  for (const [index, value] of values.entries()) {
    const answer = parseAnswer(index, value);
    const { questionId } = answer;
    const question = open.get(questionId);
    if (question === undefined) throw explainOther(index, answer);
    if (answers.has(questionId))
      throw createWrongAnswer(
        "duplicate",
        index,
        `a second answer to ${nameQuestion(question)}. Pass one`,
        question,
      );
    const problem = findAnswerProblem(answer, question);
    if (problem !== undefined) {
      const code = answer.argumentsHash === question.argumentsHash ? "wrong_kind" : "altered";
      const got = `one that does not fit ${nameQuestion(question)}: ${problem}. Answer the question as it was asked`;
      throw createWrongAnswer(code, index, got, question);
    }
    if (isOverdue(question, nowMs)) {
      const outcome = question.kind === "approval" ? "denied" : "failed";
      const got = `one after the deadline of ${nameQuestion(question)}. Leave the answer out: the question counts as ${outcome}`;
      throw createWrongAnswer("late", index, got, question);
    }
    answers.set(questionId, answer);
  }
  return answers;
}

/** Facts against which answers are checked. */
export interface AnswerChecks {
  readonly nowMs: number;
  readonly toolsOf: (agent: RestoredAgent) => ToolSet;
}

/**
 * Returns the answers by question. Questions may stay open. Throws `invalid_answer`, with the
 * `problem` in its data, or `invalid_paused_run` if a tool no longer exists.
 */
export function checkAnswers(
  run: RestoredRun,
  values: unknown,
  { nowMs, toolsOf }: AnswerChecks,
): ReadonlyMap<QuestionId, Answer> {
  const explainOther = (index: number, answer: Answer) => explainUnknownAnswer(index, answer, run);
  const answers = matchAnswers(values, { questions: run.questions, nowMs, explainOther });
  for (const question of run.questions) {
    const agent = run.agents.find(({ agentId }) => agentId === question.agentId);
    if (agent === undefined) continue;
    checkCall(agent, question);
    checkAskedTool(toolsOf(agent), question, answers.get(question.questionId));
  }
  return answers;
}

/**
 * Throws `invalid_answer` if a question has no answer, is not overdue, and is not asked of the
 * approver when the run continues.
 */
export function assertAllAnswered(
  { runId, questions }: RestoredRun,
  answers: ReadonlyMap<QuestionId, Answer>,
  { nowMs, hasApprover }: { readonly nowMs: number; readonly hasApprover: boolean },
): void {
  const missing = questions.find(
    (question) =>
      !answers.has(question.questionId) &&
      !isOverdue(question, nowMs) &&
      !(hasApprover && question.kind === "approval"),
  );
  if (missing === undefined) return;
  const { questionId, agentPath, kind } = missing;
  const other = kind === "approval" ? ", or resume with an approver" : "";
  const message = `Expected an answer to every open question, got none to ${nameQuestion(missing)}. Add an answer to it${other}. ${describeWhereQuestionsAre(runId)}.`;
  throw createInvalidAnswer(message, { problem: "missing", questionId, agentPath });
}

function describeWhereQuestionsAre(runId: RunId): string {
  return `Its questions are in pausedRun.questions or, with a store, in (await orchestrator.getResult(${JSON.stringify(runId)})).questions`;
}

/** Throws `invalid_answer` for a value that is not a list. */
export function checkAnswerList(values: unknown): asserts values is readonly unknown[] {
  if (Array.isArray(values)) return;
  const message = `Expected answers to be an array, got ${describeReceived(values)}. Pass an array: [answer].`;
  throw createInvalidAnswer(message, { problem: "malformed" });
}

/**
 * Checks that a question is about the call that the model made, and that this call would run. A
 * stored run has not been checked before, and a store can be edited.
 */
function checkCall(agent: RestoredAgent, question: Question): void {
  const { callId, questionId, agentPath, toolName } = question;
  const { step } = agent.state;
  const deferral = step?.deferrals.find((candidate) => candidate.callId === callId);
  const toolCalls = step?.reply?.message.toolCalls ?? [];
  if (
    step !== undefined &&
    deferral?.type === "question" &&
    !isForged(deferral) &&
    findDeferralProblem(agent, step, toolCalls) === undefined
  )
    return;
  const message = `Cannot accept the answer to question ${questionId} of ${agentPath}: the question shows another call than ${callId} of ${toolName}. Resume the paused run as it was stored.`;
  throw createCannotContinueError(message, { toolName, questionId, agentPath });
}

/** Checks that the tool still exists, and accepts the arguments that an approval has changed. */
function checkAskedTool(tools: ToolSet, question: Question, answer: Answer | undefined): void {
  const { toolName, questionId, agentPath, kind } = question;
  const tool = tools.find(toolName);
  const isOwn = tool?.kind === "function" || tool?.kind === "delegation";
  if (tool === undefined || (kind === "approval" ? !isOwn : tool.kind !== "external")) {
    const message = `Cannot accept the answer to question ${questionId} of ${agentPath}: its tool ${toolName} is missing, or is of another kind. Resume with the roles that the run was started with.`;
    throw createCannotContinueError(message, { toolName, questionId, agentPath });
  }
  if (answer?.type !== "approved" || answer.arguments === undefined) return;
  const bound = rebindCall(tool, answer.arguments);
  if (bound.type !== "rejected") return;
  const message = `Expected the arguments of the answer to ${questionId} of ${agentPath} to fit ${toolName}, got others. ${bound.text}`;
  throw createInvalidAnswer(message, { problem: "invalid_arguments", questionId, agentPath });
}

function parseAnswer(index: number, value: unknown): Answer {
  const parsed = tryAnswerSchema(value);
  if (parsed?.success === true) return parsed.data;
  const [issue] = parsed?.error.issues ?? [];
  const why =
    isRecord(value) && issue !== undefined ? `: ${issue.path.join(".")} ${issue.message}` : "";
  const got = `something else${why}. Create it with approve, deny, provideResult or provideError`;
  throw createWrongAnswer("malformed", index, got);
}

/** Parses a value by the schema of answers. `undefined` if the value is nested too deeply. */
function tryAnswerSchema(value: unknown) {
  try {
    return AnswerSchema().safeParse(value);
  } catch (cause) {
    if (cause instanceof RangeError) return undefined;
    throw cause;
  }
}

function explainUnknownAnswer(
  index: number,
  { questionId }: Answer,
  run: RestoredRun,
): EspalierError {
  if (!run.answered.includes(questionId)) {
    const got = `one to ${questionId}, which is not a question of this run. ${describeWhereQuestionsAre(run.runId)}`;
    return createWrongAnswer("unknown", index, got, { questionId });
  }
  // The id of a question is `<executionId>.<step>.<index>`.
  const askedBy = questionId.split(".").slice(0, -2).join(".");
  const asker = run.agents.find(({ executionId }) => executionId === askedBy);
  const ofAsker = asker === undefined ? "" : ` of ${asker.agentPath}`;
  const got = `one to ${questionId}${ofAsker}, which is already answered. Leave the answer out`;
  return createWrongAnswer("already_answered", index, got, {
    questionId,
    agentPath: asker?.agentPath,
  });
}

/** Returns a question as errors name it: its id, its agent and its call. */
function nameQuestion({ questionId, toolName, agentPath }: Question): string {
  return `${questionId} (${toolName} of ${agentPath})`;
}

type AnswerProblem =
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

/** Returns an `invalid_answer` about an answer in a list. */
export function createWrongAnswer(
  problem: AnswerProblem,
  index: number,
  got: string,
  about: About = {},
): EspalierError {
  const { questionId, agentPath } = about;
  const message = `Expected answers[${index}] to be the answer to an open question of this run, got ${got}.`;
  return createInvalidAnswer(message, {
    problem,
    index,
    ...omitUndefined({ questionId, agentPath }),
  });
}

function createInvalidAnswer(
  message: string,
  data: JsonObject & { readonly problem: AnswerProblem },
): EspalierError {
  return new EspalierError({ code: "invalid_answer", message, data });
}

type PausedStep = NonNullable<Extract<PausedAgent["state"], { readonly status: "paused" }>["step"]>;
type WaitingQuestion = Extract<PausedStep["deferrals"][number], { readonly type: "question" }>;

/**
 * Returns the run. Marks each call as unverified whose schema does not return the stored value.
 * Calls that `beforeTool` hooks may have rewritten are not marked.
 *
 * Throws `invalid_paused_run` if a call has other arguments than its model wrote.
 */
export function verifyWaitingCalls(
  run: PausedRunRecord,
  roles: ReadonlyMap<AgentId, AgentRole>,
  registry: RoleRegistry,
): PausedRunRecord {
  const agents = run.agents.map((agent) => {
    const { agentId, state } = agent;
    const role = roles.get(agentId);
    if (state.status !== "paused" || state.step === undefined || role === undefined) return agent;
    const { step } = state;
    const { tools, hooks } = registry.getParts(role);
    const deferrals = step.deferrals.map((deferral) => {
      const call = findCall(step, deferral);
      const tool = call && tools.find(call.toolName);
      if (deferral.type !== "question" || call === undefined || tool === undefined) return deferral;
      if (hooks.chain("beforeTool", call.toolName).length > 0) return deferral;
      if (knownCalls.has(digestCall(run, call, deferral))) return deferral;
      const bind = (): BoundCall => bindCall(tool, call.argumentsText, isWholeReply(step));
      const isVerified = isFromModel(deferral, tool, bind);
      return isVerified ? deferral : ({ ...deferral, isUnverified: true } as const);
    });
    return { ...agent, state: { ...state, step: { ...step, deferrals } } };
  });
  return { ...run, agents };
}

function findCall({ reply }: PausedStep, { callId }: { readonly callId: CallId }) {
  return reply?.message.toolCalls.find((call) => call.callId === callId);
}

/** Returns true if the stored value follows from the arguments that the model wrote. */
function isFromModel(deferral: WaitingQuestion, tool: Tool, bind: () => BoundCall): boolean {
  const { input, value, schemaHash, fingerprint } = getStoredCall(deferral);
  const bound = bind();
  // An earlier schema, which the model was shown, may have accepted the text.
  if (bound.type === "rejected") return false;
  const isAsWritten =
    sameJson(input, bound.input) &&
    (value !== undefined || sameJson(deferral.question.arguments, bound.input));
  if (!isAsWritten && schemaHash === computeSchemaHash(tool))
    throw createAlteredCallError(deferral.question);
  const parsed = describeValue(bound);
  const stored = value === undefined ? (fingerprint ?? "") : stringifyCanonical(value);
  if (isAsWritten && parsed === stored) return true;
  // If the schema returns the same value twice, the stored value does not come from it. A transform
  // that reads the clock must get the chance to return another value.
  waitForClock();
  const again = describeValue(bind());
  return again !== undefined && again !== parsed;
}

/** Returns the same text for equal values. `undefined` if the arguments were rejected. */
function describeValue(bound: BoundCall): string | undefined {
  if (bound.type === "rejected") return undefined;
  const value = cloneObject(bound.value);
  return value === undefined ? (computeFingerprint(bound.value) ?? "") : stringifyCanonical(value);
}

const CLOCK_STEP_MS = 2;

function waitForClock(): void {
  const startMs = performance.now();
  while (performance.now() - startMs < CLOCK_STEP_MS) continue;
}

function createAlteredCallError(question: Question): EspalierError {
  const { questionId, agentPath, callId, toolName } = question;
  const message = `Cannot accept the answer to question ${questionId} of ${agentPath}: the arguments of the call ${callId} of ${toolName} differ from those that the model wrote. Resume the paused run as it was stored, with the beforeTool hooks that it was paused with.`;
  return createCannotContinueError(message, { toolName, questionId, agentPath });
}

// Calls of runs that this process has paused. They were parsed here, and are not parsed again

const MOST_KNOWN = 10_000;
const knownCalls = new Set<string>();

/** Records the calls that wait in a paused run of this process. Evicts the oldest first. */
export function rememberWaitingCalls(run: PausedRunRecord): void {
  for (const { state } of run.agents) {
    if (state.status !== "paused" || state.step === undefined) continue;
    for (const deferral of state.step.deferrals) {
      const call = findCall(state.step, deferral);
      if (deferral.type === "question" && call !== undefined)
        knownCalls.add(digestCall(run, call, deferral));
    }
  }
  for (const digest of knownCalls) {
    if (knownCalls.size <= MOST_KNOWN) break;
    knownCalls.delete(digest);
  }
}

function digestCall(
  { runId, traceId }: PausedRunRecord,
  call: ToolCall,
  deferral: WaitingQuestion,
): string {
  return sha256(stringifyCanonical([runId, traceId, call, deferral]));
}
