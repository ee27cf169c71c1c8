// Goal: no interleaving of asks, settlements, give-backs, further attempts, grants, tool calls, cancellations, time and clocks that stand
// still breaks B1, B2, B3 or B5, moves a deadline wrongly, or lets descendants take what their ancestor keeps.
// Method: 10,000 random schedules over random trees, each compared after every operation with a naive ledger, which asks the whole line
// anew each time (fixed seed).

import * as fc from "fast-check";

import { proves } from "../harness/proves.ts";
import { crowds, schedules } from "./ledger-operations.ts";
import { play } from "./ledger-schedules.ts";

const FIXED = { seed: 20_261_121, endOnFailure: false };

proves(
  ["X1", "X2", "X5"],
  "8,000 short schedules: the ledger does what a naive one does and breaks no law",
  async () => {
    await fc.assert(fc.asyncProperty(schedules(16), play), { ...FIXED, numRuns: 8_000 });
  },
);

proves(
  ["X1", "X2", "X5"],
  "2,000 long schedules: the ledger does what a naive one does and breaks no law",
  async () => {
    await fc.assert(fc.asyncProperty(schedules(60), play), { ...FIXED, numRuns: 2_000 });
  },
);

proves(
  ["X2"],
  "250 crowds: whose turn it is, is as if the whole line were asked each time",
  async () => {
    await fc.assert(fc.asyncProperty(crowds(150), play), { ...FIXED, numRuns: 250 });
  },
);
