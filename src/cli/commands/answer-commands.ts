// The commands `questions`, `approve`, `deny` and `answer`. An answer is sent to the mailbox of its
// run, where the first answer to a question counts.

import { hash } from "node:crypto";

import {
  EspalierError,
  Orchestrator,
  type Answer,
  type Question,
  type RunQuestion,
  approve,
  deny,
  provideResult,
  provideError,
} from "espalier";
import { stripControlCharacters } from "espalier/terminal";

import type { CommandCall, CommandBody } from "../command-call.ts";
import { EXIT_CODES, UsageError } from "../exit-codes.ts";
import { formatJsonLine, parseJsonObject, parseJsonOrText } from "../json-text.ts";
import { openProjectStore, type ChosenStore } from "../project.ts";
import { suggestAnswerCommands } from "../run-text.ts";
import { isConfirmed, isTerminal, printNotice, printLine, readAuthor } from "../shell.ts";
import { LAST_RUN, describeUnreadableRun } from "../stored-run-reader.ts";

/**
 * Shows the named question, answers it, and prints the remaining questions. Returns the exit code.
 * A person at the terminal confirms an approval, unless the command has `--yes` or `--json`.
 */
async function giveAnswer(
  call: CommandCall,
  answerTo: (question: Question) => Answer,
): Promise<number> {
  const { shell, args, has } = call;
  await using chosenStore = await openProjectStore(call, "write");
  const { store } = chosenStore;
  const question = await resolveQuestionName(chosenStore, args[0] ?? "");
  const { runId } = question;
  const answer = answerTo(question);
  if (!has("json"))
    for (const line of describeAnswer(question, answer))
      printNotice(shell, stripControlCharacters(line));
  const isApproval = answer.type === "approved" && question.kind === "approval";
  const isAsked = isApproval && isTerminal(shell) && !has("yes") && !has("json");
  if (isAsked && !(await isConfirmed(shell, "May it run?", false))) {
    printNotice(shell, "No question was answered.");
    return EXIT_CODES.paused;
  }
  const open = await new Orchestrator({ store }).answer(runId, [answer]).catch((cause: unknown) => {
    const isOfOtherKind = EspalierError.is(cause) && cause.data["problem"] === "wrong_kind";
    throw isOfOtherKind ? createAnswerKindError(question, cause) : cause;
  });
  if (has("json")) {
    const { questionId, agentPath, toolName } = question;
    const edited = answer.type === "approved" ? answer.arguments : undefined;
    const input = edited ?? question.arguments;
    const about = { runId, questionId, agentPath, toolName, arguments: input };
    const { type, by } = answer;
    printLine(shell, formatJsonLine({ ...about, answer: type, by, openQuestions: open }));
    return 0;
  }
  const author = answer.by === undefined ? "" : ` by ${answer.by}`;
  const outcome = `${question.toolName} ${ANSWERED[answer.type]}${author}`;
  printNotice(shell, stripControlCharacters(`${question.agentPath}: ${outcome}.`));
  const { owner = null } = (await store.find(runId)) ?? {};
  const continuation =
    owner === null
      ? `Resume the run: ${call.command} resume ${runId}`
      : "The process that owns the run will continue.";
  const isLast = open.length === 0;
  printNotice(
    shell,
    isLast ? continuation : `${open.length} more to answer: ${call.command} questions`,
  );
  return 0;
}

function describeAnswer(question: Question, answer: Answer): readonly string[] {
  const { agentPath, toolName, reason } = question;
  const { arguments: shown, writtenArguments = shown } = question;
  const edited = answer.type === "approved" ? answer.arguments : undefined;
  const [requested, written, approved] = [shown, writtenArguments, edited ?? writtenArguments].map(
    formatJsonLine,
  );
  return [
    `${agentPath} asks: ${toolName} ${requested}`,
    ...(reason === "" ? [] : [`  ${reason}`]),
    ...(written === approved ? [] : [`  with these arguments instead: ${approved}`]),
  ];
}

function createAnswerKindError(question: Question, cause: unknown): UsageError {
  const { questionId, agentPath, toolName, kind } = question;
  const wanted = kind === "approval" ? "an approval or a denial" : "a result or a failure";
  return new UsageError(
    `Expected ${wanted} for ${toolName} of ${agentPath}, got another kind of answer. Use: ${suggestAnswerCommands(question, questionId, "espalier")}`,
    { cause },
  );
}

const ANSWERED: Readonly<Record<Answer["type"], string>> = {
  approved: "is approved",
  denied: "is denied",
  result: "is given its result",
  failure: "is reported as failed",
};

const CODE_LENGTH = 6;

/**
 * Returns the code of a question in the list. It is a hash of the question and its arguments, so
 * that it names the same call whatever else is asked or answered.
 */
function computeQuestionCode({ runId, questionId, argumentsHash }: RunQuestion): string {
  return hash("sha256", JSON.stringify([runId, questionId, argumentsHash])).slice(0, CODE_LENGTH);
}

/**
 * Returns the named question. A name is the code in `espalier questions`, a question id or its
 * prefix, a run with only one question, or `@last` for the newest run with questions.
 *
 * @throws UsageError if no question matches, or more than one.
 */
async function resolveQuestionName(chosenStore: ChosenStore, name: string): Promise<RunQuestion> {
  const { questions: all } = await new Orchestrator({ store: chosenStore.store }).listQuestions();
  const newest = all.at(-1);
  const exact = all.filter(({ questionId }) => questionId === name);
  const begun = all.filter(({ runId, questionId }) => {
    if (name === LAST_RUN) return runId === newest?.runId;
    return name !== "" && (questionId.startsWith(name) || runId.startsWith(name));
  });
  const coded = all.filter((question) => computeQuestionCode(question) === name);
  const found = [exact, coded, begun].find(({ length }) => length > 0) ?? [];
  const [only] = found;
  if (only !== undefined && found.length === 1) return only;
  if (only === undefined)
    throw new UsageError(
      `No open question matches ${JSON.stringify(name)} in ${chosenStore.name}. Use the code of a question, its id, a prefix of its id, or a run with one open question. List them: espalier questions`,
    );
  const codes = found.map((question) => {
    const { toolName, arguments: input } = question;
    return `${computeQuestionCode(question)} (${toolName} ${truncate(formatJsonLine(input))})`;
  });
  throw new UsageError(
    `${JSON.stringify(name)} is ambiguous: it matches ${found.length} questions: ${codes.join(", ")}. Use the code of one.`,
  );
}

/**
 * `espalier questions`: lists the open questions of the project in full, with the commands that
 * answer them.
 */
export const listQuestions: CommandBody = async (call) => {
  const { shell, has } = call;
  await using chosenStore = await openProjectStore(call, "list");
  const { questions: open, failed } = await new Orchestrator({
    store: chosenStore.store,
  }).listQuestions();
  for (const { runId, error } of failed) printNotice(shell, describeUnreadableRun(runId, error));
  if (has("json")) {
    printLine(shell, formatJsonLine({ questions: open }));
    return 0;
  }
  if (open.length === 0) printNotice(shell, "No run has a pending question.");
  const texts = open.map((question) =>
    stripControlCharacters(describeQuestion(question, call.command)),
  );
  if (texts.length > 0) printLine(shell, texts.join("\n\n"));
  return 0;
};

function describeQuestion(question: RunQuestion, command: string): string {
  const { runId, runTitle } = question;
  const { agentPath, toolName, reason, deadlineAtMs } = question;
  const code = computeQuestionCode(question);
  const until = deadlineAtMs === null ? "" : ` · answer by ${new Date(deadlineAtMs).toISOString()}`;
  return [
    `${code} ? ${agentPath} asks: ${toolName}${until}`,
    `run ${runId}  ${runTitle}`,
    formatJsonLine(question.arguments),
    ...(question.writtenArguments === undefined
      ? []
      : [`made of ${formatJsonLine(question.writtenArguments)}`]),
    reason,
    suggestAnswerCommands(question, code, command),
  ]
    .join("\n")
    .replaceAll("\n", "\n  ");
}

/** `espalier approve <question>`: approves a call, with its own or other arguments. */
export const approveCall: CommandBody = async (call) => {
  const text = call.text("arguments");
  const input = text === undefined ? undefined : parseJsonObject(text);
  if (text !== undefined && input === undefined)
    throw new UsageError(
      `Expected --arguments to be a JSON object, as '{"path": "a.txt"}', of finite numbers and at most 200 levels, got ${formatJsonLine(truncate(text))}.`,
    );
  const edit = input === undefined ? {} : { arguments: input };
  return await giveAnswer(call, (question) =>
    approve(question, { ...edit, ...readAuthor(call.shell, call.text("by")) }),
  );
};

/** Maximum length of arguments in an error. */
const MAX_QUOTED = 200;

function truncate(text: string): string {
  return text.length <= MAX_QUOTED ? text : `${text.slice(0, MAX_QUOTED)}…`;
}

/** `espalier deny <question>`: denies a call with a reason, which the model reads. */
export const denyCall: CommandBody = async (call) =>
  await giveAnswer(call, (question) =>
    deny(question, call.text("reason"), readAuthor(call.shell, call.text("by"))),
  );

/** `espalier answer <question>`: provides the result of an external call. */
export const answerCall: CommandBody = async (call) => {
  const result = call.text("result");
  const failure = call.text("failure");
  if ((result === undefined) === (failure === undefined))
    throw new UsageError(
      `Expected --result or --failure, got ${result === undefined ? "neither" : "both"}. Pass one of them.`,
    );
  return await giveAnswer(call, (question) =>
    result === undefined
      ? provideError(question, failure ?? "", readAuthor(call.shell, call.text("by")))
      : provideResult(question, parseJsonOrText(result), readAuthor(call.shell, call.text("by"))),
  );
};
