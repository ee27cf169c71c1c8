import { getFallbackModels } from "../model/fallback.ts";
import type { ModelPrice } from "../model/model-price.ts";
import type { Model } from "../model/model.ts";
import type { PriceOf } from "../model/prices.ts";
import { lazyObject, lazySchema, z } from "../protocol/lazy-schema.ts";

/**
 * Price at which the calls of a model were charged.
 *
 * @example
 * ```ts
 * for (const { model, price } of result.prices) console.log(model, price?.inputUsdPerMillion);
 * ```
 */
export interface AppliedPrice {
  /** Provider of the model. */
  readonly provider: string;
  /** Id of the model. */
  readonly model: string;
  /**
   * Price of the model. `null` if it is unknown; its calls add nothing to `costUsd`, and
   * `usage.total.unpricedCalls` counts them.
   */
  readonly price: ModelPrice | null;
}

const rate = lazySchema(() => z.number().nonnegative());
const rates = lazySchema(() => ({
  inputUsdPerMillion: rate(),
  cachedInputUsdPerMillion: rate().exactOptional(),
  cacheWriteUsdPerMillion: rate().exactOptional(),
  outputUsdPerMillion: rate(),
}));

/** The price as stored in a paused run. */
export const PriceUsedSchema = lazyObject(() => ({
  provider: z.string(),
  model: z.string(),
  price: z
    .strictObject({
      ...rates(),
      asOf: z.string().exactOptional(),
      source: z.string().exactOptional(),
      tiers: z
        .array(z.strictObject({ aboveInputTokens: z.int().nonnegative(), ...rates() }))
        .readonly()
        .exactOptional(),
    })
    .nullable(),
})) satisfies () => z.ZodType<AppliedPrice>;

/**
 * Returns the prices of the models of a run, including those behind a fallback, in order. Begins
 * with `before`, the prices of the run before it was paused.
 */
export function collectAppliedPrices(
  models: readonly Model[],
  priceOf: PriceOf,
  before: readonly AppliedPrice[],
): readonly AppliedPrice[] {
  const prices = new Map(before.map((used) => [JSON.stringify(used), used]));
  for (const model of new Set(models.flatMap(getFallbackModels))) {
    const { provider, id } = model;
    const used = { provider, model: id, price: priceOf(model) ?? null };
    prices.set(JSON.stringify(used), used);
  }
  return [...prices.values()];
}
