// Goal: each of the four shares gives a subagent exactly its amounts, in whole numbers, and a group
// never more than remains.
// Method: tables, and random groups with a fixed seed.

import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  copyBudgetShare,
  computeChildLimits,
  COMMON_POOL,
  type BudgetShare,
} from "../../src/policies/budget-share.ts";
import { MAX_MICRO_USD } from "../../src/kernel/money.ts";
import { toSpendAmounts, type Budget, type SpendLimits } from "../../src/policies/budget.ts";
import { LEDGER_AXES } from "../../src/protocol/account.ts";
import { unfrozenParts } from "../support/frozen.ts";
import { proves } from "../harness/proves.ts";
import { thrownBy } from "../support/thrown.ts";

type Facts = Parameters<typeof computeChildLimits>[0];

function limitsOf(
  share: BudgetShare,
  more: Partial<Facts> = {},
): ReturnType<typeof computeChildLimits> {
  const left = { totalTokens: 100, steps: 7, timeMs: 5_000 };
  const facts = {
    definition: {},
    left,
    role: "a",
    delegatedRoles: ["a", "b", "a"],
    source: "lead",
  };
  return computeChildLimits({ share, ...facts, ...more });
}

describe("the limits of a share", () => {
  proves(["X4"], "pool: allow everything that remains, or at most a part of it", () => {
    const nothing = { spendLimits: {}, timeMs: undefined, tightened: [] };
    expect(limitsOf({ type: "pool" })).toEqual(nothing);
    expect(limitsOf({ type: "pool", maxShare: 1 })).toEqual(nothing);
    expect(limitsOf({ type: "pool", maxShare: 0.4 }).spendLimits).toEqual({
      totalTokens: 40,
      steps: 2,
    });
    expect(limitsOf({ type: "pool", maxShare: 0.001 }).spendLimits).toEqual({
      totalTokens: 0,
      steps: 0,
    });
  });

  proves(["X4"], "fixed: allow the given amounts and time, or what remains if that is less", () => {
    const budget = { totalTokens: 30, toolCalls: 2, steps: 9, costUsd: 0.29, timeMs: 800 };
    const given = limitsOf({ type: "fixed", budget });
    const limits = { totalTokens: 30, toolCalls: 2, steps: 7, costMicroUsd: 290_000 };
    expect(given).toEqual({ spendLimits: limits, timeMs: 800, tightened: [] });
  });

  proves(["X4"], "even: divide what remains by the number of delegations in the reply", () => {
    expect(limitsOf({ type: "even" }).spendLimits).toEqual({ totalTokens: 33, steps: 2 });
    expect(limitsOf({ type: "even" }, { delegatedRoles: ["a"] }).spendLimits).toEqual({
      totalTokens: 100,
      steps: 7,
    });
  });

  proves(
    ["X4"],
    "weighted: divide what remains by the weight of the role over the sum of weights in the reply",
    () => {
      const share = { type: "weighted", weights: { a: 2 }, defaultWeight: 1 } as const;
      expect(limitsOf(share).spendLimits).toEqual({ totalTokens: 40, steps: 2 });
      expect(limitsOf(share, { role: "b" }).spendLimits).toEqual({ totalTokens: 20, steps: 1 });
      const tenths = { type: "weighted", weights: { a: 0.1, b: 0.7, c: 0.2 } } as const;
      const parts = ["a", "b", "c"].map(
        (role) =>
          limitsOf(tenths, { role, delegatedRoles: ["a", "b", "c"], left: { steps: 10 } })
            .spendLimits.steps,
      );
      expect(parts).toEqual([1, 7, 2]);
    },
  );

  test("apply the default weight to roles named like object properties", () => {
    const share = copyBudgetShare("share", {
      type: "weighted",
      weights: Object.fromEntries([["__proto__", 3]]),
    });
    const delegatedRoles = ["__proto__", "constructor", "toString"];
    const parts = delegatedRoles.map(
      (role) => limitsOf(share, { role, delegatedRoles, left: { steps: 10 } }).spendLimits.steps,
    );
    expect(parts).toEqual([6, 2, 2]);
  });

  test("exclude unlimited axes, and never divide time", () => {
    for (const share of [{ type: "even" }, { type: "pool", maxShare: 0.5 }] as const)
      expect(limitsOf(share, { left: { timeMs: 900 } })).toEqual({
        spendLimits: {},
        timeMs: undefined,
        tightened: [],
      });
  });
});

describe("a share and the role's own budget", () => {
  const definition: Budget = {
    totalTokens: 50,
    steps: 2,
    toolCalls: 4,
    costUsd: 1,
    timeMs: 9_000,
  };

  proves(
    ["R142", "X4"],
    "apply the tighter limit per axis, and record requests that are not granted in full",
    () => {
      const left = { totalTokens: 100, costUsd: 0.5 };
      const given = limitsOf({ type: "even" }, { definition, left, source: "root/lead#1" });
      expect(given).toEqual({
        spendLimits: { steps: 2, totalTokens: 33, costMicroUsd: 166_666, toolCalls: 4 },
        timeMs: 9_000,
        tightened: [
          { field: "budget.totalTokens", requested: 50, granted: 33, source: "root/lead#1" },
          { field: "budget.costUsd", requested: 1, granted: 0.166_666, source: "root/lead#1" },
        ],
      });
    },
  );

  proves(
    ["R142"],
    "add no limit for a pool, and record if less remains than the role requests",
    () => {
      const { spendLimits: limits, tightened } = limitsOf(
        { type: "pool" },
        { definition, left: { steps: 1 } },
      );
      expect(limits).toEqual({ totalTokens: 50, steps: 2, toolCalls: 4, costMicroUsd: 1_000_000 });
      expect(tightened).toEqual([
        { field: "budget.steps", requested: 2, granted: 1, source: "lead" },
      ]);
    },
  );

  test("apply the tighter of two times, and record it", () => {
    const share = { type: "fixed", budget: { timeMs: 100 } } as const;
    expect(limitsOf(share, { definition: { timeMs: 200 } })).toEqual({
      spendLimits: {},
      timeMs: 100,
      tightened: [{ field: "budget.timeMs", requested: 200, granted: 100, source: "lead" }],
    });
    expect(limitsOf(share, { definition: { timeMs: 50 } }).timeMs).toBe(50);
  });
});

const roles = fc.constantFrom("a", "b", "c", "d");
const weight = fc.double({ min: 1e-6, max: 1e6, noNaN: true });
const divisions: fc.Arbitrary<BudgetShare> = fc.oneof(
  fc.record({ type: fc.constant("even" as const) }),
  fc.record({
    type: fc.constant("weighted" as const),
    weights: fc.dictionary(roles, weight),
    defaultWeight: weight,
  }),
);
const amount = fc.oneof(
  fc.nat({ max: 50 }),
  fc.maxSafeNat(),
  fc.constantFrom(0, Number.MAX_SAFE_INTEGER, -4, 1e9, 1e9 + 1),
);

/** Money has a smaller maximum than the other axes. */
const anyLimits: fc.Arbitrary<SpendLimits> = fc
  .dictionary(fc.constantFrom(...LEDGER_AXES), amount)
  .map(({ costMicroUsd, ...others }) =>
    costMicroUsd === undefined
      ? others
      : { ...others, costMicroUsd: Math.min(costMicroUsd, MAX_MICRO_USD) },
  );

proves(
  ["X4"],
  "divides random budgets into whole, non-negative amounts whose sum never exceeds the rest",
  () => {
    fc.assert(
      fc.property(
        divisions,
        fc.array(roles, { minLength: 1, maxLength: 40 }),
        anyLimits,
        (share, delegatedRoles, limits) => {
          const left = toSpendAmounts(limits);
          const checked = copyBudgetShare("share", share);
          const all = delegatedRoles.map(
            (role) => limitsOf(checked, { role, delegatedRoles, left }).spendLimits,
          );
          for (const [axis, rest] of Object.entries(limits)) {
            let sum = 0n;
            for (const shared of all) {
              const given = Object.entries(shared).find(([one]) => one === axis)?.[1];
              if (
                given === undefined ||
                !Number.isSafeInteger(given) ||
                Object.is(given, -0) ||
                given < 0
              )
                throw new Error(`${axis}: ${String(given)} of ${rest}`);
              sum += BigInt(given);
            }
            if (sum > BigInt(Math.max(0, rest))) throw new Error(`${axis}: ${sum} of ${rest}`);
          }
        },
      ),
      { seed: 20_261_128, numRuns: 10_000 },
    );
  },
);

proves(
  ["X4"],
  "gives random children of a capped pool or a fixed share at most what remains",
  () => {
    const capped = fc.record({
      type: fc.constant("pool" as const),
      maxShare: fc.double({ min: 1e-9, max: 1, noNaN: true }),
    });
    const fixed = fc.record({
      type: fc.constant("fixed" as const),
      budget: fc.record({ totalTokens: fc.maxSafeNat(), steps: fc.nat() }),
    });
    fc.assert(
      fc.property(fc.oneof(capped, fixed), amount, (share, rest) => {
        const { totalTokens = 0 } = limitsOf(copyBudgetShare("share", share), {
          left: { totalTokens: rest },
        }).spendLimits;
        if (!Number.isSafeInteger(totalTokens) || totalTokens < 0) return totalTokens === rest;
        return totalTokens <= Math.max(0, rest);
      }),
      { seed: 20_261_129, numRuns: 10_000 },
    );
  },
);

describe("an invalid share", () => {
  const BAD: readonly (readonly [given: unknown, field: string])[] = [
    [null, "share"],
    ["even", "share"],
    [[], "share"],
    [{}, "share.type"],
    [{ type: "toString" }, "share.type"],
    [{ type: "pool", maxShare: 0 }, "share.maxShare"],
    [{ type: "pool", maxShare: -0 }, "share.maxShare"],
    [{ type: "pool", maxShare: 1.01 }, "share.maxShare"],
    [{ type: "pool", maxShare: NaN }, "share.maxShare"],
    [{ type: "pool", maxShare: "0.5" }, "share.maxShare"],
    [{ type: "pool", budget: {} }, "share.budget"],
    [{ type: "fixed" }, "share.budget"],
    [{ type: "fixed", budget: { steps: -1 } }, "share.budget.steps"],
    [{ type: "fixed", budget: { step: 1 } }, "share.budget.step"],
    [{ type: "even", maxShare: 1 }, "share.maxShare"],
    [{ type: "weighted" }, "share.weights"],
    [{ type: "weighted", weights: [1] }, "share.weights"],
    [{ type: "weighted", weights: { a: 0 } }, "share.weights.a"],
    [{ type: "weighted", weights: { a: Infinity } }, "share.weights.a"],
    [{ type: "weighted", weights: { a: "2" } }, "share.weights.a"],
    [{ type: "weighted", weights: {}, defaultWeight: -1 }, "share.defaultWeight"],
  ];
  const check: (field: string, given: never) => unknown = copyBudgetShare;

  for (const [given, field] of BAD)
    test(`is refused at ${field}: ${JSON.stringify(given)}`, () => {
      const thrown = thrownBy(() => Reflect.apply(check, undefined, ["share", given]));
      expect([thrown.code, thrown.data]).toMatchObject(["invalid_argument", { field }]);
    });

  test("is distinguished from a valid one, which is copied and frozen", () => {
    expect(copyBudgetShare("share", COMMON_POOL)).toEqual({ type: "pool" });
    const weights = { a: 2 };
    const share = copyBudgetShare("share", { type: "weighted", weights });
    weights.a = 3;
    expect(share).toEqual({ type: "weighted", weights: { a: 2 } });
    const budget = { steps: 2 };
    const fixed = copyBudgetShare("share", { type: "fixed", budget });
    budget.steps = 9;
    expect(fixed).toEqual({ type: "fixed", budget: { steps: 2 } });
    expect(unfrozenParts([share, fixed], "shares")).toEqual(["shares"]);
  });
});
