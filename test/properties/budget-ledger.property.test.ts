// Goal: no interleaving of asks, settlements, give-backs, further attempts, grants, tool calls, cancellations, restarts, time and clocks
// that stand still breaks B1, B2, B3 or B5, moves a deadline wrongly, or lets descendants take what their ancestor keeps; and what agents
// are told of limits, thresholds and what is left is right.
// Method: 10,000 random schedules over random trees, and crowds, each compared after every operation with a naive ledger, which asks the
// whole line anew each time. `FC_RUNS=…` plays more of them (`npm run test:long`), `FC_SEED=…` others.

import * as fc from "fast-check";
import { vi } from "vitest";

import { proves } from "../harness/proves.ts";
import { crowds, schedules } from "./ledger-operations.ts";
import { play } from "./ledger-schedules.ts";

const RUNS = Number(process.env["FC_RUNS"] ?? 10_000);

vi.setConfig({ testTimeout: 3_600_000 });

/** Plays a part of the runs. A counterexample is shrunk. */
async function playPart(schedule: ReturnType<typeof schedules>, part: number): Promise<void> {
  const numRuns = Math.ceil(RUNS * part);
  await fc.assert(fc.asyncProperty(schedule, play), { numRuns, endOnFailure: false });
}

proves(
  ["X1", "X2", "X5"],
  "random short schedules: the ledger does what a naive one does and breaks no law",
  async () => {
    await playPart(schedules(16), 0.8);
  },
);

proves(
  ["X1", "X2", "X5"],
  "random long schedules: the ledger does what a naive one does and breaks no law",
  async () => {
    await playPart(schedules(60), 0.2);
  },
);

proves(
  ["X2"],
  "random crowds: whose turn it is, is as if the whole line were asked each time",
  async () => {
    await playPart(crowds(150), 0.025);
  },
);
