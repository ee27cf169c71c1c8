// What an agent is doing, in a few words and one sign.

import type { SettledStatus } from "../index.ts";
import type { Activity, OpenCallView } from "./agent-view.ts";
import { singleLine, type Style } from "./terminal-text.ts";

const SPINNER = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const SPINNER_FRAME_MS = 100;

/** What stands before a question, and its colour: that of all that waits for a person. */
export const QUESTION: Sign = { icon: "?", style: "magenta" };

interface Sign {
  readonly icon: string;
  readonly style: Style;
}

const RESTS: Readonly<Record<SettledStatus, Sign>> = {
  paused: { icon: "‖", style: "magenta" },
  completed: { icon: "✔", style: "green" },
  stopped: { icon: "■", style: "yellow" },
  failed: { icon: "✖", style: "red" },
  cancelled: { icon: "⊘", style: "yellow" },
};

/** Sign and colour of a status. */
export function restSign(status: SettledStatus): Sign {
  return RESTS[status];
}

/** The sign for work under way; it turns with time. */
export function spinner(nowMs: number): string {
  return SPINNER[Math.floor(nowMs / SPINNER_FRAME_MS) % SPINNER.length] ?? "·";
}

/** Sign and words, as in `⠹ thinking` or `■ stopped: steps_limit`. */
export function activityText(activity: Activity, nowMs: number): string {
  switch (activity.kind) {
    case "ended": {
      const { status, reason } = activity;
      const words = status === "stopped" ? `stopped: ${singleLine(reason.code)}` : status;
      return `${restSign(status).icon} ${words}`;
    }
    case "paused":
      return `${restSign("paused").icon} paused: ${singleLine(activity.reason.code)}`;
    case "calling": {
      const sign = onlyAsks(activity.calls) ? QUESTION.icon : spinner(nowMs);
      return `${sign} ${callsText(activity.calls)}`;
    }
    case "retrying":
      return `${spinner(nowMs)} attempt ${activity.attempt}: ${singleLine(activity.errorCode)}`;
    case "preparing":
    case "queued":
    case "thinking":
      return `${spinner(nowMs)} ${activity.kind}`;
  }
}

export function activityStyle(activity: Activity): Style {
  switch (activity.kind) {
    case "ended":
      return restSign(activity.status).style;
    case "paused":
      return restSign("paused").style;
    case "retrying":
      return "yellow";
    case "thinking":
      return "cyan";
    case "calling":
      return onlyAsks(activity.calls) ? QUESTION.style : "cyan";
    case "preparing":
    case "queued":
      return "dim";
  }
}

/** All that is under way in it is the wait for an answer. */
function onlyAsks(calls: readonly OpenCallView[]): boolean {
  return calls.every(({ kind }) => kind === "question");
}

function callsText(calls: readonly OpenCallView[]): string {
  const subagents = calls.filter(({ kind }) => kind === "delegation").length;
  const waiting = subagents === 0 ? [] : [`waiting for ${subagents}`];
  const asked = namesOf(calls, "question").map((name) => `asks: ${name}`);
  return [...waiting, ...asked, ...namesOf(calls, "tool")].join(", ");
}

function namesOf(calls: readonly OpenCallView[], kind: OpenCallView["kind"]): readonly string[] {
  const alike = Map.groupBy(
    calls.filter((call) => call.kind === kind),
    (call) => singleLine(call.toolName),
  );
  return [...alike].map(([name, { length }]) => (length === 1 ? name : `${name} ×${length}`));
}
