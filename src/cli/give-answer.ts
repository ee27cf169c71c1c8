// What `approve`, `deny` and `answer` have in common: one answer to one question, into the mailbox of its run, where the first one counts.

import { EspalierError, Orchestrator, type Answer, type Question } from "espalier";
import { plainText } from "espalier/terminal";

import type { CommandCall } from "./command-call.ts";
import { EXIT_CODES } from "./exit-codes.ts";
import { jsonLine } from "./json-text.ts";
import { namedQuestion } from "./open-questions-of.ts";
import { findProject } from "./project.ts";
import { waysToAnswer } from "./rest-text.ts";
import { isConfirmed, isTerminal, note, ownCommand, say } from "./shell.ts";
import { openKeptStore, storePlace } from "./store-choice.ts";
import { UsageError } from "./usage-error.ts";

/**
 * Answers the question that a command was given, once the call that it is about is on the screen, and says what is open still. Gives the exit
 * code. A person at the terminal is asked before a call is approved, unless the command has `--yes`, or `--json`.
 */
export async function giveAnswer(
  call: CommandCall,
  answerTo: (question: Question) => Answer,
): Promise<number> {
  const { shell, args, has } = call;
  const project = await findProject(shell);
  await using kept = await openKeptStore(storePlace(call, project));
  const { store } = kept;
  const { run, question } = await namedQuestion(store, args[0] ?? "");
  const { runId } = run;
  const answer = answerTo(question);
  if (!has("json")) for (const line of callLines(question, answer)) note(shell, plainText(line));
  const isApproval = answer.type === "approved" && question.kind === "approval";
  const isAsked = isApproval && isTerminal(shell) && !has("yes") && !has("json");
  if (isAsked && !(await isConfirmed(shell, "May it run?", false))) {
    note(shell, "Nothing was answered.");
    return EXIT_CODES.paused;
  }
  const open = await new Orchestrator({ store }).answer(runId, [answer]).catch((cause: unknown) => {
    const isOfOtherKind = EspalierError.is(cause) && cause.data["problem"] === "wrong_kind";
    throw isOfOtherKind ? otherKind(question, cause) : cause;
  });
  if (has("json")) {
    const { questionId, agentPath, toolName } = question;
    const edited = answer.type === "approved" ? answer.arguments : undefined;
    const input = edited ?? question.arguments;
    const about = { runId, questionId, agentPath, toolName, arguments: input };
    say(shell, jsonLine({ ...about, answer: answer.type, open }));
    return 0;
  }
  note(shell, plainText(`${question.agentPath}: ${question.toolName} ${ANSWERED[answer.type]}.`));
  const next =
    open.length > 0
      ? `${open.length} more to answer: ${ownCommand(shell)} questions`
      : run.owner === null
        ? `Go on: ${ownCommand(shell)} resume ${runId}`
        : "Whoever leads the run goes on with it.";
  note(shell, next);
  return 0;
}

function callLines(question: Question, answer: Answer): readonly string[] {
  const { agentPath, toolName, reason } = question;
  const { arguments: shown, writtenArguments = shown } = question;
  const edited = answer.type === "approved" ? answer.arguments : undefined;
  const [asked, written, given] = [shown, writtenArguments, edited ?? writtenArguments].map(
    jsonLine,
  );
  return [
    `${agentPath} asks: ${toolName} ${asked}`,
    ...(reason === "" ? [] : [`  ${reason}`]),
    ...(written === given ? [] : [`  with these arguments instead: ${given}`]),
  ];
}

function otherKind(question: Question, cause: unknown): UsageError {
  const { questionId, agentPath, toolName, kind } = question;
  const wanted = kind === "approval" ? "whether it may run" : "what came of it";
  return new UsageError(
    `Expected an answer that says of ${toolName} of ${agentPath} ${wanted}, got another kind. Answer: ${waysToAnswer(question, questionId, "espalier")}`,
    { cause },
  );
}

const ANSWERED: Readonly<Record<Answer["type"], string>> = {
  approved: "is approved",
  denied: "is denied",
  result: "has its result",
  failure: "is called a failure",
};
