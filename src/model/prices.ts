// What a model costs: the one place that answers it, for leases, charges and results.

import { remembered } from "./remembered.ts";
import { fallbackOf } from "./fallback.ts";
import type { Model } from "./model.ts";
import { checkPrice, copyPrice, dearestPrice, type ModelPrice, isDay } from "./model-price.ts";
import { deepFreeze } from "../kernel/json.ts";
import table from "./price-table.json" with { type: "json" };

/** Prices of models that have none of their own. `loadPrices` of `espalier/prices` makes one. */
export interface Prices {
  /** Undefined: unknown. Asked when a run with the model starts, and once for each model. */
  getPrice(model: {
    /** As in `gen_ai.provider.name`: `anthropic`. Says whose prices hold if there is no base URL. */
    readonly provider: string;
    /** Where it is asked. If given, its prices are those of that server, whatever `provider` is. */
    readonly baseUrl?: string | undefined;
    /** The id of the model. */
    readonly model: string;
  }): ModelPrice | undefined;
}

export type PricedModel = Parameters<Prices["getPrice"]>[0];

/** What a model costs; undefined: unknown. */
export type PriceOf = (model: Model) => ModelPrice | undefined;

const OPENAI_ORIGIN = "https://api.openai.com";

/**
 * Looks up what models cost: what they say themselves, else what `prices` has, else our own table. Each model is looked up once, when its
 * environment is settled. What it gives throws `invalid_option` if `prices` has a price that is none.
 */
export function priceLookup(prices: Prices | undefined): PriceOf {
  const known = new WeakMap<Model, { readonly price: ModelPrice | undefined }>();
  const findPrice: PriceOf = (model) => remembered(known, model, lookUp).price;
  return findPrice;

  function lookUp(model: Model): { price: ModelPrice | undefined } {
    // Only a fallback has the keys of several models.
    const fallback = "replayKeys" in model ? fallbackOf(model) : undefined;
    if (fallback !== undefined) return { price: dearestPrice(fallback.models.map(findPrice)) };
    const { provider, id, baseUrl, price } = model;
    if (price === "unknown") return { price: undefined };
    if (price !== undefined) {
      checkPrice(`${id}.price`, price); // It may have been given, or changed, since the role was defined.
      return { price: copyPrice(price) };
    }
    const found = prices?.getPrice({ provider, baseUrl, model: id });
    if (found === undefined) {
      const isOpenAi = baseUrl === undefined ? provider === "openai" : isOpenAiItself(baseUrl);
      return { price: isOpenAi ? lookUpModelPrice("openai", id) : undefined };
    }
    checkPrice(`prices.getPrice(${id})`, found);
    return { price: copyPrice(found) };
  }
}

/** Not so at the address of a region, or at Azure: they may charge more. */
export function isOpenAiItself(baseUrl: string): boolean {
  return URL.canParse(baseUrl) && new URL(baseUrl).origin === OPENAI_ORIGIN;
}

/** What providers call the tier at which a request is served that asks for none. */
const STANDARD_TIERS: readonly unknown[] = [
  undefined,
  "auto",
  "default",
  "standard",
  "standard_only",
  "on_demand",
];

/** Whether a request that is served at this tier costs what is published for the model. */
export function isStandardTier(serviceTier: unknown): boolean {
  return STANDARD_TIERS.includes(serviceTier);
}

// The prices that we know ourselves, by provider and model. A name that the table does not have is unknown: nothing is guessed from
// names that look alike, and fine-tuned models (`ft:…`) cost something else than what they were made from.

type KnownPrice = ModelPrice & Required<Pick<ModelPrice, "asOf" | "source">>;

/** The day on which the release of the table's source was published. Its prices are those of that day. */
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
 * What a model costs at its own provider, from the table that comes with this release. Undefined: not known, which is never zero.
 * So far the table has the chat models of `openai`, by exact name or as a dated snapshot (`gpt-5-mini-2025-08-07`). `asOf` is
 * the date of the table; "highest rate" in `source` means that the charge may be less.
 */
export function lookUpModelPrice(
  provider: string,
  modelId: string,
): (ModelPrice & Required<Pick<ModelPrice, "asOf" | "source">>) | undefined {
  if (provider !== "openai" || typeof modelId !== "string") return undefined;
  // The model of which it is a dated snapshot, if all snapshots of that cost the same.
  const model = modelId.slice(0, -DATE_LENGTH - 1);
  const isSnapshot = modelId.at(-DATE_LENGTH - 1) === "-" && isDay(modelId.slice(-DATE_LENGTH));
  const isListed = isSnapshot && table.withSnapshots.includes(model);
  const row = ROWS.get(modelId) ?? (isListed ? ROWS.get(model) : undefined);
  return row === undefined ? undefined : remembered(prices, row, toKnownPrice);
}

const DATE_LENGTH = "2025-08-07".length;
