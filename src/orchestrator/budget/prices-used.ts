import { z } from "zod";

import { copyPrice, type ModelPrice } from "../../model/model-price.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";

/** What the calls of a model were charged at. */
export interface PriceUsed {
  readonly provider: string;
  readonly model: string;
  /** Null: nobody knows it. Its calls are in no cost; `usage.total.unpricedCalls` counts them. */
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

/** The prices of the models of all agents, in the order of their start, after those of the run before it was paused. */
export function pricesUsed(
  nodes: readonly AgentRuntime[],
  before: readonly PriceUsed[],
): readonly PriceUsed[] {
  const prices = new Map(before.map((used) => [JSON.stringify(used), used]));
  for (const { provider, id: model, price } of new Set(nodes.map(({ role }) => role.model))) {
    const used = { provider, model, price: price === undefined ? null : copyPrice(price) };
    prices.set(JSON.stringify(used), used);
  }
  return [...prices.values()];
}
