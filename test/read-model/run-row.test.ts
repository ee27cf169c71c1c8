// Goal: the status of a run is the same wherever it is listed.
// Method: store entries with and without a fold, at several times.

import { expect } from "vitest";

import { RunIdSchema } from "../../src/protocol/ids.ts";
import { createRunHead, createRunListing, type ListedRun } from "../../src/read-model/run-row.ts";
import type { RunOverview } from "../../src/read-model/viewer-data.ts";
import { proves } from "../harness/proves.ts";
import { sampleEvents } from "../support/sample-events.ts";
import { foldOf } from "../support/read-model/fold-of.ts";

const LED: ListedRun = {
  runId: RunIdSchema().parse("run_1"),
  title: "lead: survey",
  status: "open",
  createdAtMs: 1,
  updatedAtMs: 2,
  owner: { hostname: "here", processId: 7 },
  heartbeatAtMs: 1_000,
};
const LEFT = { ...LED, owner: null, heartbeatAtMs: null };
const at = { nowMs: 31_000, hostname: "here", processId: 7 };

proves(["V26"], "derives the status of a run from its lease, its questions and its outcome", () => {
  const asking = factsOf(["asks"]);
  const status = (listed: ListedRun, facts?: RunOverview, nowMs = at.nowMs): string =>
    createRunListing(listed, facts, { ...at, nowMs }).status;
  expect([status(LED), status(LED, undefined, 31_001), status(LEFT)]).toEqual([
    "working",
    "lost",
    "waiting",
  ]);
  expect([status(LED, asking), status(LED, asking, 31_001), status(LEFT, asking)]).toEqual([
    "input_required",
    "lost",
    "input_required",
  ]);
  const paused = { ...LEFT, status: "paused" } as const;
  expect([status(paused), status(paused, factsOf(["asks", "pauses"]))]).toEqual([
    "paused",
    "input_required",
  ]);
  const ended = { ...LEFT, status: "ended" } as const;
  const failed = factsOf(["fails"]);
  // The journal of a run owned by another process may be ahead of its entry.
  expect([status(ended), status(ended, failed), status(LED, failed)]).toEqual([
    "ended",
    "failed",
    "failed",
  ]);
});

proves(["V26"], "names the owner of a run and recognises this process", () => {
  const facts = factsOf([]);
  const { owner, title, agentCount } = createRunHead(LED, facts, at);
  expect({ owner, title, agentCount }).toEqual({
    owner: { hostname: "here", processId: 7, isThisProcess: true },
    title: "lead: survey",
    agentCount: 1,
  });
  expect(createRunListing(LED, facts, { ...at, hostname: "there" }).owner?.isThisProcess).toBe(
    false,
  );
  expect(createRunListing(LEFT, facts, at).owner).toBeNull();
});

function factsOf(told: readonly ("asks" | "pauses" | "fails")[]): RunOverview {
  const events = sampleEvents((run) => {
    const lead = run.root;
    run.started();
    lead.started();
    if (told.includes("asks")) lead.asksLeave("call_1", "write");
    if (told.includes("pauses")) {
      lead.pauses();
      run.paused(lead);
    }
    if (told.includes("fails")) {
      lead.ended("failed");
      run.ended("failed");
    }
  });
  return foldOf(events).snapshot().run;
}
