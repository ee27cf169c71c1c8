// Events as plain lines, for logs and for terminals that do not want to be drawn on. Pure.

import type { EspalierEvent, Usage } from "../index.ts";
import { countText, costText, durationText, numberOf } from "./amounts.ts";
import { firstLine, fit, oneLine } from "./terminal-text.ts";

const LONGEST_TEXT = 160;

/** The line for an event, without its time; undefined if the event is not worth one. */
export function plainLine(event: EspalierEvent): string | undefined {
  const text = textOf(event);
  return text === undefined ? undefined : `${oneLine(event.agentPath)} ${text}`;
}

function textOf(event: EspalierEvent): string | undefined {
  switch (event.type) {
    case "agent.started":
      return `started: ${fit(firstLine(event.task), LONGEST_TEXT)}`;
    case "agent.ended": {
      const { status, reason, steps, usage, durationMs } = event;
      const why = status === "completed" ? "" : ` (${reason.code}: ${short(reason.message)})`;
      const subtree =
        usage.descendants.totalTokens === 0 ? "" : `, subtree ${spentText(usage.total)}`;
      const spent = `${numberOf(steps, "step")}, ${spentText(usage.own)}${subtree}`;
      return `${status}${why}: ${spent}, ${durationText(durationMs)}`;
    }
    case "step.completed": {
      const { number, usage, toolCalls } = event;
      const asked = toolCalls === 0 ? "" : `, ${numberOf(toolCalls, "tool call")}`;
      return `step ${number}: ${spentText(usage)}${asked}`;
    }
    case "model.retried": {
      const { attempt, error, delayMs } = event;
      const next = `the next one in ${durationText(delayMs)}`;
      return `attempt ${attempt} failed (${error.code}), ${next}: ${short(error.message)}`;
    }
    case "tool.ended":
      return isNews(event)
        ? `${oneLine(event.toolName)} ${event.outcome} (${event.errorCode})`
        : undefined;
    case "subagent.refused": {
      const { code, message } = event.refusal;
      return `spawn of ${oneLine(event.role)} refused (${code}): ${short(message)}`;
    }
    case "run.started":
    case "run.ended":
    case "step.started":
    case "model.requested":
    case "model.replied":
    case "model.failed":
    case "tool.started":
    case "subagent.spawned":
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

/** Failures of tools. Those of subagents, and refused spawns, have a line of their own already. */
function isNews({ outcome, errorCode }: EspalierEvent<"tool.ended">): boolean {
  if (outcome === "failed") return errorCode !== "subagent_failed";
  return outcome === "refused" && errorCode === "tool_calls_limit";
}

function spentText(usage: Usage): string {
  return `${countText(usage.totalTokens)} tokens, ${costText(usage)}`;
}

function short(text: string): string {
  return fit(oneLine(text), LONGEST_TEXT);
}
