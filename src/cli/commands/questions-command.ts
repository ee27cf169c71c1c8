// `espalier questions`: what runs of the project ask, whole, and how to answer.

import { plainText } from "espalier/terminal";

import type { CommandBody } from "../command-call.ts";
import { jsonLine } from "../json-text.ts";
import { askedQuestions, type AskedQuestion } from "../open-questions-of.ts";
import { findProject } from "../project.ts";
import { waysToAnswer } from "../rest-text.ts";
import { unreadableText } from "../run-reading.ts";
import { note, ownCommand, say } from "../shell.ts";
import { openStoreToList } from "../store-choice.ts";

export const body: CommandBody = async (call) => {
  const { shell, has } = call;
  const project = await findProject(shell);
  await using kept = await openStoreToList(call, project);
  const asked = await askedQuestions(kept.store, (run, problem) =>
    note(shell, unreadableText(run, problem)),
  );
  if (has("json")) {
    const questions = asked.map(({ run: { runId, title }, question }) => ({
      runId,
      title,
      ...question,
    }));
    say(shell, jsonLine({ questions }));
    return 0;
  }
  if (asked.length === 0) note(shell, "No run asks anything.");
  const texts = asked.map((one) => plainText(textOf(one, ownCommand(shell))));
  if (texts.length > 0) say(shell, texts.join("\n\n"));
  return 0;
};

function textOf({ run, question, number }: AskedQuestion, command: string): string {
  const { questionId, agentPath, toolName, reason, deadlineAtMs } = question;
  const until =
    deadlineAtMs === null ? "" : ` · to be answered by ${new Date(deadlineAtMs).toISOString()}`;
  return [
    `${number}. ? ${questionId}  ${agentPath} asks: ${toolName}${until}`,
    `  run ${run.runId}  ${run.title}`,
    `  ${jsonLine(question.arguments)}`,
    ...(question.writtenArguments === undefined
      ? []
      : [`  made of ${jsonLine(question.writtenArguments)}`]),
    `  ${reason}`,
    `  ${waysToAnswer(question, questionId, command)}`,
  ].join("\n");
}
