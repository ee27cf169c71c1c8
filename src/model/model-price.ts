import { z } from "zod";

import { mismatch } from "../kernel/argument-checks.ts";
import { deepFreeze, omitUndefined } from "../kernel/json.ts";
import { checkOptions, mustBe, type OptionChecks } from "./check-options.ts";
import type { TokenUsage } from "./token-usage.ts";

/**
 * Price of a model in US dollars per million tokens, as providers publish it.
 *
 * @example
 * ```ts
 * const price: ModelPrice = {
 *   inputUsdPerMillion: 1.25,
 *   cachedInputUsdPerMillion: 0.125,
 *   outputUsdPerMillion: 10,
 *   tiers: [{ aboveInputTokens: 200_000, inputUsdPerMillion: 2.5, outputUsdPerMillion: 15 }],
 * };
 * ```
 */
export interface ModelPrice {
  /** US dollars per million input tokens, from 0 to 1,000,000. */
  readonly inputUsdPerMillion: number;
  /**
   * US dollars per million input tokens that the provider reads from its cache.
   *
   * @default inputUsdPerMillion
   */
  readonly cachedInputUsdPerMillion?: number;
  /**
   * US dollars per million input tokens that the provider writes to its cache.
   *
   * @default inputUsdPerMillion
   */
  readonly cacheWriteUsdPerMillion?: number;
  /** US dollars per million output tokens, from 0 to 1,000,000. */
  readonly outputUsdPerMillion: number;
  /**
   * Date on which the price was looked up, for example `2026-09-23`. Shown in results; no effect on
   * charges.
   */
  readonly asOf?: string;
  /** Origin of the price, in your words. Shown in results; no effect on charges. */
  readonly source?: string;
  /**
   * Prices of longer requests, from the fewest input tokens up. The last tier that a request
   * exceeds prices all of its tokens, output included.
   */
  readonly tiers?: readonly ({
    /** Input tokens that a request must exceed for this tier, including cached tokens. */
    readonly aboveInputTokens: number;
  } & Pick<
    ModelPrice,
    | "inputUsdPerMillion"
    | "cachedInputUsdPerMillion"
    | "cacheWriteUsdPerMillion"
    | "outputUsdPerMillion"
  >)[];
}

type PriceTier = NonNullable<ModelPrice["tiers"]>[number];
type ModelRates = Omit<PriceTier, "aboveInputTokens">;

/**
 * A dollar per token. No model costs more, and costs of calls in whole micro-dollars stay exact.
 */
const MAX_USD_PER_MILLION = 1_000_000;

const checkRate = mustBe(
  `a number from 0 to ${MAX_USD_PER_MILLION}`,
  (value) => typeof value === "number" && value >= 0 && value <= MAX_USD_PER_MILLION,
  "Set US dollars per million tokens, or leave an unknown price out.",
);

const RATE_CHECKS: OptionChecks<ModelRates> = {
  inputUsdPerMillion: checkRate,
  cachedInputUsdPerMillion: checkRate,
  cacheWriteUsdPerMillion: checkRate,
  outputUsdPerMillion: checkRate,
};

const TIER_CHECKS: OptionChecks<PriceTier> = {
  aboveInputTokens: mustBe(
    "a whole number from 0 up",
    (value) => Number.isSafeInteger(value) && Number(value) >= 0,
    "Set the number of input tokens above which the tier applies.",
  ),
  ...RATE_CHECKS,
};

const CHECKS: OptionChecks<ModelPrice> = {
  ...RATE_CHECKS,
  asOf: mustBe('a day like "2026-09-23"', isDay, "Set the day on which the price was looked up."),
  source: mustBe(
    "a non-empty string",
    (value) => typeof value === "string" && value.trim() !== "",
    "Pass some text, or leave it out.",
  ),
  tiers: checkTiers,
};

/**
 * Throws `invalid_argument` unless every price is a number from 0 to 1,000,000, `asOf` is a date,
 * `source` is text, and `tiers` rise.
 */
export function checkPrice(field: string, price: ModelPrice): void {
  checkOptions(field, price, CHECKS);
  checkNeeded(field, price);
}

/** Throws like `checkPrice`, but accepts `"unknown"`. */
export function checkPriceOption(field: string, price: ModelPrice | "unknown"): void {
  if (price !== "unknown") checkPrice(field, price);
}

function checkNeeded(field: string, { inputUsdPerMillion, outputUsdPerMillion }: ModelRates): void {
  checkRate(`${field}.inputUsdPerMillion`, inputUsdPerMillion);
  checkRate(`${field}.outputUsdPerMillion`, outputUsdPerMillion);
}

function checkTiers(field: string, tiers: readonly PriceTier[]): void {
  const advice = "List the tiers from the fewest tokens up";
  const tierList: unknown = tiers;
  if (!Array.isArray(tierList)) throw mismatch(field, "an array", tiers, `${advice}.`);
  let least = -1;
  for (const [index, tier] of tiers.entries()) {
    const name = `${field}[${index}]`;
    checkOptions(name, tier, TIER_CHECKS);
    TIER_CHECKS.aboveInputTokens(`${name}.aboveInputTokens`, tier.aboveInputTokens);
    checkNeeded(name, tier);
    const { aboveInputTokens } = tier;
    if (aboveInputTokens <= least) {
      const expected = `more than ${least}, where the tier before it begins`;
      const place = `${name}.aboveInputTokens`;
      throw mismatch(place, expected, aboveInputTokens, `${advice}, each once.`);
    }
    least = aboveInputTokens;
  }
}

/** Returns true for an existing date in the form `YYYY-MM-DD`. */
export function isDay(value: unknown): boolean {
  return z.iso.date().safeParse(value).success;
}

/** Returns a frozen copy of the price, with its fields in a fixed order. */
export function copyPrice({ asOf, source, tiers, ...rates }: ModelPrice): ModelPrice {
  const copied = tiers?.map(({ aboveInputTokens, ...above }) => ({
    aboveInputTokens,
    ...copyRates(above),
  }));
  return deepFreeze({ ...copyRates(rates), ...omitUndefined({ asOf, source, tiers: copied }) });
}

function copyRates(rates: ModelRates): ModelRates {
  const { inputUsdPerMillion, cachedInputUsdPerMillion, cacheWriteUsdPerMillion } = rates;
  const { outputUsdPerMillion } = rates;
  return {
    inputUsdPerMillion,
    ...omitUndefined({ cachedInputUsdPerMillion, cacheWriteUsdPerMillion }),
    outputUsdPerMillion,
  };
}

/** Returns the rates for a request with this number of input tokens. */
function selectRates(price: ModelPrice, inputTokens: number): ModelRates {
  return price.tiers?.findLast((tier) => inputTokens > tier.aboveInputTokens) ?? price;
}

/**
 * Returns the cost of requests in micro-dollars, rounded up. US dollars per million tokens are
 * micro-dollars per token. Each request has its own tier, so add up costs and not tokens.
 */
export function computeMicroUsd(price: ModelPrice, ...requests: readonly TokenUsage[]): number {
  let cost = 0;
  for (const request of requests) {
    const { inputTokens, cachedInputTokens, cacheWriteInputTokens = 0, outputTokens } = request;
    const rates = selectRates(price, inputTokens);
    const { inputUsdPerMillion: fresh, outputUsdPerMillion } = rates;
    const { cachedInputUsdPerMillion = fresh, cacheWriteUsdPerMillion = fresh } = rates;
    cost +=
      (inputTokens - cachedInputTokens - cacheWriteInputTokens) * fresh +
      cachedInputTokens * cachedInputUsdPerMillion +
      cacheWriteInputTokens * cacheWriteUsdPerMillion +
      outputTokens * outputUsdPerMillion;
  }
  return Math.ceil(cost);
}

/** Margin for a count of input tokens that is too low. The real request may reach a higher tier. */
const LEASE_PERCENT = 110;

/**
 * Returns the highest rates that can apply to a request with this count of input tokens. All of its
 * input may be cached, written to the cache, or neither.
 */
export function computeHighestRates(
  price: ModelPrice,
  countedTokens: number,
): Pick<ModelRates, "inputUsdPerMillion" | "outputUsdPerMillion"> {
  const rates = selectRates(price, (countedTokens * LEASE_PERCENT) / 100);
  const { inputUsdPerMillion: fresh, outputUsdPerMillion } = rates;
  const { cachedInputUsdPerMillion = fresh, cacheWriteUsdPerMillion = fresh } = rates;
  const inputUsdPerMillion = Math.max(fresh, cachedInputUsdPerMillion, cacheWriteUsdPerMillion);
  return { inputUsdPerMillion, outputUsdPerMillion };
}

/** Returns the highest cost of a request with these counted tokens, in micro-dollars. */
export function computeMaxCost(
  price: ModelPrice,
  inputTokens: number,
  outputTokens: number,
): number {
  const { inputUsdPerMillion, outputUsdPerMillion } = computeHighestRates(price, inputTokens);
  return Math.ceil(inputTokens * inputUsdPerMillion + outputTokens * outputUsdPerMillion);
}

/**
 * Returns a price that equals the highest of several prices at any length, rate by rate. It has no
 * date and no source. `undefined` if one of the prices is unknown.
 */
export function computeHighestPrice(
  all: readonly (ModelPrice | undefined)[],
): ModelPrice | undefined {
  const prices = all.flatMap((price) => price ?? []);
  if (prices.length < all.length) return undefined;
  const lengths = prices.flatMap(({ tiers = [] }) => tiers.map((tier) => tier.aboveInputTokens));
  return buildTieredPrice(lengths, (inputTokens) => {
    const all = prices.map((price) => selectRates(price, inputTokens));
    const most = (rate: keyof ModelRates): number =>
      Math.max(...all.map((rates) => rates[rate] ?? rates.inputUsdPerMillion));
    const findHighestDefined = (rate: keyof ModelRates): number | undefined =>
      all.some((rates) => rates[rate] !== undefined) ? most(rate) : undefined;
    return {
      inputUsdPerMillion: most("inputUsdPerMillion"),
      ...omitUndefined({
        cachedInputUsdPerMillion: findHighestDefined("cachedInputUsdPerMillion"),
        cacheWriteUsdPerMillion: findHighestDefined("cacheWriteUsdPerMillion"),
      }),
      outputUsdPerMillion: most("outputUsdPerMillion"),
    };
  });
}

/** Returns the price with these rates, and a tier above each of the lengths. */
export function buildTieredPrice(
  lengths: readonly number[],
  ratesFor: (inputTokens: number) => ModelRates,
): ModelPrice {
  const tiers = [...new Set(lengths)]
    .toSorted((left, right) => left - right)
    .map((aboveInputTokens) => ({ aboveInputTokens, ...ratesFor(aboveInputTokens + 1) }));
  return tiers.length === 0 ? ratesFor(0) : { ...ratesFor(0), tiers };
}
