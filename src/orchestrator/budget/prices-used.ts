import type { ModelPrice } from "../../model/model-price.ts";
import { z } from "../../protocol/late-zod.ts";

/** What the calls of a model were charged at. */
export interface PriceUsed {
  /** Of the model. */
  readonly provider: string;
  /** The id of the model. */
  readonly model: string;
  /** Null: unknown. Its calls are in no cost; `usage.total.unpricedCalls` counts them. */
  readonly price: ModelPrice | null;
}

const rate = z.number().nonnegative();
const rates = {
  inputUsdPerMillion: rate,
  cachedInputUsdPerMillion: rate.exactOptional(),
  cacheWriteUsdPerMillion: rate.exactOptional(),
  outputUsdPerMillion: rate,
};

/** The form in which a paused run keeps it. */
export const PriceUsedSchema = z.strictObject({
  provider: z.string(),
  model: z.string(),
  price: z
    .strictObject({
      ...rates,
      asOf: z.string().exactOptional(),
      source: z.string().exactOptional(),
      tiers: z
        .array(z.strictObject({ aboveInputTokens: z.int().nonnegative(), ...rates }))
        .readonly()
        .exactOptional(),
    })
    .nullable(),
}) satisfies z.ZodType<PriceUsed>;
