// Goal: a budget is either accepted exactly as written, or refused by name; money loses nothing in
// its conversion to whole micro-dollars.
// Method: tables of valid and invalid values, and every price in cents up to a thousand dollars.

import { expect, test } from "vitest";

import {
  checkBudget,
  toLedgerLimits,
  tightenLimits,
  type Budget,
} from "../../src/policies/budget.ts";
import { BUDGET_AXES } from "../../src/protocol/account.ts";
import { STOP_CODES_BY_AXIS } from "../../src/protocol/stop.ts";
import { proves } from "../harness/proves.ts";
import { thrownBy } from "../support/thrown.ts";

const AXES = [
  "inputTokens",
  "cachedInputTokens",
  "outputTokens",
  "totalTokens",
  "costUsd",
  "steps",
  "toolCalls",
  "timeMs",
] as const satisfies readonly (keyof Budget)[];

const check = (given: object): void => checkBudget("lead.budget", { ...given });

for (const axis of AXES) {
  const field = `lead.budget.${axis}`;
  const isAmount = axis === "costUsd" || axis === "timeMs";
  const expected = isAmount ? "a finite number from 0 up" : "a whole number from 0 up";

  test(`accepts zero, one or undefined for ${axis}`, () => {
    for (const limit of [0, 1, undefined]) expect(() => check({ [axis]: limit })).not.toThrow();
  });

  test(`refuses negative, non-numeric and infinite ${axis}`, () => {
    const bad: readonly (readonly [unknown, string])[] = [
      [-1, "-1"],
      [-0.001, "-0.001"],
      [NaN, "NaN"],
      [Infinity, "Infinity"],
      ["10", '"10"'],
      [null, "null"],
      [[10], "an array"],
      [10n, "10"],
    ];
    for (const [limit, got] of bad) {
      expect(thrownBy(() => check({ [axis]: limit }))).toEqual({
        code: "invalid_argument",
        message: `Expected ${field} to be ${expected}, got ${got}. Leave it out for no limit.`,
        data: { field, expected, got },
      });
    }
  });

  test(`${isAmount ? "accepts" : "refuses"} a fraction for ${axis}`, () => {
    if (isAmount) expect(() => check({ [axis]: 0.5 })).not.toThrow();
    else expect(thrownBy(() => check({ [axis]: 0.5 })).data["got"]).toBe("0.5");
  });
}

test("refuses an unknown axis, and suggests the similar one", () => {
  const { code, message, data } = thrownBy(() => check({ totalToken: 5 }));
  expect(code).toBe("invalid_argument");
  expect(message).toBe(
    `Expected lead.budget.totalToken to be one of ${AXES.join(", ")}, got "totalToken". Use totalTokens.`,
  );
  expect(data["field"]).toBe("lead.budget.totalToken");
});

test("refuses costMicroUsd, the ledger's own unit", () => {
  expect(thrownBy(() => check({ costMicroUsd: 5 })).data["field"]).toBe("lead.budget.costMicroUsd");
});

test("converts every axis but time to the ledger's units, and money to micro-dollars", () => {
  const given = Object.fromEntries(AXES.map((axis, index) => [axis, index + 1]));
  expect(toLedgerLimits(given)).toEqual({
    inputTokens: 1,
    cachedInputTokens: 2,
    outputTokens: 3,
    totalTokens: 4,
    costMicroUsd: 5_000_000,
    steps: 6,
    toolCalls: 7,
  });
});

test("omits undefined axes, and keeps zero", () => {
  expect(toLedgerLimits({})).toEqual({});
  const holes = toLedgerLimits(Object.fromEntries([["steps", undefined]]));
  expect(Object.keys(holes)).toEqual([]);
  expect(toLedgerLimits({ steps: 0, costUsd: 0 })).toEqual({ steps: 0, costMicroUsd: 0 });
});

const DOLLARS: readonly (readonly [number, number])[] = [
  [0.29, 290_000],
  [0.57, 570_000],
  [1.1, 1_100_000],
  [0.000001, 1],
  [0.000009, 9],
  [0.0000019, 1],
  [0.0000009, 0],
  [2.675, 2_675_000],
  [1_000, 1_000_000_000],
];

for (const [costUsd, costMicroUsd] of DOLLARS) {
  test(`converts ${costUsd} dollars to ${costMicroUsd} micro-dollars`, () => {
    expect(toLedgerLimits({ costUsd })).toEqual({ costMicroUsd });
  });
}

test("loses no micro-dollar of any amount in cents up to a thousand dollars", () => {
  const lost: number[] = [];
  for (let cents = 0; cents <= 100_000; cents += 1) {
    if (toLedgerLimits({ costUsd: cents / 100 }).costMicroUsd !== cents * 10_000) lost.push(cents);
  }
  expect(lost).toEqual([]);
});

test("loses no micro-dollar of any amount in micro-dollars up to ten cents", () => {
  const lost: number[] = [];
  for (let micros = 0; micros <= 100_000; micros += 1) {
    if (toLedgerLimits({ costUsd: micros / 1_000_000 }).costMicroUsd !== micros) lost.push(micros);
  }
  expect(lost).toEqual([]);
});

proves(["R35"], "stops an agent with the documented reason for each axis", () => {
  expect(BUDGET_AXES.map((axis) => [axis, STOP_CODES_BY_AXIS[axis]])).toEqual([
    ["inputTokens", "token_limit"],
    ["cachedInputTokens", "token_limit"],
    ["outputTokens", "token_limit"],
    ["totalTokens", "token_limit"],
    ["costUsd", "cost_limit"],
    ["steps", "step_limit"],
    ["toolCalls", "tool_call_limit"],
    ["timeMs", "time_limit"],
  ]);
});

test("keeps the tighter of two limits on each axis, and one limit rather than none", () => {
  const left = { steps: 3, totalTokens: 0, toolCalls: 7 };
  const right = { steps: 4, totalTokens: 10, outputTokens: 1 };
  const both = { steps: 3, totalTokens: 0, toolCalls: 7, outputTokens: 1 };
  expect([tightenLimits(left, right), tightenLimits(right, left)]).toEqual([both, both]);
  expect(tightenLimits({}, {})).toEqual({});
});
