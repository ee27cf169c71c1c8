// What `approve`, `deny` and `answer` have in common: one answer to one question, into the mailbox of its run, where the first one counts.

import { Orchestrator, type Answer, type Question } from "espalier";

import type { CommandCall } from "./command-call.ts";
import { jsonLine } from "./json-text.ts";
import { namedQuestion } from "./open-questions-of.ts";
import { findProject } from "./project.ts";
import { note, ownCommand, say } from "./shell.ts";
import { openKeptStore, storePlace } from "./store-choice.ts";

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
  const open = await new Orchestrator({ store }).answer(runId, [answer]);
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

const ANSWERED: Readonly<Record<Answer["type"], string>> = {
  approved: "is approved",
  denied: "is denied",
  result: "has its result",
  failure: "is called a failure",
};
