import type { SettledStatus } from "../../src/protocol/stop.ts";
import { ACTIVITIES, type ActivityName, type AgentRow } from "../../src/read-model/viewer-data.ts";

export const AT = {
  parent: 0,
  id: 1,
  name: 2,
  role: 3,
  task: 4,
  startedAtMs: 5,
  endedAtMs: 6,
  activity: 7,
  note: 8,
  sinceMs: 9,
  step: 10,
  ownTokens: 11,
  ownUsd: 12,
  ownUnpricedCalls: 13,
  treeTokens: 14,
  treeUsd: 15,
  treeUnpricedCalls: 16,
  refusals: 17,
  toolErrors: 18,
} as const;

/**
 * `working` includes waits for slots and subagents. `waiting`: a model call waits for budget.
 * `asking`: a person must answer.
 */
export type DisplayStatus = "working" | "waiting" | "asking" | SettledStatus;

export function getActivity(row: AgentRow): ActivityName {
  return ACTIVITIES[row[AT.activity]] ?? "preparing";
}

export function getDisplayStatus(row: AgentRow): DisplayStatus {
  return DISPLAY_STATUSES[getActivity(row)];
}

const DISPLAY_STATUSES: Readonly<Record<ActivityName, DisplayStatus>> = {
  preparing: "working",
  awaiting_budget: "waiting",
  queued: "working",
  thinking: "working",
  retrying: "working",
  calling: "working",
  delegating: "working",
  asking: "asking",
  paused: "paused",
  completed: "completed",
  stopped: "stopped",
  failed: "failed",
  cancelled: "cancelled",
};

const ENDED: ReadonlySet<DisplayStatus> = new Set(["completed", "stopped", "failed", "cancelled"]);

export function hasEnded(status: DisplayStatus): boolean {
  return ENDED.has(status);
}

/** Returns the path of an agent: the names from the root down. */
export function buildPath(agents: readonly AgentRow[], index: number): string {
  const names: string[] = [];
  for (let row = agents[index]; row !== undefined; row = agents[row[AT.parent]])
    names.unshift(row[AT.name]);
  return names.join("/");
}
