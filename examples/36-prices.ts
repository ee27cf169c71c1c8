// Costs: the built-in prices, prices of other providers and your own. A cost limit requires a known
// price.

import assert from "node:assert/strict";

import {
  defineAgent,
  EspalierError,
  Orchestrator,
  type Budget,
  type ModelPrice,
  type Model,
} from "espalier";
import { buildReplyMessage, type Prices } from "espalier/extend";
import { loadPrices } from "espalier/prices";

const orchestrator = new Orchestrator({ prices: await loadPrices() });

const price: ModelPrice = {
  inputUsdPerMillion: 2.5,
  cachedInputUsdPerMillion: 0.25, // read from a cache; default: as other input
  cacheWriteUsdPerMillion: 3.125, // written to it; default: as other input
  outputUsdPerMillion: 15,
  tiers: [
    // Rates of a request with more input tokens than this, for all its tokens.
    {
      aboveInputTokens: 272_000,
      inputUsdPerMillion: 5,
      cachedInputUsdPerMillion: 0.5,
      outputUsdPerMillion: 22.5,
    },
  ],
  asOf: "2026-11-26", // for information; results show both
  source: "our contract",
};

/** Reads so many tokens, and writes a thousand. */
function reader(inputTokens: number, more: Partial<Model>): Model {
  const usage = { inputTokens, cachedInputTokens: 0, outputTokens: 1_000, reasoningTokens: 0 };
  const message = buildReplyMessage([{ type: "text", text: "Read." }]);
  return {
    provider: "example",
    id: "reader",
    countTokens: () => inputTokens,
    generate: () => Promise.resolve({ message, finishReason: "stop", usage }),
    ...more,
  };
}

/** In dollars; null: not known. */
async function costOf(
  model: Model,
  by = new Orchestrator(),
  budget: Budget = { costUsd: 5 },
): Promise<number | null> {
  const role = defineAgent({ name: "reader", instructions: "You read.", model });
  const { usage } = await by.start(role, "Read it.", { budget }).result;
  return usage.total.costUsd;
}

assert.equal(await costOf(reader(100_000, { price })), 0.265);
assert.equal(await costOf(reader(300_000, { price })), 1.5225); // the whole request at the higher tier

const claude = reader(1_000, { provider: "anthropic", id: "claude-sonnet-4-5" });
assert.ok(((await costOf(claude, orchestrator)) ?? 0) > 0);

const free: ModelPrice = { inputUsdPerMillion: 0, outputUsdPerMillion: 0 };
const prices: Prices = {
  getPrice: ({ provider }) => (provider === "ours" ? free : undefined),
};

assert.equal(await costOf(reader(1_000, { provider: "ours" }), new Orchestrator({ prices })), 0);
assert.equal(await costOf(reader(1_000, {}), new Orchestrator(), { steps: 5 }), null);
await assert.rejects(
  async () => await costOf(reader(1_000, {})),
  (error) => EspalierError.is(error) && error.code === "price_unknown",
);
