// Goal: the laws of a tree hold whatever its models, tools, hooks, observers and callers do, and
// whenever they do it.
// Method: random worlds (trees, policies, budgets, limits, scripts) with faults at every effect,
// and with cancels, stops, pauses, grants, messages and time from outside. Each is played to its
// end, over all its pauses, and then checked by laws that do not know how it was played. See
// tree-world.ts, tree-fixture.ts and tree-laws.ts. `FC_RUNS=…` plays more worlds (`npm run
// test:long`), `FC_SEED=…` others. tree-plants.test.ts shows that the laws find bugs.

import { assert, asyncProperty } from "fast-check";
import { expect, vi } from "vitest";

import { proves } from "../../harness/proves.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { worlds } from "../../support/random-trees/tree-arbitrary.ts";
import { checkLaws } from "../../support/random-trees/tree-laws.ts";
import { EXPECTED, sights } from "../../support/random-trees/tree-sights.ts";
import { play } from "../../support/random-trees/tree-fixture.ts";

const RUNS = Number(process.env["FC_RUNS"] ?? 2_000);

vi.setConfig({ testTimeout: 24 * 3_600_000 });

// The laws: T1 to T5, L2 to L5, B1 to B5, S1, S3, E1, C27, X4, X5, X7 to X11, X16 to X19, X23 and
// X33.
proves(
  ["X1", "X8", "X18", "R18"],
  "satisfies the laws in every tree, whatever happens",
  async () => {
    const seen = new Set<string>();
    await assert(
      asyncProperty(worlds(), async (world) => {
        const played = await play(world);
        checkLaws(world, played);
        for (const sight of sights(played)) seen.add(sight);
      }),
      { numRuns: RUNS },
    ).finally(() => {
      const strangers = takeWarnings().filter((one) => !one.startsWith("EspalierWarning: "));
      expect(strangers).toEqual([]);
    });
    if (process.env["FC_SEED"] !== undefined || process.env["FC_RUNS"] !== undefined) return;
    const unseen = EXPECTED.filter((sight) => !seen.has(sight));
    expect(unseen, "what the worlds never showed").toEqual([]);
  },
);
