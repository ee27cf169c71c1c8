// Goal: no interleaving of requests, settlements, releases, further attempts, grants, tool calls,
// cancellations, restarts, time and paused clocks breaks B1, B2, B3 or B5, moves a deadline
// wrongly, or lets descendants take what their ancestor reserves. The limits, thresholds and
// remaining amounts that agents are told are right.
// Method: 10,000 random schedules over random trees, and crowds. Each is compared after every
// operation with a naive ledger that checks the whole queue again each time. `FC_RUNS=…` plays more
// schedules (`npm run test:long`), `FC_SEED=…` others.

import * as fc from "fast-check";
import { vi } from "vitest";

import { proves } from "../harness/proves.ts";
import { crowds, schedules } from "../support/ledger/ledger-operations.ts";
import { play } from "../support/ledger/ledger-schedules.ts";

const RUNS = Number(process.env["FC_RUNS"] ?? 10_000);

vi.setConfig({ testTimeout: 3_600_000 });

/** Plays a part of the runs. fast-check shrinks a counterexample. */
async function playPart(schedule: ReturnType<typeof schedules>, part: number): Promise<void> {
  const numRuns = Math.ceil(RUNS * part);
  await fc.assert(fc.asyncProperty(schedule, play), { numRuns, endOnFailure: false });
}

proves(
  ["X1", "X2", "X5"],
  "agrees with a naive ledger and keeps the laws in random short schedules",
  async () => {
    await playPart(schedules(16), 0.8);
  },
);

proves(
  ["X1", "X2", "X5"],
  "agrees with a naive ledger and keeps the laws in random long schedules",
  async () => {
    await playPart(schedules(60), 0.2);
  },
);

proves(["X2"], "grants the same turns in random crowds as a check of the whole queue", async () => {
  await playPart(crowds(150), 0.025);
});
