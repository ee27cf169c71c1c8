// Goal: a cost in dollars is a whole number of micro-dollars, and nothing is lost on the way out of
// the ledger, through JSON, or back.
// Method: arbitrary whole micro-dollars up to the largest supported amount, from a fixed seed, with
// both extremes.

import * as fc from "fast-check";
import { expect } from "vitest";

import {
  addUsd,
  isWholeMicroUsd,
  MAX_MICRO_USD,
  toMicroUsd,
  toUsd,
} from "../../src/kernel/money.ts";
import { toLedgerLimits, toSpendAmounts } from "../../src/policies/budget.ts";
import { UsageSchema, NO_USAGE } from "../../src/protocol/usage.ts";
import { proves } from "../harness/proves.ts";

const FIXED = { seed: 20_261_130, numRuns: 20_000 };

const microUsd = fc.oneof(
  fc.nat({ max: 1_000_000 }),
  fc.maxSafeNat().map((amount) => amount % (MAX_MICRO_USD + 1)),
  fc.constantFrom(0, 1, 289_999, 290_000, MAX_MICRO_USD - 1, MAX_MICRO_USD),
);
const half = microUsd.map((amount) => Math.floor(amount / 2));

proves(
  ["R57"],
  "converts a cost in dollars back to its exact micro-dollars, even through JSON",
  () => {
    fc.assert(
      fc.property(microUsd, (amount) => {
        const costUsd: unknown = JSON.parse(JSON.stringify(toUsd(amount)));
        expect([costUsd, toMicroUsd(Number(costUsd))]).toEqual([toUsd(amount), amount]);
        expect(UsageSchema().safeParse({ ...NO_USAGE, costUsd }).success).toBe(true);
        const limits = { costMicroUsd: amount };
        expect(toLedgerLimits(toSpendAmounts(limits))).toEqual(limits);
      }),
      FIXED,
    );
  },
);

proves(["R57"], "adds costs exactly, so that equal sums are the same number", () => {
  fc.assert(
    fc.property(half, half, (first, second) => {
      const sum = addUsd(toUsd(first), toUsd(second));
      expect(sum).toBe(toUsd(first + second));
      expect(addUsd(sum, -toUsd(second))).toBe(toUsd(first));
    }),
    FIXED,
  );
});

proves(
  ["R57"],
  "refuses a cost that is not a whole number of micro-dollars or is too large",
  () => {
    const refused = [
      -0.000001,
      0.0000001,
      0.1 + 0.2,
      toUsd(MAX_MICRO_USD + 2),
      Infinity,
      Number.NaN,
    ];
    expect(
      refused.map((costUsd) => UsageSchema().safeParse({ ...NO_USAGE, costUsd }).success),
    ).toEqual(refused.map(() => false));
    expect(isWholeMicroUsd(0.3)).toBe(true);
  },
);
