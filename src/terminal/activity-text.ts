// What an agent is doing, in a few words and one sign.

import type { SettledStatus } from "../index.ts";
import type { Activity, OpenCallView } from "./agent-view.ts";
import type { Cell } from "./table.ts";
import { singleLine, type Style } from "./terminal-text.ts";

const SPINNER = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const SPINNER_FRAME_MS = 100;

/** What stands before a question, and its colour: that of all that waits for a person. */
export const QUESTION: Sign = { icon: "?", style: "magenta" };

interface Sign {
  readonly icon: string;
  readonly style: Style;
}

/** Sign and colour of a status. */
export const REST_SIGNS: Readonly<Record<SettledStatus, Sign>> = {
  paused: { icon: "‖", style: "magenta" },
  completed: { icon: "✔", style: "green" },
  stopped: { icon: "■", style: "yellow" },
  failed: { icon: "✖", style: "red" },
  cancelled: { icon: "⊘", style: "yellow" },
};

/** The sign for work under way; it turns with time. */
export function spinner(nowMs: number): string {
  return SPINNER[Math.floor(nowMs / SPINNER_FRAME_MS) % SPINNER.length] ?? "·";
}

/** Sign and words, as in `⠹ thinking` or `■ stopped: steps_limit`, in their colour. */
export function activityCell(activity: Activity, nowMs: number): Cell {
  switch (activity.kind) {
    case "settled": {
      const { status, reason } = activity;
      const { icon, style } = REST_SIGNS[status];
      const isBrief = status !== "stopped" && status !== "paused";
      const why = isBrief ? "" : `: ${singleLine(reason.code)}`;
      return { text: `${icon} ${status}${why}`, style };
    }
    case "calling": {
      // All that is under way may be the wait for an answer.
      const onlyAsks = activity.calls.every(({ kind }) => kind === "question");
      const { icon, style } = onlyAsks
        ? QUESTION
        : { icon: spinner(nowMs), style: "cyan" as const };
      return { text: `${icon} ${callsText(activity.calls)}`, style };
    }
    case "retrying": {
      const words = `attempt ${activity.attempt}: ${singleLine(activity.errorCode)}`;
      return { text: `${spinner(nowMs)} ${words}`, style: "yellow" };
    }
    case "thinking":
      return { text: `${spinner(nowMs)} thinking`, style: "cyan" };
    case "preparing":
    case "queued":
      return { text: `${spinner(nowMs)} ${activity.kind}`, style: "dim" };
  }
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
