// What an agent is doing, in a few words and one sign.

import type { TerminalStatus } from "../index.ts";
import type { Activity, OpenCall } from "./run-view.ts";
import { oneLine, type Style } from "./terminal-text.ts";

const SPINNER = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const SPINNER_FRAME_MS = 100;

const ENDINGS: Readonly<Record<TerminalStatus, { readonly icon: string; readonly style: Style }>> =
  {
    completed: { icon: "✔", style: "green" },
    stopped: { icon: "■", style: "yellow" },
    failed: { icon: "✖", style: "red" },
    cancelled: { icon: "⊘", style: "yellow" },
  };

/** Sign and colour of a status. */
export function endingOf(status: TerminalStatus): { readonly icon: string; readonly style: Style } {
  return ENDINGS[status];
}

/** The sign for something that goes on; it turns with time. */
export function spinner(nowMs: number): string {
  return SPINNER[Math.floor(nowMs / SPINNER_FRAME_MS) % SPINNER.length] ?? "·";
}

/** Sign and words, as in `⠹ thinking` or `■ stopped: steps_limit`. */
export function activityText(activity: Activity, nowMs: number): string {
  switch (activity.kind) {
    case "ended": {
      const { status, reason } = activity;
      const words = status === "stopped" ? `stopped: ${oneLine(reason.code)}` : status;
      return `${endingOf(status).icon} ${words}`;
    }
    case "calling":
      return `${spinner(nowMs)} ${callsText(activity.calls)}`;
    case "retrying":
      return `${spinner(nowMs)} attempt ${activity.attempt}: ${oneLine(activity.errorCode)}`;
    case "preparing":
    case "queued":
    case "thinking":
      return `${spinner(nowMs)} ${activity.kind}`;
  }
}

export function activityStyle(activity: Activity): Style {
  switch (activity.kind) {
    case "ended":
      return endingOf(activity.status).style;
    case "retrying":
      return "yellow";
    case "thinking":
    case "calling":
      return "cyan";
    case "preparing":
    case "queued":
      return "dim";
  }
}

function callsText(calls: readonly OpenCall[]): string {
  const subagents = calls.filter((call) => call.isDelegation).length;
  const tools = Map.groupBy(
    calls.filter((call) => !call.isDelegation),
    (call) => oneLine(call.toolName),
  );
  const names = [...tools].map(([name, { length }]) =>
    length === 1 ? name : `${name} ×${length}`,
  );
  const waiting = subagents === 0 ? [] : [`waiting for ${subagents}`];
  return [...waiting, ...names].join(", ");
}
