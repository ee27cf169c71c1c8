// The activity of an agent as one sign and a few words.

import type { SettledStatus } from "../index.ts";
import { countNames } from "../read-model/amounts.ts";
import type { CallUnderWay } from "../read-model/step-fold.ts";
import { findSettledStatus, type ShownAgent } from "./fold-tree.ts";
import type { Cell } from "./table.ts";
import { formatShortLine, type Style } from "./terminal-text.ts";

const SPINNER = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const SPINNER_FRAME_MS = 100;

/** Sign and colour of questions, and of everything that waits for a person. */
export const QUESTION: StatusSign = { icon: "?", style: "magenta" };

/** Sign and colour of a run, or an agent, whose process is gone. */
export const LOST: StatusSign = { icon: "◌", style: "red" };

interface StatusSign {
  readonly icon: string;
  readonly style: Style;
}

/** Sign and colour of a status. */
export const REST_SIGNS: Readonly<Record<SettledStatus, StatusSign>> = {
  paused: { icon: "‖", style: "magenta" },
  completed: { icon: "✔", style: "green" },
  stopped: { icon: "■", style: "yellow" },
  failed: { icon: "✖", style: "red" },
  cancelled: { icon: "⊘", style: "yellow" },
};

/** Returns the animated sign for active work. */
export function drawSpinner(nowMs: number): string {
  return SPINNER[Math.floor(nowMs / SPINNER_FRAME_MS) % SPINNER.length] ?? "·";
}

/**
 * Returns sign and words in their colour, such as `⠹ thinking`, `■ step_limit`, or
 * `◌ lost: thinking` for work in a process that is gone. Only names of tools and custom codes exceed
 * the column of a terminal with 80 columns.
 */
export function formatActivityCell(agent: ShownAgent, nowMs: number, isLost = false): Cell {
  const cell = formatActivity(agent, nowMs);
  if (!isLost || findSettledStatus(agent) !== undefined) return cell;
  return { text: `${LOST.icon} lost: ${cell.text.replace(/^\S+ /, "")}`, style: LOST.style };
}

function formatActivity(agent: ShownAgent, nowMs: number): Cell {
  const { activity, end, retry, openCalls } = agent;
  const status = findSettledStatus(agent);
  if (status !== undefined) {
    const { icon, style } = REST_SIGNS[status];
    const hasCode = status === "stopped" || status === "paused";
    const words = hasCode && end !== undefined ? formatShortLine(end.reason.code) : status;
    return { text: `${icon} ${words}`, style };
  }
  const spinner = drawSpinner(nowMs);
  if (activity === "calling" || activity === "delegating" || activity === "asking") {
    // All open calls may be questions.
    const onlyAsks = openCalls.every(({ kind }) => kind === "question");
    const { icon, style } = onlyAsks ? QUESTION : { icon: spinner, style: "cyan" as const };
    return { text: `${icon} ${describeOpenCalls(openCalls)}`, style };
  }
  if (activity === "retrying")
    return { text: `${spinner} attempt ${retry?.attempt ?? 1}`, style: "yellow" };
  const style = activity === "thinking" ? "cyan" : "dim";
  return { text: `${spinner} ${activity.replace("_", " ")}`, style };
}

function describeOpenCalls(calls: readonly CallUnderWay[]): string {
  const subagents = calls.filter(({ kind }) => kind === "delegation").length;
  const waiting = subagents === 0 ? [] : [`waiting for ${subagents}`];
  const questions = nameTools(calls, "question").map((name) => `asks: ${name}`);
  return [...waiting, ...questions, ...nameTools(calls, "tool")].join(", ");
}

function nameTools(calls: readonly CallUnderWay[], kind: CallUnderWay["kind"]): readonly string[] {
  const ofKind = calls.filter((call) => call.kind === kind);
  return countNames(ofKind.map(({ toolName }) => formatShortLine(toolName)));
}
