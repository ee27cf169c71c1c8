// Goal: a run is listed in the right group, on the terminal and on the page.
// Method: one run of each status.

import { expect } from "vitest";

import { groupRuns } from "../../src/read-model/run-row.ts";
import type { RunRow, RunRowStatus } from "../../src/read-model/viewer-data.ts";
import { proves } from "../harness/proves.ts";
import { calmRun } from "../page/fixture-runs.ts";

const STATUSES: readonly RunRowStatus[] = [
  "completed",
  "input_required",
  "waiting",
  "paused",
  "lost",
  "stopped",
  "working",
  "failed",
  "cancelled",
  "ended",
];

proves(["V146"], "groups runs that need a person under attention", () => {
  const rows: readonly RunRow[] = STATUSES.map((status) => ({ ...calmRun(0).run, status }));
  const groups = groupRuns(rows).map(([group, runs]) => [group, runs.map(({ status }) => status)]);
  expect(groups).toEqual([
    ["attention", ["input_required", "paused", "lost"]],
    ["working", ["waiting", "working"]],
    ["done", ["completed", "stopped", "failed", "cancelled", "ended"]],
  ]);
});
