// Events as plain lines, for logs and for terminals that do not want to be drawn on. Pure.

import type { EspalierEvent, Usage } from "../index.ts";
import { countText, costText, durationText, numberOf } from "./amounts.ts";
import { openQuestion } from "./open-questions.ts";
import { firstLine, fit, singleLine } from "./terminal-text.ts";

const LONGEST_TEXT = 160;
const PERCENT = 100;

/** The line for an event, without its time; undefined if the event is not worth one. */
export function plainLine(event: EspalierEvent): string | undefined {
  const text = textOf(event);
  return text === undefined ? undefined : `${singleLine(event.agentPath)} ${text}`;
}

function textOf(event: EspalierEvent): string | undefined {
  switch (event.type) {
    case "agent.started":
      return `started: ${fit(firstLine(event.task), LONGEST_TEXT)}`;
    case "agent.ended":
      return endText(event);
    case "step.completed":
      return stepText(event);
    case "model.retried":
    case "model.warned":
      return modelText(event);
    case "tool.rejected":
    case "tool.ended":
    case "tool.retried":
    case "result.summarized":
      return toolText(event);
    case "subagent.refused": {
      const { code, message } = event.refusal;
      return `spawn of ${singleLine(event.role)} refused (${code}): ${short(message)}`;
    }
    case "agent.paused":
    case "agent.resumed":
    case "run.paused":
    case "run.resumed":
    case "question.asked":
    case "question.answered":
      return pauseText(event);
    case "conversation.compacted":
      return compactedText(event);
    case "message.delivered":
      return deliveredText(event);
    case "hook.applied":
      return event.after === undefined ? undefined : changedText(event);
    case "budget.threshold_reached":
    case "budget.granted":
      return budgetText(event);
    case "run.started":
    case "run.ended":
    case "step.started":
    case "model.requested":
    case "model.replied":
    case "model.failed":
    case "tool.started":
    case "tool.paused":
    case "tool.resumed":
    case "request.repaired":
    case "section.cleared":
    case "reply.filtered":
    case "tools.filtered":
    case "tool.guarded":
    case "tool.progressed":
    case "subagent.spawned":
    case "subagent.continued":
    case "subagent.detached":
    case "subagent.ended":
    case "budget.reserved":
    case "budget.released":
    case "budget.settled":
    case "budget.denied":
    case "signal.raised":
    case "continuation.evaluated":
      return undefined;
    default:
      event satisfies never;
      return undefined;
  }
}

function modelText(event: EspalierEvent<"model.retried" | "model.warned">): string {
  if (event.type === "model.warned") return `the model warned: ${short(event.warning)}`;
  const { attempt, error, delayMs } = event;
  const next = `the next one in ${durationText(delayMs)}`;
  return `attempt ${attempt} failed (${error.code}), ${next}: ${short(error.message)}`;
}

function stepText({ number, usage, toolCalls }: EspalierEvent<"step.completed">): string {
  const asked = toolCalls === 0 ? "" : `, ${numberOf(toolCalls, "tool call")}`;
  return `step ${number}: ${spentText(usage)}${asked}`;
}

function endText(event: EspalierEvent<"agent.ended">): string {
  const { status, reason, steps, usage, durationMs } = event;
  const why = status === "completed" ? "" : ` (${reason.code}: ${short(reason.message)})`;
  const subtree = usage.descendants.totalTokens === 0 ? "" : `, subtree ${spentText(usage.total)}`;
  const spent = `${numberOf(steps, "step")}, ${spentText(usage.own)}${subtree}`;
  return `${status}${why}: ${spent}, ${durationText(durationMs)}`;
}

/** What went wrong with a tool call, or was done about it. */
function toolText(
  event: EspalierEvent<"tool.rejected" | "tool.ended" | "tool.retried" | "result.summarized">,
): string | undefined {
  const toolName = singleLine(event.toolName);
  switch (event.type) {
    case "tool.rejected": {
      const { outcome, errorCode, reason } = event;
      const why = reason === undefined ? "" : `: ${short(reason)}`;
      return isNews(event) ? `${toolName} ${outcome} (${errorCode})${why}` : undefined;
    }
    case "tool.ended":
      return isNews(event) ? `${toolName} ${event.outcome} (${event.errorCode})` : undefined;
    case "tool.retried": {
      const { attempt, error, delayMs } = event;
      const next = `the next one in ${durationText(delayMs)}`;
      return `attempt ${attempt} of ${toolName} failed (${error.code}), ${next}: ${short(error.message)}`;
    }
    case "result.summarized": {
      const { resultCharacters, usage } = event;
      return `result of ${toolName} summarised: ${countText(resultCharacters)} characters, ${spentText(usage)}`;
    }
  }
}

function budgetText(event: EspalierEvent<"budget.threshold_reached" | "budget.granted">): string {
  return event.type === "budget.granted"
    ? `was granted more by ${short(event.by)}: ${Object.keys(event.budget).join(", ")}`
    : `has spent ${Math.round(event.threshold * PERCENT)} % of its ${event.axis} budget`;
}

/** A signal from inside the run is shown where it arose. */
function deliveredText({
  origin,
  characters,
}: EspalierEvent<"message.delivered">): string | undefined {
  return origin === "steering" ? `was steered: ${numberOf(characters, "character")}` : undefined;
}

function compactedText(event: EspalierEvent<"conversation.compacted">): string {
  const { messagesBefore, messagesAfter, tokensBefore, tokensAfter } = event;
  const messages = `${countText(messagesBefore)} to ${countText(messagesAfter)} messages`;
  const tokens = `${countText(tokensBefore)} to ${countText(tokensAfter)} tokens`;
  return `conversation compacted: ${messages}, ${tokens}`;
}

type PauseEvent = EspalierEvent<
  | "agent.paused"
  | "agent.resumed"
  | "run.paused"
  | "run.resumed"
  | "question.asked"
  | "question.answered"
>;

/** What leads to a pause, and out of it. */
function pauseText(event: PauseEvent): string {
  switch (event.type) {
    case "agent.paused":
      return `paused (${singleLine(event.reason.code)}: ${short(event.reason.message)})`;
    case "agent.resumed":
      return `resumed: ${fit(firstLine(event.task), LONGEST_TEXT)}`;
    case "run.paused": {
      const { questions, usage, durationMs } = event;
      const needed = `${numberOf(questions.length, "answer")} needed`;
      return `run paused: ${needed}, ${spentText(usage.total)}, ${durationText(durationMs)}`;
    }
    case "run.resumed": {
      const answers = numberOf(event.answers, "answer");
      return `run resumed after ${durationText(event.pausedMs)}, with ${answers}`;
    }
    case "question.asked": {
      const { toolName, arguments: given, reason } = openQuestion(event.question);
      return `needs you: ${toolName} ${given}: ${reason}`;
    }
    case "question.answered": {
      const { toolName, answer, by, waitedMs, reason } = event;
      const why = reason === undefined ? "" : `: ${short(reason)}`;
      const said = `${ANSWERS[answer]} ${DECIDERS[by]}`;
      return `${singleLine(toolName)} ${said} after ${durationText(waitedMs)}${why}`;
    }
  }
}

type Answered = EspalierEvent<"question.answered">;

const ANSWERS: Readonly<Record<Answered["answer"], string>> = {
  approved: "was approved",
  denied: "was denied",
  result: "was given its result",
  failure: "was called a failure",
};

const DECIDERS: Readonly<Record<Answered["by"], string>> = {
  approver: "by the approver",
  caller: "by the caller",
  deadline: "by its deadline",
  nobody: "as nobody could be asked",
  end: "as its agent ended",
};

/** Only what changes the arguments of a call: then something else is done than the model wrote. */
function changedText({ changedBy }: EspalierEvent<"hook.applied">): string {
  const hooks = changedBy.map(({ hook }) => singleLine(hook)).join(", ");
  return `arguments of a call changed by ${hooks}`;
}

/**
 * Failures of tools, and calls that a limit or a hook refused. Those of subagents, refused spawns
 * and denials have a line of their own already.
 */
function isNews({
  outcome,
  errorCode = "",
}: EspalierEvent<"tool.rejected" | "tool.ended">): boolean {
  if (outcome === "retry") return true;
  if (outcome === "failed") return errorCode !== "subagent_failed";
  return outcome === "refused" && REFUSALS.has(errorCode);
}

const REFUSALS: ReadonlySet<string> = new Set([
  "tool_calls_limit",
  "tool_not_available",
  "blocked",
  "approval_check_failed",
]);

function spentText(usage: Usage): string {
  return `${countText(usage.totalTokens)} tokens, ${costText(usage)}`;
}

function short(text: string): string {
  return fit(singleLine(text), LONGEST_TEXT);
}
