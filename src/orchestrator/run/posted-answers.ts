// The questions of a run that is kept in a store, whichever process leads it and whether it rests; and answers to them, put into its mailbox.
// X17. An answer is about one exact call, and the first one counts.

import type { Clock } from "../../kernel/clock.ts";
import { shown } from "../../kernel/check.ts";
import { CancelSignal, sleep } from "../../kernel/cancel.ts";
import { EspalierError } from "../../kernel/error.ts";
import { Turns } from "../../kernel/throttle.ts";
import { problemWith } from "../../agent/tool-calls/ask-approver.ts";
import { problemLines } from "../../tools/arguments/argument-problems.ts";
import type { QuestionId, RunId } from "../../protocol/ids.ts";
import {
  AnswerSchema,
  type Answer,
  type AnswerType,
  type Question,
} from "../../protocol/question.ts";
import type { RunStore } from "../../store/run-store.ts";
import { madeOfLine } from "../durability/fold-journal.ts";
import { recordFrom } from "../durability/journal-record.ts";
import { RECORDS_PER_TURN, RecordCodec } from "../durability/record-codec.ts";
import { keptEvent } from "../durability/open-spans.ts";
import type { Run } from "./run.ts";
import { mailIn, postMail } from "./run-mail.ts";

/** What is asked of people in a run, and what they have said. */
interface Asked {
  /** In the order in which they were asked. */
  readonly open: readonly Question[];
  /** The tools that the model was shown in the step of each open question, as JSON text. */
  readonly toolsTexts: ReadonlyMap<QuestionId, string>;
  /** Those that were answered, or need no answer any more, and how. */
  readonly over: ReadonlyMap<QuestionId, AnswerType>;
  /** Answers that the process that leads the run has not taken yet, by question. */
  readonly posted: ReadonlyMap<QuestionId, Answer>;
  /** How many answers to each question were taken, and came to nothing if it is open still. */
  readonly taken: ReadonlyMap<QuestionId, number>;
  /** Another process leads the run: what it has just asked may not be kept yet. Default false. */
  readonly isLed?: boolean;
}

/**
 * The questions to which a run needs an answer still. Rejects with `unknown_run`, `unsupported_version`, `invalid_journal` or `store_failed`.
 */
export async function openQuestions(store: RunStore, runId: RunId): Promise<readonly Question[]> {
  const { open, posted } = await askedIn(store, runId);
  return open.filter(({ questionId }) => !posted.has(questionId));
}

/** `ledHere`: this process leads the run. */
interface PostMeans {
  readonly store: RunStore;
  readonly clock: Clock;
  readonly ledHere?: Pick<Run, "kept"> | undefined;
}

/** How often, and how many times, a question is looked for that was said and is not kept yet. */
const LOOK_MS = 50;
const MOST_LOOKS = 20;

/**
 * Posts answers, in order, and gives the questions that are still open. Rejects with `invalid_answer`, `unknown_run`, `run_ended`,
 * `unsupported_version`, `invalid_journal` or `store_failed`: nothing is posted then, unless others answer at the same time, or the store
 * fails, when some of them stand.
 */
export async function postAnswers(
  means: PostMeans,
  runId: RunId,
  given: readonly Answer[],
): Promise<readonly Question[]> {
  const { store, clock } = means;
  const asked = await askedOnceKept(means, runId, given);
  const answers = checkedAnswers(given, asked, clock.nowMs());
  await checkArguments(answers, asked);
  for (const answer of answers) {
    const { questionId } = answer;
    const key = `answer:${questionId}:${asked.taken.get(questionId) ?? 0}`;
    const number = await postMail(store, runId, { type: "answer", answer }, key);
    const [post] = await store.posts(runId, number);
    const mail = post && mailIn(post)?.mail;
    // Of two answers at once the first has its post under the key.
    if (mail?.type === "answer" && JSON.stringify(mail.answer) !== JSON.stringify(answer))
      throw answeredBefore(questionId, mail.answer.type);
  }
  const now = new Set(answers.map(({ questionId }) => questionId));
  return asked.open.filter(
    ({ questionId }) => !now.has(questionId) && !asked.posted.has(questionId),
  );
}

/** Readers have a question a little before it is kept: one that a run under way does not seem to ask is waited for. */
async function askedOnceKept(
  { store, clock, ledHere }: PostMeans,
  runId: RunId,
  given: readonly Answer[],
): Promise<Asked> {
  await ledHere?.kept().catch(() => undefined); // The store says what is wrong.
  for (let looks = 1; ; looks += 1) {
    const asked = await askedIn(store, runId);
    if (ledHere !== undefined || isAllKnown(given, asked)) return asked;
    const found = await store.find(runId);
    const isLed = found?.status === "open" && found.owner !== null;
    if (!isLed) return asked;
    if (looks === MOST_LOOKS) return { ...asked, isLed };
    await sleep(clock, LOOK_MS, NEVER);
  }
}

function isAllKnown(given: unknown, { open, over }: Asked): boolean {
  if (!Array.isArray(given)) return true;
  return given.every((one) => {
    const questionId = parsedAnswer(one)?.questionId;
    return (
      questionId === undefined ||
      over.has(questionId) ||
      open.some((question) => question.questionId === questionId)
    );
  });
}

async function askedIn(store: RunStore, runId: RunId): Promise<Asked> {
  const reader = new RecordCodec();
  const open = new Map<QuestionId, Question>();
  const over = new Map<QuestionId, AnswerType>();
  const toolsHashes = new Map<string, string>();
  const toolsTexts = new Map<QuestionId, string>();
  const definitions = new Map<string, string>();
  const handled = new Set<number>();
  const turns = new Turns(RECORDS_PER_TURN);
  let count = 0;
  for await (const line of store.read(runId)) {
    count += 1;
    const records = madeOfLine(runId, count, () => reader.read(line).map(recordFrom));
    for (const record of records) {
      if (record.type === "post") handled.add(record.number);
      if (record.type === "definition") definitions.set(record.hash, record.text);
      const event = record.type === "event" ? keptEvent(record.event) : undefined;
      if (event?.type === "step.started") toolsHashes.set(event.agentId, event.toolsHash);
      if (event?.type === "question.asked") {
        const { questionId } = event.question;
        open.set(questionId, event.question);
        const hash = toolsHashes.get(event.agentId) ?? "";
        toolsTexts.set(questionId, definitions.get(hash) ?? "");
      }
      if (event?.type === "question.answered") {
        open.delete(event.questionId);
        over.set(event.questionId, event.answer);
      }
      if (event?.type === "run.ended") open.clear();
    }
    await turns.did(records.length);
  }
  const posted = new Map<QuestionId, Answer>();
  const taken = new Map<QuestionId, number>();
  for (const post of await store.posts(runId)) {
    const mail = mailIn(post)?.mail;
    if (mail?.type !== "answer") continue;
    const { questionId } = mail.answer;
    if (!handled.has(post.number)) posted.set(questionId, mail.answer);
    else taken.set(questionId, (taken.get(questionId) ?? 0) + 1);
  }
  return { open: [...open.values()], toolsTexts, over, posted, taken };
}

function checkedAnswers(given: unknown, asked: Asked, nowMs: number): readonly Answer[] {
  if (!Array.isArray(given))
    throw wrong(
      "malformed",
      `Expected answers to be a list, got ${shown(given)}. Put it in brackets.`,
    );
  const answers: Answer[] = [];
  for (const [index, one] of given.entries()) {
    const answer = parsedAnswer(one);
    if (answer === undefined) {
      const advice = "Make it with approve, deny, giveResult or reportFailure.";
      throw wrong(
        "malformed",
        `Expected answers[${index}] to be an answer, got ${shown(one)}. ${advice}`,
      );
    }
    const { questionId } = answer;
    const question = asked.open.find((other) => other.questionId === questionId);
    const first =
      asked.posted.get(questionId)?.type ??
      (question === undefined ? asked.over.get(questionId) : undefined);
    if (first !== undefined) throw answeredBefore(questionId, first);
    if (question === undefined)
      throw wrong(
        "unknown",
        `Expected answers[${index}] to answer a question of the run, got one to ${questionId}, which it does not ask.${asked.isLed === true ? TOO_EARLY : ""}`,
        questionId,
      );
    if (answers.some((other) => other.questionId === questionId))
      throw wrong(
        "duplicate",
        `Expected one answer to ${questionId}, got a second one. Give one.`,
        questionId,
      );
    const problem = problemWith(answer, question);
    if (problem !== undefined) {
      const code = answer.argumentsHash === question.argumentsHash ? "wrong_kind" : "altered";
      throw wrong(
        code,
        `Expected answers[${index}] to fit question ${questionId}, but ${problem}. Answer the question as it is.`,
        questionId,
      );
    }
    if (question.deadlineAtMs !== null && nowMs >= question.deadlineAtMs)
      throw wrong(
        "late",
        `Expected an answer to ${questionId} before its deadline, got one after it. It counts as ${question.kind === "approval" ? "denied" : "failed"}.`,
        questionId,
      );
    answers.push(answer);
  }
  return answers;
}

/**
 * Checks the shape of arguments that an approval replaces. All other rules are checked where the
 * role is; the question stays open there if the arguments do not fit.
 *
 * @throws EspalierError `invalid_answer` that names the parameters.
 */
async function checkArguments(
  answers: readonly Answer[],
  { open, toolsTexts }: Asked,
): Promise<void> {
  for (const answer of answers) {
    if (answer.type !== "approved" || answer.arguments === undefined) continue;
    const { questionId, arguments: input } = answer;
    const question = open.find((one) => one.questionId === questionId);
    const toolsText = toolsTexts.get(questionId);
    if (question === undefined || toolsText === undefined) continue;
    const { toolName, arguments: fitting } = question;
    // The validator is large, and few answers have arguments.
    const { findArgumentProblems } = await import("./find-argument-problems.ts");
    const problems = findArgumentProblems({ toolsText, toolName, fitting }, input);
    if (problems.length === 0) continue;
    const lines = problemLines("arguments", problems).join("; ");
    const parameters = [...new Set(problems.map(({ parameter }) => parameter || "arguments"))];
    throw new EspalierError({
      code: "invalid_answer",
      message: `Expected the arguments of the answer to ${questionId} to fit ${toolName}, got others: ${lines}. Correct them and answer again.`,
      data: { problem: "invalid_arguments", questionId, parameters },
    });
  }
}

const TOO_EARLY =
  " If it has just been asked, this is too early: it is not kept yet. Answer once more in a moment.";

function answeredBefore(questionId: QuestionId, first: AnswerType): EspalierError {
  const message = `Expected a question that is open, got an answer to ${questionId}, which has been answered. The first answer counts: ${first}.`;
  return wrong("already_answered", message, questionId);
}

function wrong(problem: string, message: string, questionId?: QuestionId): EspalierError {
  const data = { problem, ...(questionId === undefined ? {} : { questionId }) };
  return new EspalierError({ code: "invalid_answer", message, data });
}

const NEVER = new CancelSignal();

/** Returns an answer, or `undefined` for a value that is none. A value that is nested too deeply for the schema is none. */
function parsedAnswer(given: unknown): Answer | undefined {
  try {
    return AnswerSchema.safeParse(given).data;
  } catch (cause) {
    if (cause instanceof RangeError) return undefined;
    throw cause;
  }
}
