// What `approve`, `deny` and `answer` have in common: one answer to one question, into the mailbox of its run, where the first one counts.

import { EspalierError, Orchestrator, type Answer, type Question } from "espalier";

import type { CommandCall } from "./command-call.ts";
import { jsonLine } from "./json-text.ts";
import { namedQuestion } from "./open-questions-of.ts";
import { findProject } from "./project.ts";
import { waysToAnswer } from "./rest-text.ts";
import { note, ownCommand, say } from "./shell.ts";
import { openKeptStore, storePlace } from "./store-choice.ts";
import { UsageError } from "./usage-error.ts";

/** Answers the question that a command was given, and says what is open still. Gives the exit code. */
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
  const open = await new Orchestrator({ store }).answer(runId, [answer]).catch((cause: unknown) => {
    throw isOfOtherKind(cause) ? otherKind(question, cause) : cause;
  });
  if (has("json")) {
    const { questionId } = question;
    say(shell, jsonLine({ runId, questionId, answer: answer.type, open }));
    return 0;
  }
  note(shell, `${question.agentPath}: ${question.toolName} ${ANSWERED[answer.type]}.`);
  const next =
    open.length > 0
      ? `${open.length} more to answer: ${ownCommand(shell)} questions`
      : run.owner === null
        ? `Go on: ${ownCommand(shell)} resume ${runId}`
        : "Whoever leads the run goes on with it.";
  note(shell, next);
  return 0;
}

function isOfOtherKind(cause: unknown): boolean {
  return EspalierError.is(cause) && cause.data["problem"] === "wrong_kind";
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
