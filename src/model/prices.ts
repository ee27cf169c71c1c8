// The price of a model, for leases, charges and results.

import { getOrCompute } from "./memoized-values.ts";
import { asFallback } from "./fallback.ts";
import type { Model } from "./model.ts";
import {
  checkPrice,
  copyPrice,
  computeHighestPrice,
  type ModelPrice,
  isDay,
} from "./model-price.ts";
import { deepFreeze } from "../kernel/json.ts";
import table from "./price-table.json" with { type: "json" };

/**
 * Source of prices for models without a `price` of their own. `loadPrices` of `espalier/prices`
 * returns one.
 *
 * @example
 * ```ts
 * const prices: Prices = {
 *   getPrice: ({ model }) =>
 *     model === "qwen3" ? { inputUsdPerMillion: 0.2, outputUsdPerMillion: 0.6 } : undefined,
 * };
 * const orchestrator = new Orchestrator({ prices });
 * ```
 */
export interface Prices {
  /**
   * Returns the price of a model, or `undefined` if it is unknown. Called once per model, when a
   * run with the model starts.
   */
  getPrice(model: {
    /**
     * Name of the provider, as in `gen_ai.provider.name`, for example `anthropic`. It identifies
     * the price list if there is no `baseUrl`.
     */
    readonly provider: string;
    /**
     * Base URL of the requests. If it is set, the prices of that server apply, whatever `provider`
     * is.
     */
    readonly baseUrl?: string | undefined;
    /** Id of the model. */
    readonly model: string;
  }): ModelPrice | undefined;
}

export type PricedModel = Parameters<Prices["getPrice"]>[0];

/** Returns the price of a model, or `undefined` if it is unknown. */
export type PriceOf = (model: Model) => ModelPrice | undefined;

const OPENAI_ORIGIN = "https://api.openai.com";

/**
 * Returns a function that looks up prices: the model's own, else that of `prices`, else that of the
 * built-in table. Each model is looked up once, when its settings are final. The function throws
 * `invalid_argument` if `prices` returns an invalid price.
 */
export function createPriceLookup(prices: Prices | undefined): PriceOf {
  const known = new WeakMap<Model, { readonly price: ModelPrice | undefined }>();
  const findPrice: PriceOf = (model) => getOrCompute(known, model, lookUp).price;
  return findPrice;

  function lookUp(model: Model): { price: ModelPrice | undefined } {
    // Only a fallback has the keys of several models.
    const fallback = "replayKeys" in model ? asFallback(model) : undefined;
    if (fallback !== undefined)
      return { price: computeHighestPrice(fallback.models.map(findPrice)) };
    const { provider, id, baseUrl, price } = model;
    if (price === "unknown") return { price: undefined };
    if (price !== undefined) {
      checkPrice(`${id}.price`, price); // May have changed since the role was defined.
      return { price: copyPrice(price) };
    }
    const known = prices?.getPrice({ provider, baseUrl, model: id });
    if (known === undefined) {
      const isOpenAi = baseUrl === undefined ? provider === "openai" : isOpenAiItself(baseUrl);
      return { price: isOpenAi ? lookUpModelPrice("openai", id) : undefined };
    }
    checkPrice(`prices.getPrice(${id})`, known);
    return { price: copyPrice(known) };
  }
}

/** Returns false for the address of a region and for Azure: they may charge more. */
export function isOpenAiItself(baseUrl: string): boolean {
  return URL.canParse(baseUrl) && new URL(baseUrl).origin === OPENAI_ORIGIN;
}

/** Names of providers for the standard tier. */
const STANDARD_TIERS: readonly unknown[] = [
  undefined,
  "auto",
  "default",
  "standard",
  "standard_only",
  "on_demand",
];

/** Returns true if requests at this tier cost the list price. */
export function isStandardTier(serviceTier: unknown): boolean {
  return STANDARD_TIERS.includes(serviceTier);
}

// The built-in prices, by provider and model. A model without an entry has an unknown price.
// Similar names are not used to guess it, and fine-tuned models (`ft:…`) have other prices than
// their base model.

type KnownPrice = ModelPrice & Required<Pick<ModelPrice, "asOf" | "source">>;

/** Date on which the source of the table was published, and of its prices. */
export const PRICES_AS_OF: string = table.asOf;

type PriceRow = (typeof table.rows)[number];

const ROWS: ReadonlyMap<string, PriceRow> = new Map(
  table.rows.flatMap((row) => row.models.map((model) => [model, row] as const)),
);
const prices = new WeakMap<PriceRow, KnownPrice>();

function toKnownPrice({ price, isHighest }: PriceRow): KnownPrice {
  const source = isHighest ? `${table.source}, highest rate` : table.source;
  return deepFreeze({ ...copyPrice(price), asOf: PRICES_AS_OF, source });
}

/**
 * Returns the list price of a model from the table in this release. `undefined` if the price is
 * unknown, which is not zero.
 *
 * The table contains the chat models of `openai`, by exact name or as a dated snapshot
 * (`gpt-5-mini-2025-08-07`). `asOf` is the date of the table. If `source` contains "highest rate",
 * the real charge may be lower.
 *
 * @example
 * ```ts
 * const price = lookUpModelPrice("openai", "gpt-5-mini");
 * console.log(price?.inputUsdPerMillion ?? "unknown");
 * ```
 */
export function lookUpModelPrice(
  provider: string,
  modelId: string,
): (ModelPrice & Required<Pick<ModelPrice, "asOf" | "source">>) | undefined {
  if (provider !== "openai" || typeof modelId !== "string") return undefined;
  // The model of a dated snapshot, if all of its snapshots have the same price.
  const model = modelId.slice(0, -DATE_LENGTH - 1);
  const isSnapshot = modelId.at(-DATE_LENGTH - 1) === "-" && isDay(modelId.slice(-DATE_LENGTH));
  const isListed = isSnapshot && table.withSnapshots.includes(model);
  const row = ROWS.get(modelId) ?? (isListed ? ROWS.get(model) : undefined);
  return row === undefined ? undefined : getOrCompute(prices, row, toKnownPrice);
}

const DATE_LENGTH = "2025-08-07".length;
