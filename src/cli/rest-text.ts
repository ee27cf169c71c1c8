// The text on stderr for a run that rests: why it did not complete, the first cause first, and what to do next. Pure.

import type { Question, RunResult } from "espalier";
import { plainText } from "espalier/terminal";
import type { Cause } from "espalier/view";

import { REST_SIGNS } from "../terminal/activity-text.ts";
import { wayToGrant } from "./amount-options.ts";
import { jsonLine } from "./json-text.ts";
import { costText, durationText, numberOf, unpricedText } from "../view/amounts.ts";

/** What the text depends on. */
interface RestOptions {
  /** Only what went wrong, and what is asked. */
  readonly isQuiet: boolean;
  readonly isKept: boolean;
  /** How this command is called. */
  readonly command: string;
}

/** The lines for a run that rests. */
export function restLines(
  result: RunResult,
  causes: readonly Cause[],
  { isQuiet, isKept, command }: RestOptions,
): readonly string[] {
  const { status, runId } = result;
  const closing = isQuiet && status === "completed" ? [] : [closingLine(result, causes)];
  if (status === "completed") return [...closing, ...wayLines(result, causes)].map(plainText);
  return [
    ...closing,
    ...(status === "paused" ? questionTexts(result) : causeLines(causes)),
    ...(isKept
      ? nextLines(result, command)
      : [`The run was kept nowhere: it cannot be shown or resumed.`]),
    ...(isKept && status === "failed" ? [`See it: ${command} show ${runId} --errors`] : []),
  ].map(plainText);
}

/** Why it ended is left to the causes below, if one of them says it. */
function closingLine(result: RunResult, causes: readonly Cause[]): string {
  const { status, reason, runId, agents, durationMs, usage } = result;
  const spent = [
    numberOf(agents.length, "agent"),
    numberOf(usage.total.totalTokens, "token"),
    `cost ${costText(usage.total)}${unpricedText(unpricedIn(result))}`,
    durationText(durationMs),
  ].join(", ");
  if (status === "completed") return `${runId} completed: ${spent}`;
  const isSaid = status !== "paused" && causes.some(({ message }) => message === reason.message);
  return `${runId} ${status} (${reason.code})${isSaid ? "" : `: ${reason.message}`} · ${spent}`;
}

function unpricedIn({ usage }: RunResult): readonly string[] {
  const models = Object.entries(usage.byModel);
  return models.flatMap(([model, { unpricedCalls }]) => (unpricedCalls > 0 ? [model] : []));
}

/** Of a run that completed although subagents failed, or came to limits. */
function wayLines({ errors }: RunResult, causes: readonly Cause[]): readonly string[] {
  if (causes.length === 0) return [];
  const count = errors.length === 1 ? "One agent" : `${errors.length} agents`;
  const heading = errors.length === 0 ? LIMITS_HEADING : `${count} failed on the way:`;
  return [heading, ...causeLines(causes)];
}

/** Above the causes of a run that continued, and in which nothing failed. */
export const LIMITS_HEADING = "Limits on the way, the first one first:";

/** Why, the first cause first. */
export function causeLines(causes: readonly Cause[]): readonly string[] {
  return causes.flatMap(linesOf).map(plainText);
}

function linesOf({ agentPath, step, toolName, code, message, isLimit }: Cause): readonly string[] {
  const { icon } = isLimit ? REST_SIGNS.stopped : REST_SIGNS.failed;
  const where = [
    agentPath,
    ...(step === undefined ? [] : [`step ${step}`]),
    ...(toolName === undefined ? [] : [toolName]),
  ].join(" · ");
  return [`  ${icon} ${where}: ${code}`, `    ${message.replaceAll("\n", "\n    ")}`];
}

function questionTexts({ questions }: RunResult): readonly string[] {
  return questions.flatMap((question) => [
    `  ? ${question.agentPath}: ${question.toolName} ${jsonLine(question.arguments)}`,
    `    ${question.reason}`,
  ]);
}

function nextLines(
  { status, reason, runId, questions }: RunResult,
  command: string,
): readonly string[] {
  if (status === "stopped") {
    const more = wayToGrant(reason.code, runId, command);
    return more === undefined ? [] : [`Give it more: ${more}`];
  }
  if (status !== "paused") return [];
  const next = `${command} resume ${runId}`;
  const [first, ...others] = questions;
  if (first === undefined) return [`Go on: ${next}`];
  return others.length === 0
    ? [`Answer: ${waysToAnswer(first, runId, command)}. Then: ${next}`]
    : [`See how to answer each: ${command} questions. Then: ${next}`];
}

/** What to type for an answer. `name`: of the question, or of a run that asks it alone. */
export function waysToAnswer(
  { kind }: Pick<Question, "kind">,
  name: string,
  command: string,
): string {
  return kind === "approval"
    ? `${command} approve ${name}, or ${command} deny ${name} --reason "…"`
    : `${command} answer ${name} --result "…"`;
}
