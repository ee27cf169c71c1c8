// What is said on stderr of a run that rests: why it did not complete, the first cause first, and what to do next. Pure.

import type { RunResult } from "espalier";
import { plainText } from "espalier/terminal";
import type { Cause } from "espalier/view";

import { REST_SIGNS } from "../terminal/activity-text.ts";

/** For whom it is said. */
interface RestOptions {
  /** Only what went wrong, and what is asked. */
  readonly isQuiet: boolean;
  readonly isKept: boolean;
  /** How this command is called. */
  readonly command: string;
}

const MICRO_PER_USD = 1_000_000;

/** The lines for a run that rests. */
export function restLines(
  result: RunResult,
  causes: readonly Cause[],
  { isQuiet, isKept, command }: RestOptions,
): readonly string[] {
  const { status, runId } = result;
  const closing = isQuiet && status === "completed" ? [] : [closingLine(result)];
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

function closingLine({ status, reason, runId, agents, durationMs, usage }: RunResult): string {
  const { totalTokens, costMicroUsd, unpricedCalls } = usage.total;
  const cost = unpricedCalls > 0 ? "cost unknown" : `$${(costMicroUsd / MICRO_PER_USD).toFixed(4)}`;
  const count = agents.length === 1 ? "1 agent" : `${agents.length} agents`;
  const why = status === "completed" ? "" : ` (${reason.code}): ${reason.message}`;
  const spent = `${count}, ${totalTokens} tokens, ${cost}, ${(durationMs / 1_000).toFixed(1)}s`;
  return `${runId} ${status}${why}${why === "" ? ": " : " · "}${spent}`;
}

/** Of a run that completed although subagents failed, or came to limits. */
function wayLines({ errors }: RunResult, causes: readonly Cause[]): readonly string[] {
  if (causes.length === 0) return [];
  const count = errors.length === 1 ? "One agent" : `${errors.length} agents`;
  const heading = errors.length === 0 ? LIMITS_HEADING : `${count} failed on the way:`;
  return [heading, ...causeLines(causes)];
}

/** Above the causes of a run that went on, and in which nothing failed. */
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
    `  ? ${question.agentPath}: ${question.toolName} ${JSON.stringify(question.arguments)}`,
    `    ${question.reason}`,
  ]);
}

function nextLines({ status, runId, questions }: RunResult, command: string): readonly string[] {
  if (status !== "paused") return [];
  if (questions.length === 0) return [`Go on: ${command} resume ${runId}`];
  return [
    `Answer: ${command} approve ${runId}, or ${command} deny ${runId} --reason "…". Then: ${command} resume ${runId}`,
  ];
}
