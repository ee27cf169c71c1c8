// Questions of a stored run, and answers to them, sent to its mailbox. It does not matter which
// process owns the run, or whether it is paused. An answer is about a single exact call, and the
// first answer counts.

import type { Clock } from "../../kernel/clock.ts";
import { sleep } from "../../kernel/cancel-signal.ts";
import { EspalierError } from "../../kernel/error.ts";
import { isRecord } from "../../kernel/json.ts";
import { describeProblemLines } from "../../tools/arguments/argument-problems.ts";
import type { ToolSpec } from "../../model/model.ts";
import type { QuestionId, RunId } from "../../protocol/ids.ts";
import {
  toQuestion,
  type Answer,
  type AnswerType,
  type Question,
} from "../../protocol/question.ts";
import type { RunStore } from "../../store/run-store.ts";
import { RunRecord } from "../durability/run-record.ts";
import { matchAnswers, createWrongAnswer } from "./check-answers.ts";
import type { Run } from "./run.ts";
import { parseMail, sendMail } from "./run-mail.ts";

/** Questions of a run, and the answers to them. */
interface AskedQuestions {
  /** In the order in which they were asked. */
  readonly open: readonly Question[];
  readonly record: RunRecord;
  /** Questions that were answered or no longer need an answer, with the type of answer. */
  readonly over: ReadonlyMap<QuestionId, AnswerType>;
  /** Answers that the owner of the run has not read yet, by question. */
  readonly posted: ReadonlyMap<QuestionId, Answer>;
  /**
   * Number of answers to each question that were read. They had no effect if the question is still
   * open.
   */
  readonly taken: ReadonlyMap<QuestionId, number>;
  /**
   * True if another process owns the run: its latest questions may not be persisted yet. Default
   * `false`.
   */
  readonly hasOwner?: boolean;
}

/**
 * Returns the questions of a run that still need an answer. Rejects with `unknown_run`,
 * `unsupported_version`, `invalid_journal` or `store_failed`.
 */
export async function openQuestions(store: RunStore, runId: RunId): Promise<readonly Question[]> {
  const { open, posted } = await readQuestions(store, runId);
  return open.filter(({ questionId }) => !posted.has(questionId));
}

/** Dependencies. `ledHere` is the handle, if this process owns the run. */
interface PostMeans {
  readonly store: RunStore;
  readonly clock: Clock;
  readonly ledHere?: Pick<Run, "whenPersisted"> | undefined;
}

/** Interval and number of reads for a question that was announced and is not persisted yet. */
const LOOK_MS = 50;
const MOST_LOOKS = 20;

/**
 * Sends answers, in order, and returns the questions that are still open. Rejects with
 * `invalid_answer`, `unknown_run`, `run_ended`, `unsupported_version`, `invalid_journal` or
 * `store_failed`. Nothing is sent then, unless others answer at the same time, or the store fails
 * in between.
 */
export async function sendAnswers(
  context: PostMeans,
  runId: RunId,
  values: readonly Answer[],
): Promise<readonly Question[]> {
  const { store, clock } = context;
  const questions = await waitForQuestions(context, runId, values);
  const answers = validateAnswers(values, questions, clock.nowMs());
  await checkArguments(answers, questions);
  for (const [index, answer] of answers.entries()) {
    const { questionId } = answer;
    const key = `answer:${questionId}:${questions.taken.get(questionId) ?? 0}`;
    const number = await sendMail(store, runId, { type: "answer", answer }, key);
    const [post] = await store.readMail(runId, number);
    const mail = post && parseMail(post)?.mail;
    // If two answers arrive at the same time, the mail under the key is the first.
    if (mail?.type === "answer" && JSON.stringify(mail.answer) !== JSON.stringify(answer))
      throw createAnsweredError(index, questionId, mail.answer.type);
  }
  const now = new Set(answers.map(({ questionId }) => questionId));
  return questions.open.filter(
    ({ questionId }) => !now.has(questionId) && !questions.posted.has(questionId),
  );
}

/**
 * Reads the questions. Readers get a question a little before it is persisted, so an unknown
 * question of an executing run is waited for.
 */
async function waitForQuestions(
  { store, clock, ledHere }: PostMeans,
  runId: RunId,
  values: readonly Answer[],
): Promise<AskedQuestions> {
  await ledHere?.whenPersisted().catch(() => undefined); // The reads below report a failure of the store.
  for (let looks = 1; ; looks += 1) {
    const questions = await readQuestions(store, runId);
    if (ledHere !== undefined || isAllKnown(values, questions)) return questions;
    const stored = await store.find(runId);
    const hasOwner = stored?.status === "open" && stored.owner !== null;
    if (!hasOwner) return questions;
    if (looks === MOST_LOOKS) return { ...questions, hasOwner };
    await sleep(clock, LOOK_MS);
  }
}

function isAllKnown(values: unknown, { open, over }: AskedQuestions): boolean {
  if (!Array.isArray(values)) return true;
  return values.every((value) => {
    const { questionId } = isRecord(value) ? value : {};
    return (
      typeof questionId !== "string" ||
      open.some((question) => question.questionId === questionId) ||
      [...over.keys()].some((known) => known === questionId)
    );
  });
}

/** Reads the questions of a run, and the answers to them in its mailbox. */
export async function readQuestions(store: RunStore, runId: RunId): Promise<AskedQuestions> {
  const record = new RunRecord(store, runId);
  const open = new Map<QuestionId, Question>();
  const over = new Map<QuestionId, AnswerType>();
  await record.advance((event) => {
    if (event.type === "question.asked") open.set(event.questionId, toQuestion(event));
    if (event.type === "question.answered") {
      open.delete(event.questionId);
      over.set(event.questionId, event.answer);
    }
    if (event.type === "run.ended") open.clear();
  });
  const handled = new Set(record.handledMail);
  const posted = new Map<QuestionId, Answer>();
  const taken = new Map<QuestionId, number>();
  for (const post of await store.readMail(runId)) {
    const mail = parseMail(post)?.mail;
    if (mail?.type !== "answer") continue;
    const { questionId } = mail.answer;
    if (!handled.has(post.number)) posted.set(questionId, mail.answer);
    else taken.set(questionId, (taken.get(questionId) ?? 0) + 1);
  }
  return { open: [...open.values()], record, over, posted, taken };
}

function validateAnswers(
  values: unknown,
  stored: AskedQuestions,
  nowMs: number,
): readonly Answer[] {
  const { open, over, posted, hasOwner = false } = stored;
  const questions = open.filter(({ questionId }) => !posted.has(questionId));
  const explainOther = (index: number, { questionId }: Answer): EspalierError => {
    const first = posted.get(questionId)?.type ?? over.get(questionId);
    if (first !== undefined) return createAnsweredError(index, questionId, first);
    const got = `one to ${questionId}, which is not a question of this run${hasOwner ? TOO_EARLY : ""}`;
    return createWrongAnswer("unknown", index, got, { questionId });
  };
  return [...matchAnswers(values, { questions, nowMs, explainOther }).values()];
}

/**
 * Checks the shape of arguments that an approval replaces. The owner of the role checks all other
 * rules. If the arguments do not fit, the question stays open there.
 *
 * @throws EspalierError `invalid_answer` that names the parameters.
 */
async function checkArguments(
  answers: readonly Answer[],
  { open, record }: AskedQuestions,
): Promise<void> {
  for (const answer of answers) {
    if (answer.type !== "approved" || answer.arguments === undefined) continue;
    const { questionId, arguments: input } = answer;
    const question = open.find((candidate) => candidate.questionId === questionId);
    if (question === undefined) continue;
    const { toolName, arguments: fitting } = question;
    const tool = await findShownTool(record, question);
    if (tool === undefined) continue;
    // The validator is large, and few answers change arguments.
    const { findArgumentProblems } = await import("./find-argument-problems.ts");
    const problems = findArgumentProblems({ tool, fitting }, input);
    if (problems.length === 0) continue;
    const lines = describeProblemLines("arguments", problems).join("; ");
    const parameters = [...new Set(problems.map(({ parameter }) => parameter || "arguments"))];
    throw new EspalierError({
      code: "invalid_answer",
      message: `Expected the arguments of the answer to ${questionId} to fit ${toolName}, got others: ${lines}. Correct them and answer again.`,
      data: { problem: "invalid_arguments", questionId, parameters },
    });
  }
}

/**
 * Returns the tool as the model was shown it in the step of the question. `undefined` if that was
 * not recorded.
 */
async function findShownTool(
  record: RunRecord,
  { agentId, toolName }: Question,
): Promise<ToolSpec | undefined> {
  const step = (await record.steps(agentId)).at(-1)?.open;
  if (step === undefined) return undefined;
  const recorded = await record
    .request({ agentId, stepNumber: step.number })
    .catch(() => undefined);
  return recorded?.request.tools.find(({ name }) => name === toolName);
}

const TOO_EARLY =
  ". A question that was just asked may not be persisted yet: this answer is too early. Answer again in a moment";

function createAnsweredError(
  index: number,
  questionId: QuestionId,
  first: AnswerType,
): EspalierError {
  const got = `one to ${questionId}, which is already answered. The first answer counts: ${first}`;
  return createWrongAnswer("already_answered", index, got, { questionId });
}
