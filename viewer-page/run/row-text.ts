import type { ActivityName, AgentRow, QuestionRow } from "../../src/read-model/viewer-data.ts";
import { getActivity, AT, getDisplayStatus } from "../data/agent-row.ts";
import type { Sign } from "../text/icon.tsx";

/** Activities that continue without a person, shown as waiting. */
const WAITING: ReadonlySet<ActivityName> = new Set(["queued", "retrying", "delegating"]);

export function chooseSign(row: AgentRow): Sign {
  return WAITING.has(getActivity(row)) ? "waiting" : getDisplayStatus(row);
}

/** Returns why an agent is paused. `questions` are the open ones of its run. */
function describePause(row: AgentRow, questions: readonly QuestionRow[]): string {
  const note = row[AT.note];
  switch (note) {
    case "input_required":
      if (questions.length === 0) return "answered, waits for a process";
      return questions.some(({ agentId }) => agentId === row[AT.id])
        ? "paused until its question is answered"
        : "paused until others are answered";
    case "pause_requested":
      return "paused on request";
    default:
      return note === "" ? "paused" : `paused: ${note}`;
  }
}

/**
 * Returns the activity or status of an agent in words, such as `waits for 2 subagents`. `questions`
 * are the open ones of its run.
 */
export function describeActivity(row: AgentRow, questions: readonly QuestionRow[]): string {
  const note = row[AT.note];
  const activity = getActivity(row);
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
      return describePause(row, questions);
    case "stopped":
    case "failed":
    case "cancelled":
      return note === "" || note === activity ? activity : `${activity}: ${note}`;
    case "completed":
      return "";
  }
}
