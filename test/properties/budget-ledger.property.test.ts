// Goal: no interleaving of asks, settlements, give-backs, tool calls, cancellations, time and clocks that stand still breaks B1, B2,
// B3 or B5, or moves a deadline wrongly.
// Method: 10,000 random schedules over random trees, each compared after every operation with a naive ledger (fixed seed).

import * as fc from "fast-check";

import { proves } from "../harness/proves.ts";
import { play, schedules } from "./ledger-schedules.ts";

const FIXED = { seed: 20_261_121, endOnFailure: false };

proves(
  ["X1", "X2"],
  "8,000 short schedules: the ledger does what a naive one does and breaks no law",
  async () => {
    await fc.assert(fc.asyncProperty(schedules(16), play), { ...FIXED, numRuns: 8_000 });
  },
);

proves(
  ["X1", "X2"],
  "2,000 long schedules: the ledger does what a naive one does and breaks no law",
  async () => {
    await fc.assert(fc.asyncProperty(schedules(60), play), { ...FIXED, numRuns: 2_000 });
  },
);
