import { z } from "zod";

import { defined } from "../kernel/json.ts";
import { checkOptions, mustBe, type OptionChecks } from "./check-options.ts";
import type { TokenUsage } from "./token-usage.ts";

/** What a model costs, in US dollars per million tokens, as providers publish it. */
export interface ModelPrice {
  readonly inputUsdPerMillion: number;
  /** Default: the price of other input. */
  readonly cachedInputUsdPerMillion?: number;
  readonly outputUsdPerMillion: number;
  /** The day on which the price was known to hold: `2026-09-23`. Changes nothing; results show it. */
  readonly asOf?: string;
  /** Where the price comes from, in your words. Changes nothing; results show it. */
  readonly source?: string;
}

/** A dollar a token: no model is so dear, and costs of calls stay whole micro-dollars that add up exactly. */
const MOST_USD_PER_MILLION = 1_000_000;

const checkRate = mustBe(
  `a number from 0 to ${MOST_USD_PER_MILLION}`,
  (value) => typeof value === "number" && value >= 0 && value <= MOST_USD_PER_MILLION,
  "Give US dollars per million tokens; a price that you do not know is left out.",
);

const CHECKS: OptionChecks<ModelPrice> = {
  inputUsdPerMillion: checkRate,
  cachedInputUsdPerMillion: checkRate,
  outputUsdPerMillion: checkRate,
  asOf: mustBe('a day like "2026-09-23"', isDay, "Say on which day the price was looked up."),
  source: mustBe(
    "text that is not empty",
    (value) => typeof value === "string" && value.trim() !== "",
    "Leave it out, or say it.",
  ),
};

/** Throws `invalid_option` unless every price is a number from 0 to 1,000,000, `asOf` a day and `source` text. */
export function checkPrice(field: string, price: ModelPrice): void {
  checkOptions(field, price, CHECKS);
  checkRate(`${field}.inputUsdPerMillion`, price.inputUsdPerMillion);
  checkRate(`${field}.outputUsdPerMillion`, price.outputUsdPerMillion);
}

/** Whether `value` is a day that exists, written `YYYY-MM-DD`. */
export function isDay(value: unknown): boolean {
  return z.iso.date().safeParse(value).success;
}

/** The price as a plain frozen value of its own, with its fields in one order. */
export function copyPrice(price: ModelPrice): ModelPrice {
  const { inputUsdPerMillion, cachedInputUsdPerMillion, outputUsdPerMillion, asOf, source } = price;
  return Object.freeze({
    inputUsdPerMillion,
    ...(cachedInputUsdPerMillion === undefined ? {} : { cachedInputUsdPerMillion }),
    outputUsdPerMillion,
    ...defined({ asOf, source }),
  });
}

/** Field by field the dearest of these prices; unknown if one of them is. */
export function dearestPrice(prices: readonly (ModelPrice | undefined)[]): ModelPrice | undefined {
  const known = prices.filter((price) => price !== undefined);
  if (known.length < prices.length) return undefined;
  const dearest = (rateOf: (price: ModelPrice) => number): number => Math.max(...known.map(rateOf));
  return Object.freeze({
    inputUsdPerMillion: dearest((price) => price.inputUsdPerMillion),
    cachedInputUsdPerMillion: dearest(
      ({ inputUsdPerMillion, cachedInputUsdPerMillion = inputUsdPerMillion }) =>
        cachedInputUsdPerMillion,
    ),
    outputUsdPerMillion: dearest((price) => price.outputUsdPerMillion),
  });
}

/** The cost of one call in millionths of a dollar, rounded up: dollars per million tokens are micro-dollars per token. */
export function costMicroUsd(price: ModelPrice, usage: TokenUsage): number {
  const cachedPrice = price.cachedInputUsdPerMillion ?? price.inputUsdPerMillion;
  const freshTokens = usage.inputTokens - usage.cachedInputTokens;
  return Math.ceil(
    freshTokens * price.inputUsdPerMillion +
      usage.cachedInputTokens * cachedPrice +
      usage.outputTokens * price.outputUsdPerMillion,
  );
}

/** The most that so many tokens can cost: all input may turn out to be cached, or none. */
export function dearestCost(price: ModelPrice, inputTokens: number, outputTokens: number): number {
  const fresh = { inputTokens, cachedInputTokens: 0, outputTokens, reasoningTokens: 0 };
  const cached = { ...fresh, cachedInputTokens: inputTokens };
  return Math.max(costMicroUsd(price, fresh), costMicroUsd(price, cached));
}
