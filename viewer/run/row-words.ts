// What the row of an agent says of it: what it does or waits for, or how it ended.

import type { ActivityName, AgentRow } from "../../src/view/viewer-data.ts";
import { activityOf, AT, standingOf } from "../data/agent-row.ts";
import type { Sign } from "../text/icon.tsx";

/** Signs for what continues by itself: work, or waiting. */
const WAITING: ReadonlySet<ActivityName> = new Set(["queued", "retrying", "delegating"]);

const PAUSES: Readonly<Record<string, string>> = {
  answers_needed: "paused until it is answered",
  pause_requested: "paused on request",
};

export function signOf(row: AgentRow): Sign {
  return WAITING.has(activityOf(row)) ? "waiting" : standingOf(row);
}

/** `waits for 2 subagents`; with since when, unless it has ended. */
export function activityWords(row: AgentRow): string {
  const note = row[AT.note];
  const activity = activityOf(row);
  switch (activity) {
    case "preparing":
      return "prepares";
    case "awaiting_budget":
      return note === "" ? "waits for budget" : `waits for budget of ${note}`;
    case "queued":
      return note === "" ? "waits for a slot" : `waits for ${note}`;
    case "thinking":
      return "thinks";
    case "retrying":
      return note === "" ? "waits to try again" : `waits to try again: ${note}`;
    case "calling":
      return note === "" ? "calls a tool" : `calls ${note}`;
    case "delegating":
      return note === "" ? "waits for subagents" : `waits for ${note}`;
    case "asking":
      return note === "" ? "waits for an answer" : `asks: ${note}`;
    case "paused":
      return PAUSES[note] ?? (note === "" ? "paused" : `paused: ${note}`);
    case "stopped":
    case "failed":
    case "cancelled":
      return note === "" || note === activity ? activity : `${activity}: ${note}`;
    case "completed":
      return "";
  }
}
