// Goal: a run has the same tokens, costs, counts and states in every view.
// Method: random trees of scripted agents; an oracle sums what their models received and replied.

import { expect } from "vitest";

import { getErrorMessage } from "../../../src/kernel/error.ts";
import { proves } from "../../harness/proves.ts";
import { checkFigures } from "./figures-views.ts";
import { playWorld } from "./figures-play.ts";

const RUNS = Number(process.env["FC_RUNS"] ?? 300);
const FIRST = Number(process.env["FC_SEED"] ?? 1);

proves(["D547"], "shows the same figures of a run in every view", async () => {
  for (let seed = FIRST; seed < FIRST + RUNS; seed += 1) {
    const played = await playWorld(seed);
    try {
      await checkFigures(played);
    } catch (cause) {
      throw new Error(`World ${seed}: ${getErrorMessage(cause)}`, { cause });
    }
  }
  expect(RUNS).toBeGreaterThan(0);
});
