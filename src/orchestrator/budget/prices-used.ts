import type { ModelPrice } from "../../model/model-price.ts";
import { z } from "../../protocol/late-zod.ts";

/** What the calls of a model were charged at. */
export interface PriceUsed {
  readonly provider: string;
  readonly model: string;
  /** Null: unknown. Its calls are in no cost; `usage.total.unpricedCalls` counts them. */
  readonly price: ModelPrice | null;
}

const rate = z.number().nonnegative();

/** The form in which a paused run keeps it. */
export const PriceUsedSchema = z.strictObject({
  provider: z.string(),
  model: z.string(),
  price: z
    .strictObject({
      inputUsdPerMillion: rate,
      cachedInputUsdPerMillion: rate.exactOptional(),
      outputUsdPerMillion: rate,
      asOf: z.string().exactOptional(),
      source: z.string().exactOptional(),
    })
    .nullable(),
}) satisfies z.ZodType<PriceUsed>;
