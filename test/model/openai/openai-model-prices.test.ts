// Goal: a model has a price from the table only at OpenAI itself, where that price applies. An
// explicit price has precedence.
// Method: models at several addresses, by option and by environment, before and after their first
// use.

import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { lookUpModelPrice, createPriceLookup } from "../../../src/model/prices.ts";
import type { Model } from "../../../src/model/model.ts";
import type { ModelPrice } from "../../../src/model/model-price.ts";
import { openai, type OpenAiOptions } from "../../../src/model/openai/openai-model.ts";
import { proves } from "../../harness/proves.ts";
import { API_KEY, reply } from "../../support/openai-calls.ts";
import { OpenAiServer, says } from "../../support/openai-server.ts";
import { thrownBy } from "../../support/thrown.ts";

/** Returns the price that a run without its own prices finds, with a new lookup each time. */
function priceOf(model: Model): ModelPrice | undefined {
  return createPriceLookup(undefined)(model);
}

const LISTED = lookUpModelPrice("openai", "gpt-5-mini") ?? expect.fail("gpt-5-mini has no price");
const OWN = { inputUsdPerMillion: 7, outputUsdPerMillion: 8 };

beforeEach(() => {
  vi.stubEnv("OPENAI_API_KEY", API_KEY);
  vi.stubEnv("OPENAI_BASE_URL", undefined);
});
afterEach(() => {
  vi.unstubAllEnvs();
});

proves(["X30"], "uses the dated price of the table at OpenAI itself", () => {
  const addresses: readonly OpenAiOptions[] = [
    {},
    { baseUrl: "https://api.openai.com/v1" },
    { baseUrl: "https://API.OPENAI.COM:443/v1/" },
  ];
  expect(addresses.map((options) => priceOf(openai("gpt-5-mini", options)))).toEqual([
    LISTED,
    LISTED,
    LISTED,
  ]);
});

proves(["X30"], "has no price at any other address", () => {
  const addresses = [
    "http://localhost:11434/v1",
    "http://api.openai.com/v1",
    "https://api.openai.com:8443/v1",
    "https://eu.api.openai.com/v1",
    "https://openai.com/v1",
    "https://acme.openai.azure.com/v1",
    "https://api.openai.com.example.org/v1",
    "https://api.openai.com@example.org/v1",
    "https://example.org/https://api.openai.com/v1",
  ];
  const known = addresses.filter(
    (baseUrl) => priceOf(openai("gpt-5-mini", { baseUrl })) !== undefined,
  );
  expect(known).toEqual([]);
});

proves(["X30"], "prefers an explicit price to the table at any address", () => {
  const models = [
    openai("gpt-5-mini", { price: OWN }),
    openai("gpt-5-mini", { price: OWN, baseUrl: "http://localhost:11434/v1" }),
    openai("unheard-of", { price: OWN }),
    openai("gpt-5-mini", { price: { inputUsdPerMillion: 0, outputUsdPerMillion: 0 } }),
  ];
  expect(models.map(priceOf)).toEqual([
    OWN,
    OWN,
    OWN,
    { inputUsdPerMillion: 0, outputUsdPerMillion: 0 },
  ]);
});

test("has no price if the model is not in the table or `price` is unknown", () => {
  const models = [openai("unheard-of"), openai("gpt-5-mini", { price: "unknown" })];
  expect(models.map(({ price }) => price)).toEqual([undefined, "unknown"]);
  expect(models.map(priceOf)).toEqual([undefined, undefined]);
});

test("omits `price` if it is undefined", () => {
  const model: unknown = Reflect.apply(openai, undefined, ["gpt-5-mini", { price: undefined }]);
  expect(model).not.toHaveProperty("price");
});

test("rejects a price that is another string than unknown", () => {
  const { code, message } = thrownBy(() =>
    Reflect.apply(openai, undefined, ["gpt-5-mini", { price: "free" }]),
  );
  expect([code, message]).toEqual([
    "invalid_argument",
    'Expected openai.price to be a plain object, got "free". Its fields are inputUsdPerMillion, cachedInputUsdPerMillion, cacheWriteUsdPerMillion, outputUsdPerMillion, asOf, source, tiers.',
  ]);
});

test("copies and freezes the price", () => {
  const price = { ...OWN };
  const model = openai("gpt-5-mini", { price });
  price.outputUsdPerMillion = 0;
  expect(model.price).toEqual(OWN);
  expect(Object.isFrozen(model.price)).toBe(true);
});

test("follows the base URL of the environment until the model is used", async () => {
  await using server = await OpenAiServer.start(() => says("ok"));
  const model = openai("gpt-5-mini");
  const prices = [priceOf(model)];
  vi.stubEnv("OPENAI_BASE_URL", server.baseUrl);
  prices.push(priceOf(model));
  await reply(model, "whole");
  vi.stubEnv("OPENAI_BASE_URL", undefined);
  prices.push(priceOf(model));
  expect(prices).toEqual([LISTED, undefined, undefined]);
  await reply(model, "streamed");
  expect(server.requests).toHaveLength(2);
});

test("fixes the address and its price once the model is ready", async () => {
  const addresses: string[] = [];
  const model = openai("gpt-5-mini", {
    fetch: (url) => {
      addresses.push(url instanceof Request ? url.url : url.toString());
      return Promise.reject(new TypeError("no network"));
    },
  });
  model.assertReady?.();
  vi.stubEnv("OPENAI_BASE_URL", "http://localhost:11434/v1");
  await expect(reply(model, "whole")).rejects.toThrow();
  expect([addresses, priceOf(model)]).toEqual([["https://api.openai.com/v1/responses"], LISTED]);
});

test("has no price with an invalid base URL in the environment, which is rejected before the first request", () => {
  vi.stubEnv("OPENAI_BASE_URL", "localhost");
  const model = openai("gpt-5-mini");
  expect(priceOf(model)).toBe(undefined);
  expect(thrownBy(() => model.assertReady?.()).code).toBe("invalid_argument");
});
