// Goal: which price of a model applies, that each model is looked up once where its run starts, and
// that a cost limit can rely on it.
// Method: price lists that record their lookups; models of each kind; runs, pauses, recordings and
// refusals.

import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { AgentRole } from "../../../src/agent/agent-role.ts";
import type { Model } from "../../../src/model/model.ts";
import type { ModelPrice } from "../../../src/model/model-price.ts";
import {
  lookUpModelPrice,
  createPriceLookup,
  type PricedModel,
  type Prices,
} from "../../../src/model/prices.ts";
import { openai } from "../../../src/model/openai/openai-model.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { loadPrices } from "../../../src/model/genai-prices/load-prices.ts";
import { loadRecording } from "../../../src/testing/replay/recording.ts";
import { replay } from "../../../src/testing/replay/replay.ts";
import { asks, says, ScriptedModel } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { API_KEY } from "../../support/openai-calls.ts";
import { thrownBy } from "../../support/thrown.ts";

const OWN: ModelPrice = { inputUsdPerMillion: 7, outputUsdPerMillion: 8 };
const LISTED: ModelPrice = { inputUsdPerMillion: 1, outputUsdPerMillion: 2, asOf: "2026-09-23" };

beforeEach(() => {
  vi.stubEnv("OPENAI_API_KEY", API_KEY);
  vi.stubEnv("OPENAI_BASE_URL", undefined);
});
afterEach(() => {
  vi.unstubAllEnvs();
});

/** Returns a price list that answers by `getPrice`, and records the lookups. */
function listOf(getPrice: Prices["getPrice"]): Prices & { readonly asked: PricedModel[] } {
  const asked: PricedModel[] = [];
  return {
    asked,
    getPrice: (model) => {
      asked.push(model);
      return getPrice(model);
    },
  };
}

function solo(model: Model, more: object = {}): AgentRole {
  return defineAgent({ name: "solo", instructions: "Work.", model, ...more });
}

proves(
  ["M63"],
  "prefers a model's own price to the list, and the list to the built-in table",
  () => {
    const list = listOf(({ model }) => (model === "gpt-5-nano" ? undefined : LISTED));
    const priceOf = createPriceLookup(list);
    expect([
      priceOf(openai("gpt-5-mini", { price: OWN })),
      priceOf(openai("gpt-5-mini", { price: "unknown" })),
      priceOf(openai("gpt-5-mini")),
      priceOf(openai("gpt-5-nano")),
      priceOf(openai("gpt-5-nano", { baseUrl: "https://eu.api.openai.com/v1" })),
    ]).toEqual([OWN, undefined, LISTED, lookUpModelPrice("openai", "gpt-5-nano"), undefined]);
  },
);

proves(["M63"], "looks a model up by its address, or by its configured provider", () => {
  const list = listOf(() => undefined);
  const priceOf = createPriceLookup(list);
  const at = "https://gateway.example.org/v1";
  priceOf(openai("a"));
  priceOf(openai("b", { baseUrl: at }));
  priceOf(openai("c", { baseUrl: at, provider: "deepseek" }));
  priceOf(openai("d", { provider: "mine" }));
  priceOf(new ScriptedModel([], { id: "e" }));
  const openAi = "https://api.openai.com/v1";
  expect(list.asked).toEqual([
    { provider: "openai", baseUrl: openAi, model: "a" },
    { provider: "openai", baseUrl: at, model: "b" },
    { provider: "deepseek", baseUrl: undefined, model: "c" },
    { provider: "mine", baseUrl: openAi, model: "d" },
    { provider: "scripted", baseUrl: undefined, model: "e" },
  ]);
});

test("applies the packaged prices of the provider whose server is called", async () => {
  const priceOf = createPriceLookup(await loadPrices({ asOf: "2026-09-23" }));
  const outputs = [
    openai("deepseek-v3.2", { baseUrl: "https://api.deepseek.com" }),
    openai("deepseek-v3.2", { baseUrl: "http://localhost:8080/v1", provider: "deepseek" }),
    openai("deepseek-v3.2", { baseUrl: "http://localhost:8080/v1" }),
    openai("deepseek-v3.2"),
  ].map((model) => priceOf(model)?.outputUsdPerMillion);
  expect(outputs).toEqual([0.3432, 0.3432, undefined, undefined]);
});

proves(["M63"], "looks each model up once, when a run with the model starts", async () => {
  const list = listOf(() => LISTED);
  const fixture = newFixture({ prices: list });
  const model = new ScriptedModel(() => says("Done."), { id: "m" });
  const other = defineAgent({ name: "o", description: "O.", instructions: "O.", model });
  const role = solo(model, { subagents: [other], budget: { costUsd: 1 } });
  expect(list.asked).toEqual([]);
  const results = [await fixture.run(role), await fixture.run(role)];
  expect(list.asked).toEqual([{ provider: "scripted", baseUrl: undefined, model: "m" }]);
  // 10 input tokens, 5 output tokens.
  expect(results.map(({ usage, prices }) => [usage.total.costUsd, prices])).toEqual(
    Array.from({ length: 2 }, () => [
      0.00002,
      [{ provider: "scripted", model: "m", price: LISTED }],
    ]),
  );
});

proves(["M63"], "refuses a cost limit at the start if the list has no price", () => {
  const fixture = newFixture({ prices: listOf(() => undefined) });
  const role = solo(new ScriptedModel([]), { budget: { costUsd: 1 } });
  expect(thrownBy(() => fixture.start(role)).code).toBe("price_unknown");
  const onPurpose = solo(openai("gpt-5-mini", { price: "unknown" }), { budget: { costUsd: 1 } });
  const all = newFixture({ prices: listOf(() => LISTED) });
  expect(thrownBy(() => all.start(onPurpose)).code).toBe("price_unknown");
});

proves(
  ["M64"],
  "treats the price as unknown for a service tier, unless the model has its own price",
  () => {
    const priceOf = createPriceLookup(listOf(() => LISTED));
    expect([
      priceOf(openai("gpt-5-mini", { serviceTier: "flex" })),
      priceOf(openai("gpt-5-mini", { extraBody: { service_tier: "priority" } })),
      priceOf(openai("gpt-5-mini", { serviceTier: "flex", price: OWN })),
      priceOf(openai("gpt-5-mini", { serviceTier: "default" })),
    ]).toEqual([undefined, undefined, OWN, LISTED]);
  },
);

test("validates the prices of a list, and ignores later changes to them", async () => {
  const start = (price: ModelPrice): unknown => {
    const prices = { getPrice: () => price };
    const role = solo(new ScriptedModel([]), { budget: { costUsd: 1 } });
    return thrownBy(() => new Orchestrator({ prices }).start(role, "Do it.")).message;
  };
  expect([
    start({ inputUsdPerMillion: -1, outputUsdPerMillion: 1 }),
    start(Object.assign(Promise.resolve(LISTED), LISTED)),
  ]).toEqual([
    "Expected prices.getPrice(scripted).inputUsdPerMillion to be a number from 0 to 1000000, got -1. Set US dollars per million tokens, or leave an unknown price out.",
    expect.stringContaining("Expected prices.getPrice(scripted) to be a plain object"),
  ]);
  const price = { ...LISTED, outputUsdPerMillion: 3 };
  const model = new ScriptedModel(() => says("Done."));
  const fixture = newFixture({ prices: { getPrice: () => price } });
  await fixture.run(solo(model));
  price.outputUsdPerMillion = 0;
  const { usage } = await fixture.run(solo(model));
  expect(usage.total.costUsd).toBe(0.000025);
});

test.each([[{}], [{ getPrice: LISTED }], [loadPrices], [Promise.resolve({})]])(
  "refuses %j as a list of prices",
  (prices) => {
    const { code, data } = thrownBy(() => Reflect.construct(Orchestrator, [{ prices }]));
    expect([code, data["field"]]).toEqual(["invalid_argument", "prices"]);
  },
);

proves(["M63"], "replays a recording at the prices that the replay is given", async () => {
  const store = memoryStore();
  const prices = listOf(() => LISTED);
  const fixture = newFixture({ store, prices });
  const role = solo(new ScriptedModel(() => says("Done.")), { budget: { costUsd: 1 } });
  const result = await fixture.run(role);
  const recording = await loadRecording(store, result.runId);
  const replayed = await replay(recording, { role, prices });
  expect([replayed.usage, replayed.prices]).toEqual([result.usage, result.prices]);
});

test("lists both prices of a run that continues at other prices", async () => {
  const tool = { tools: [] };
  const fixture = newFixture({ prices: listOf(() => LISTED) });
  const model = new ScriptedModel([asks("none", {}), says("Done.")], { allowUnknownTools: true });
  const role = solo(model, tool);
  const run = fixture.start(role);
  run.requestPause();
  const paused = await fixture.outcome(run);
  expect(paused.status).toBe("paused");
  const resumed = fixture.resume(role, paused.pausedRun, [], { prices: listOf(() => OWN) });
  const result = await fixture.outcome(resumed);
  expect(result.prices).toEqual([
    { provider: "scripted", model: "scripted", price: LISTED },
    { provider: "scripted", model: "scripted", price: OWN },
  ]);
});
