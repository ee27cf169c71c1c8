// Goal: sums of usages are exact even if costs are unknown: neither order nor grouping nor
// subtraction changes a figure.
// Method: arbitrary usages from a fixed seed, among them free, priced and unpriced calls, and
// partly priced sums.

import * as fc from "fast-check";
import { expect } from "vitest";

import {
  addUsage,
  NO_USAGE,
  subtractUsage,
  toUsage,
  type Usage,
} from "../../src/protocol/usage.ts";
import { proves } from "../harness/proves.ts";

const FIXED = { seed: 20_261_129, numRuns: 2_000 };

const few = fc.nat({ max: 3 });
const anyUsage: fc.Arbitrary<Usage> = fc
  .record({ modelCalls: few, inputTokens: few, unpricedCalls: few })
  .chain((counts) =>
    fc
      .nat({ max: 3 })
      .map((microUsd) => toUsage({ ...NO_USAGE, ...counts, costUsd: microUsd / 1_000_000 })),
  );

proves(["D587"], "adds usages to the same sum in every order and grouping", () => {
  fc.assert(
    fc.property(anyUsage, anyUsage, anyUsage, (first, second, third) => {
      expect(addUsage(first, second)).toEqual(addUsage(second, first));
      expect(addUsage(addUsage(first, second), third)).toEqual(
        addUsage(first, addUsage(second, third)),
      );
      expect(addUsage(first, NO_USAGE)).toEqual(first);
    }),
    FIXED,
  );
});

proves(["D587"], "leaves one part if the other is subtracted from their sum", () => {
  fc.assert(
    fc.property(anyUsage, anyUsage, (first, second) => {
      expect(subtractUsage(addUsage(first, second), second)).toEqual(first);
      expect(subtractUsage(first, first)).toEqual(NO_USAGE);
    }),
    FIXED,
  );
});

proves(["D586"], "sums to the cost null if the known part is 0 and a call has no price", () => {
  fc.assert(
    fc.property(fc.array(anyUsage, { maxLength: 4 }), (all) => {
      const sum = all.reduce(addUsage, NO_USAGE);
      const known = all.reduce(
        (total, { costUsd }) => total + Math.round((costUsd ?? 0) * 1_000_000),
        0,
      );
      const isUnknown = known === 0 && all.some(({ unpricedCalls }) => unpricedCalls > 0);
      expect(sum.costUsd).toBe(isUnknown ? null : known / 1_000_000);
    }),
    FIXED,
  );
});
