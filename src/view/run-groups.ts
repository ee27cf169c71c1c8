// Runs in the three groups of a list: needs a person, active, done. A paused one continues only on request.
// Pure.

import type { RunRow, RunRowStatus } from "./viewer-data.ts";

const GROUPS = ["needs_you", "working", "done"] as const;
export type RunGroup = (typeof GROUPS)[number];

const GROUP_OF: Readonly<Record<RunRowStatus, RunGroup>> = {
  needs_you: "needs_you",
  paused: "needs_you",
  working: "working",
  lost: "working",
  waiting: "working",
  completed: "done",
  stopped: "done",
  failed: "done",
  cancelled: "done",
  ended: "done",
};

/** Each group with its runs, in the order in which they came: newest first. */
export function groupedRuns(
  runs: readonly RunRow[],
): readonly (readonly [RunGroup, readonly RunRow[]])[] {
  return GROUPS.map((group) => [group, runs.filter(({ status }) => GROUP_OF[status] === group)]);
}
