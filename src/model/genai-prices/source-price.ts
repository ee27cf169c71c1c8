// Converts prices of the package to our form, for the entry and for the generated table.

import { sameJson } from "../../kernel/json.ts";
import { computeHighestPrice, buildTieredPrice, type ModelPrice } from "../model-price.ts";
import { lazySchema, lazyUnion, z } from "../../protocol/lazy-schema.ts";

const RateSchema = lazySchema(() =>
  z.union([
    z.number(),
    z.object({
      base: z.number(),
      tiers: z.array(z.object({ start: z.number(), price: z.number() })),
    }),
  ]),
);
const RatesSchema = lazySchema(() => z.record(z.string(), RateSchema().optional()));
const ConditionSchema = lazyUnion("type", () => [
  z.object({ type: z.literal("start_date"), start_date: z.string() }),
  z.object({ type: z.literal("time_of_date") }),
]);

/** The prices of a model in the form of the package. Unknown fields are ignored. */
export const SourcePricesSchema = lazySchema(() =>
  z.union([
    z.array(z.object({ constraint: ConditionSchema().optional(), prices: RatesSchema() })).min(1),
    RatesSchema(),
  ]),
);

export type SourcePrices = z.infer<ReturnType<typeof SourcePricesSchema>>;
type Rates = z.infer<ReturnType<typeof RatesSchema>>;
type Rate = z.infer<ReturnType<typeof RateSchema>>;

/** The price of a model on a day. */
export interface SourcePrice {
  readonly price: ModelPrice;
  /**
   * True if the rates depend on the time of day or on the kind of output. The price then has the
   * highest rates, and a call may cost less.
   */
  readonly isHighest: boolean;
}

/**
 * Returns the price of a text call on a day (`2026-09-23`): the highest rates at any time that day.
 * `undefined` if the model charges for something that our usage does not contain.
 */
export function computeSourcePrice(prices: SourcePrices, day: string): SourcePrice | undefined {
  const current = Array.isArray(prices) ? selectCurrentPrices(prices, day) : [prices];
  const candidates = current.flatMap(convertRates);
  const price = computeHighestPrice(candidates);
  if (price === undefined) return undefined;
  return { price, isHighest: !candidates.every((other) => sameJson(other, price)) };
}

/**
 * Returns the last entry that applies at any time of day, and the later entries that apply at some
 * time of day.
 */
function selectCurrentPrices(
  prices: Extract<SourcePrices, readonly unknown[]>,
  day: string,
): readonly Rates[] {
  const holds = prices.map(
    ({ constraint }) =>
      constraint === undefined ||
      (constraint.type === "start_date" && constraint.start_date <= day),
  );
  const from = Math.max(0, holds.lastIndexOf(true));
  return prices
    .filter(
      ({ constraint }, index) =>
        index === from || (index > from && constraint?.type === "time_of_date"),
    )
    .map((candidate) => candidate.prices);
}

/**
 * Rates of other content than text, and of server-side tools, which we never request. A longer
 * cache lifetime is explained in the docs.
 */
const IRRELEVANT = /audio|image|video|_searches_kcount$|^cache_write_1h_mtok$/;
const [INPUT, CACHED, WRITTEN, OUTPUT, REASONING] = [
  "input_mtok",
  "cache_read_mtok",
  "cache_write_mtok",
  "output_mtok",
  "output_reasoning_mtok",
] as const;
const READ: readonly string[] = [INPUT, CACHED, WRITTEN, OUTPUT, REASONING];

/**
 * Returns several prices if two kinds of output have different rates, and `[undefined]` if the
 * rates are not for text alone.
 */
function convertRates(rates: Rates): readonly (ModelPrice | undefined)[] {
  const { [INPUT]: input, [OUTPUT]: output } = rates;
  const isByTokens = Object.keys(rates).every(
    (rate) => READ.includes(rate) || IRRELEVANT.test(rate),
  );
  if (input === undefined || output === undefined || !isByTokens) return [undefined];
  const { [REASONING]: reasoning = output } = rates;
  const { [CACHED]: cached, [WRITTEN]: written } = rates;
  // A tier for each length at which some rate changes.
  return [output, reasoning].map((outputRate) => {
    const starts = [input, cached, written, outputRate].flatMap((rate) =>
      typeof rate === "object" ? rate.tiers.map(({ start }) => start) : [],
    );
    return buildTieredPrice(starts, (tokens) => ({
      inputUsdPerMillion: selectTierRate(input, tokens),
      ...(cached === undefined ? {} : { cachedInputUsdPerMillion: selectTierRate(cached, tokens) }),
      ...(written === undefined
        ? {}
        : { cacheWriteUsdPerMillion: selectTierRate(written, tokens) }),
      outputUsdPerMillion: selectTierRate(outputRate, tokens),
    }));
  });
}

/** Returns the rate of the highest tier that starts below this input, as the package does. */
function selectTierRate(rate: Rate, inputTokens: number): number {
  if (typeof rate === "number") return rate;
  const reached = rate.tiers
    .filter(({ start }) => inputTokens > start)
    .toSorted((left, right) => left.start - right.start);
  return reached.at(-1)?.price ?? rate.base;
}
