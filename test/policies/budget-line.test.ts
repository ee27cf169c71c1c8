// Goal: the remaining budget is one plain line of the limited axes only, and never states more than
// remains.
// Method: tables of amounts and texts; the line of every amount in a range is read back.

import { expect, test } from "vitest";

import { formatBudgetLine } from "../../src/policies/budget-line.ts";
import { findReachedThresholds } from "../../src/policies/budget.ts";
import { proves } from "../harness/proves.ts";

proves(["X6"], "names each limited axis in a fixed order", () => {
  expect(formatBudgetLine({ timeMs: 40_000, costUsd: 0.2, totalTokens: 12_000, steps: 3 })).toBe(
    "Budget left: 3 steps, 12,000 tokens, $0.20, 40 s.",
  );
  expect(
    formatBudgetLine({
      steps: 1,
      toolCalls: 1,
      totalTokens: 1,
      inputTokens: 1,
      cachedInputTokens: 1,
      outputTokens: 1,
      costUsd: 1,
      timeMs: 1_000,
    }),
  ).toBe(
    "Budget left: 1 step, 1 tool call, 1 token, 1 input token, 1 cached input token, 1 output token, $1.00, 1 s.",
  );
});

proves(["X6"], "returns undefined without a limited axis", () => {
  expect(formatBudgetLine({})).toBeUndefined();
  expect(formatBudgetLine({ something: 3 })).toBeUndefined();
});

const AMOUNTS: readonly (readonly [object: Readonly<Record<string, number>>, text: string])[] = [
  [{ steps: 0 }, "0 steps"],
  [{ steps: -2 }, "0 steps"],
  [{ totalTokens: 999 }, "999 tokens"],
  [{ totalTokens: 1_000 }, "1,000 tokens"],
  [{ totalTokens: Number.MAX_SAFE_INTEGER }, "9,007,199,254,740,991 tokens"],
  [{ costUsd: 0 }, "$0"],
  [{ costUsd: 0.000099 }, "$0"],
  [{ costUsd: 0.0001 }, "$0.0001"],
  [{ costUsd: 0.009999 }, "$0.0099"],
  [{ costUsd: 0.01 }, "$0.01"],
  [{ costUsd: 0.289999 }, "$0.28"],
  [{ costUsd: 0.29 }, "$0.29"],
  [{ costUsd: 1234.56789 }, "$1,234.56"],
  [{ timeMs: 0 }, "0 s"],
  [{ timeMs: 999.9 }, "0 s"],
  [{ timeMs: 3_600_000 }, "3,600 s"],
];

for (const [left, text] of AMOUNTS)
  test(`formats ${JSON.stringify(left)} as ${text}`, () => {
    expect(formatBudgetLine(left)).toBe(`Budget left: ${text}.`);
  });

test("rounds money down at every cent, and never up", () => {
  for (let microUsd = 0; microUsd < 3_000_000; microUsd += 137) {
    const text =
      /\$([\d.,]+)\./.exec(formatBudgetLine({ costUsd: microUsd / 1_000_000 }) ?? "")?.[1] ?? "";
    const usd = Number(text.replaceAll(",", ""));
    const unit = microUsd < 10_000 ? 100 : 10_000;
    expect(Math.round(usd * 1_000_000)).toBe(Math.floor(microUsd / unit) * unit);
  }
});

proves(["X6"], "reports a threshold for the amount that reaches it, and for no other", () => {
  const reached: (readonly [number, number])[] = [];
  for (let spent = 1; spent <= 120; spent += 1)
    for (const threshold of findReachedThresholds(100, spent - 1, spent))
      reached.push([spent, threshold]);
  expect(reached).toEqual([
    [80, 0.8],
    [95, 0.95],
  ]);
});

test("reports the thresholds of every limit once each, exactly", () => {
  for (let maximum = 1; maximum <= 400; maximum += 1) {
    const at = new Map<number, number[]>();
    for (let spent = 1; spent <= maximum + 3; spent += 1)
      for (const threshold of findReachedThresholds(maximum, spent - 1, spent))
        at.set(threshold, [...(at.get(threshold) ?? []), spent]);
    expect([...at]).toEqual([
      [0.8, [Math.ceil((maximum * 80) / 100)]],
      [0.95, [Math.ceil((maximum * 95) / 100)]],
    ]);
  }
});

test("reports both thresholds if both are passed at once, and none for a limit of zero", () => {
  expect(findReachedThresholds(10, 0, 10)).toEqual([0.8, 0.95]);
  expect(findReachedThresholds(10, 8, 10)).toEqual([0.95]);
  expect(findReachedThresholds(10, 10, 30)).toEqual([]);
  expect(findReachedThresholds(0, 0, 5)).toEqual([]);
});
