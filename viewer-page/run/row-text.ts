import type {
  ActivityName,
  AgentRow,
  QuestionRow,
  RunHead,
} from "../../src/read-model/viewer-data.ts";
import { getActivity, AT, getDisplayStatus, hasEnded } from "../data/agent-row.ts";
import type { RunState } from "../data/run-state.ts";
import type { Sign } from "../text/icon.tsx";

/** Activities that continue without a person, shown as waiting. */
const WAITING: ReadonlySet<ActivityName> = new Set(["queued", "retrying", "delegating"]);

/** Returns the status of an agent in its run: `lost` if it worked and the process is gone. */
export function getStatusInRun(row: AgentRow, run: Pick<RunHead, "status">): Sign {
  const status = getDisplayStatus(row);
  return run.status === "lost" && status !== "paused" && !hasEnded(status) ? "lost" : status;
}

export function chooseSign(row: AgentRow, run: Pick<RunHead, "status">): Sign {
  const status = getStatusInRun(row, run);
  return status !== "lost" && WAITING.has(getActivity(row)) ? "waiting" : status;
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
 * Returns the activity or status of an agent in words, such as `waits for 2 subagents`, or
 * `lost: thinks` if the process of the run is gone.
 */
export function describeActivity(row: AgentRow, { head, questions }: RunState): string {
  const words = describeWork(row, questions.value);
  return getStatusInRun(row, head.value) === "lost" ? `lost: ${words}` : words;
}

/** `questions` are the open ones of the run. */
function describeWork(row: AgentRow, questions: readonly QuestionRow[]): string {
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
