// Goal: whatever a tree does, and whenever its processes die, its journal is one consistent story
// (D1, D2, E3).
// Method: the random worlds of the tree property, with deaths at random appends; see
// mortal-fixture.ts. `FC_RUNS=…` plays more of them.

import { array, assert, asyncProperty, constantFrom, integer, record } from "fast-check";
import { expect, test, vi } from "vitest";

import { takeWarnings } from "../../harness/process-watch.ts";
import { worlds } from "../../support/random-trees/tree-arbitrary.ts";
import { DEATHS } from "../../support/journal/dying-store.ts";
import { playMortally } from "../../support/journal/mortal-fixture.ts";

const RUNS = Number(process.env["FC_RUNS"] ?? 100);

vi.setConfig({ testTimeout: 24 * 3_600_000 });

const deaths = array(record({ at: integer({ min: 1, max: 25 }), how: constantFrom(...DEATHS) }), {
  minLength: 1,
  maxLength: 4,
});

test("recovers random trees whose processes die to their end", async () => {
  let recoveries = 0;
  await assert(
    asyncProperty(worlds(), deaths, async (world, planned) => {
      const played = await playMortally(world, planned);
      recoveries += played.recoveries;
    }),
    { numRuns: RUNS },
  );
  takeWarnings();
  expect(recoveries, "something was recovered").toBeGreaterThan(RUNS / 4);
});
