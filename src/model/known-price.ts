// The prices that we know ourselves, by provider and model. A name that the table does not have is unknown: nothing is guessed from
// names that look alike, and fine-tuned models (`ft:…`) cost something else than what they were made from.

import { deepFreeze, defined } from "../kernel/json.ts";
import { isDay, type ModelPrice, type ModelRates } from "./model-price.ts";
import table from "./price-table.json" with { type: "json" };
import { remembered } from "./remembered.ts";

/** A price from the table, and the date of the table. */
export interface KnownPrice extends ModelPrice {
  readonly asOf: string;
  /** The table that it is from; "highest rate" in it says that what is charged may be less. */
  readonly source: string;
}

/** The day on which the release of the table's source was published. Its prices are those of that day. */
export const PRICES_AS_OF: string = table.asOf;

type PriceRow = (typeof table.rows)[number];
type RowRates = Pick<PriceRow, "inputUsd" | "cachedInputUsd" | "cacheWriteUsd" | "outputUsd">;

const ROWS: ReadonlyMap<string, PriceRow> = new Map(
  table.rows.flatMap((row) => row.models.map((model) => [model, row] as const)),
);
const prices = new WeakMap<PriceRow, KnownPrice>();

function priceOf({ tiers, isHighest, ...rates }: PriceRow): KnownPrice {
  const above = tiers.map((tier) => ({
    aboveInputTokens: tier.aboveInputTokens,
    ...ratesOf(tier),
  }));
  return deepFreeze({
    ...ratesOf(rates),
    asOf: PRICES_AS_OF,
    source: isHighest ? `${table.source}, highest rate` : table.source,
    ...(above.length === 0 ? {} : { tiers: above }),
  });
}

function ratesOf({ inputUsd, cachedInputUsd, cacheWriteUsd, outputUsd }: RowRates): ModelRates {
  return {
    inputUsdPerMillion: inputUsd,
    ...defined({
      cachedInputUsdPerMillion: cachedInputUsd ?? undefined,
      cacheWriteUsdPerMillion: cacheWriteUsd ?? undefined,
    }),
    outputUsdPerMillion: outputUsd,
  };
}

/**
 * What a model costs at its own provider, from the table that comes with this release. Undefined: not known, which is never zero.
 * So far the table has the chat models of `openai`, by exact name or as a dated snapshot (`gpt-5-mini-2025-08-07`).
 */
export function knownPrice(provider: string, modelId: string): KnownPrice | undefined {
  if (provider !== "openai" || typeof modelId !== "string") return undefined;
  const row = ROWS.get(modelId) ?? snapshotted(modelId);
  return row === undefined ? undefined : remembered(prices, row, priceOf);
}

const DATE_LENGTH = "2025-08-07".length;

/** The model of which `modelId` is a dated snapshot, if all snapshots of it cost the same. */
function snapshotted(modelId: string): PriceRow | undefined {
  const model = modelId.slice(0, -DATE_LENGTH - 1);
  const isSnapshot = modelId.at(-DATE_LENGTH - 1) === "-" && isDay(modelId.slice(-DATE_LENGTH));
  return isSnapshot && table.withSnapshots.includes(model) ? ROWS.get(model) : undefined;
}
