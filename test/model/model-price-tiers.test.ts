// Goal: a price with tiers charges each whole request by its own length. A lease is reserved as if
// the token count were a tenth too low.
// Method: prices of small whole numbers; random requests compared with a calculation of the test;
// invalid prices.

import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import {
  checkPrice,
  copyPrice,
  computeMicroUsd,
  computeMaxCost,
  computeHighestPrice,
  type ModelPrice,
} from "../../src/model/model-price.ts";
import type { TokenUsage } from "../../src/model/token-usage.ts";
import { proves } from "../harness/proves.ts";
import { thrownBy } from "../support/thrown.ts";

const PRICE: ModelPrice = {
  inputUsdPerMillion: 2,
  cachedInputUsdPerMillion: 1,
  cacheWriteUsdPerMillion: 3,
  outputUsdPerMillion: 10,
  tiers: [
    { aboveInputTokens: 100, inputUsdPerMillion: 4, outputUsdPerMillion: 20 },
    { aboveInputTokens: 200, inputUsdPerMillion: 8, outputUsdPerMillion: 40 },
  ],
};

function usage(inputTokens: number, outputTokens = 0, more: Partial<TokenUsage> = {}): TokenUsage {
  return { inputTokens, cachedInputTokens: 0, outputTokens, reasoningTokens: 0, ...more };
}

proves(["M60"], "applies a tier to the whole request above its number of tokens", () => {
  const costs = [100, 101, 200, 201].map((input) => computeMicroUsd(PRICE, usage(input, 1)));
  expect(costs).toEqual([210, 424, 820, 1_648]);
});

proves(["M60"], "charges cache reads and writes at their own rates, or at the input rate", () => {
  const mixed = { cachedInputTokens: 10, cacheWriteInputTokens: 20 };
  expect([
    computeMicroUsd(PRICE, usage(50, 0, mixed)),
    computeMicroUsd(PRICE, usage(150, 0, mixed)),
  ]).toEqual([10 * 1 + 20 * 3 + 20 * 2, 150 * 4]);
});

proves(["M60"], "charges each request by its own length", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(300), fc.nat(50)), { maxLength: 5 }), (requests) => {
      const expected = requests.reduce((sum, [input, output]) => {
        const times = input > 200 ? 4 : input > 100 ? 2 : 1;
        return sum + times * (2 * input + 10 * output);
      }, 0);
      const all = requests.map(([input, output]) => usage(input, output));
      expect(computeMicroUsd(PRICE, ...all)).toBe(expected);
    }),
  );
});

proves(["M61"], "reserves a lease at the tier of a tenth more tokens than were counted", () => {
  // A tenth more than 91 tokens is 100.1, which reaches the next tier.
  expect([90, 91, 181, 182].map((input) => computeMaxCost(PRICE, input, 1))).toEqual([
    90 * 3 + 10,
    91 * 4 + 20,
    181 * 4 + 20,
    182 * 8 + 40,
  ]);
});

test("computes a highest price that costs as much as the most expensive price at each length", () => {
  const rate = fc.nat(9);
  const rates = fc.record(
    {
      inputUsdPerMillion: rate,
      cachedInputUsdPerMillion: rate,
      cacheWriteUsdPerMillion: rate,
      outputUsdPerMillion: rate,
    },
    { requiredKeys: ["inputUsdPerMillion", "outputUsdPerMillion"] },
  );
  const price = fc
    .tuple(rates, fc.uniqueArray(fc.nat(9), { maxLength: 3 }), fc.array(rates, { minLength: 3 }))
    .map(([base, lengths, above]) => ({
      ...base,
      tiers: lengths
        .toSorted((left, right) => left - right)
        .map((aboveInputTokens, index) => ({ aboveInputTokens, ...(above[index] ?? base) })),
    }));
  const kinds = [
    (tokens: number) => usage(tokens),
    (tokens: number) => usage(tokens, 0, { cachedInputTokens: tokens }),
    (tokens: number) => usage(tokens, 0, { cacheWriteInputTokens: tokens }),
  ];
  fc.assert(
    fc.property(fc.array(price, { minLength: 1, maxLength: 3 }), fc.nat(10), (prices, tokens) => {
      const dearest = computeHighestPrice(prices) ?? expect.fail("unknown");
      expect(computeHighestPrice([...prices, undefined])).toBe(undefined);
      checkPrice("price", dearest);
      for (const kind of kinds) {
        const costs = prices.map((one) => computeMicroUsd(one, kind(tokens)));
        expect(computeMicroUsd(dearest, kind(tokens))).toBe(Math.max(...costs));
      }
    }),
  );
});

test("copies a price in full and freezes it to the last tier", () => {
  const copy = copyPrice({ ...PRICE, asOf: "2026-09-23", source: "our contract" });
  expect(copy).toEqual({ ...PRICE, asOf: "2026-09-23", source: "our contract" });
  expect([copy, copy.tiers, ...(copy.tiers ?? [])].filter((one) => !Object.isFrozen(one))).toEqual(
    [],
  );
});

describe("an invalid price", () => {
  const RATES = { inputUsdPerMillion: 1, outputUsdPerMillion: 2 };
  const above = (aboveInputTokens: unknown, more: object = {}): object => ({
    aboveInputTokens,
    ...RATES,
    ...more,
  });
  const ADVICE = "Set US dollars per million tokens, or leave an unknown price out.";
  const START = "Set the number of input tokens above which the tier applies.";
  const ORDER = "List the tiers from the fewest tokens up, each once.";
  test.each<[string, object, string]>([
    [
      "a negative rate",
      { ...RATES, cacheWriteUsdPerMillion: -1 },
      `Expected p.cacheWriteUsdPerMillion to be a number from 0 to 1000000, got -1. ${ADVICE}`,
    ],
    [
      "no list of tiers",
      { ...RATES, tiers: above(5) },
      "Expected p.tiers to be an array, got an object. List the tiers from the fewest tokens up.",
    ],
    [
      "tiers from the most tokens down",
      { ...RATES, tiers: [above(7), above(5)] },
      `Expected p.tiers[1].aboveInputTokens to be more than 7, where the tier before it begins, got 5. ${ORDER}`,
    ],
    [
      "a tier twice",
      { ...RATES, tiers: [above(7), above(7)] },
      `Expected p.tiers[1].aboveInputTokens to be more than 7, where the tier before it begins, got 7. ${ORDER}`,
    ],
    [
      "a tier that begins at a part of a token",
      { ...RATES, tiers: [above(0.5)] },
      `Expected p.tiers[0].aboveInputTokens to be a whole number from 0 up, got 0.5. ${START}`,
    ],
    [
      "a tier that begins nowhere",
      { ...RATES, tiers: [RATES] },
      `Expected p.tiers[0].aboveInputTokens to be a whole number from 0 up, got undefined. ${START}`,
    ],
    [
      "a tier without a rate for output",
      { ...RATES, tiers: [{ aboveInputTokens: 1, inputUsdPerMillion: 1 }] },
      `Expected p.tiers[0].outputUsdPerMillion to be a number from 0 to 1000000, got undefined. ${ADVICE}`,
    ],
    [
      "a tier with tiers",
      { ...RATES, tiers: [above(1, { tiers: [] })] },
      'Expected p.tiers[0].tiers to be one of aboveInputTokens, inputUsdPerMillion, cachedInputUsdPerMillion, cacheWriteUsdPerMillion, outputUsdPerMillion, got "tiers". Correct the name.',
    ],
  ])("is rejected with %s", (_what, price, message) => {
    const thrown = thrownBy(() => Reflect.apply(checkPrice, undefined, ["p", price]));
    expect([thrown.code, thrown.message]).toEqual(["invalid_argument", message]);
  });
});
