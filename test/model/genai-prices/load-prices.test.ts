// Goal: prices of other providers match the package to the micro-dollar. They are found by the
// server of a model, never by its name. Any other price is unknown.
// Method: the package's own calculation over random usages; similar and hostile addresses and
// names; a program without the package.

import { calcPrice, findProvider, type Provider } from "@pydantic/genai-prices";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { computeMicroUsd } from "../../../src/model/model-price.ts";
import { loadPrices } from "../../../src/model/genai-prices/load-prices.ts";
import { proves } from "../../harness/proves.ts";
import { rejectionOf } from "../../support/thrown.ts";
import { outputWithout } from "../../support/without-package.ts";

const DAY = "2026-09-23";
const prices = await loadPrices({ asOf: DAY });

const PROVIDERS = ["openai", "anthropic", "google", "aws", "groq", "mistral", "x-ai", "openrouter"];
const MODELS = PROVIDERS.flatMap((id) => {
  const provider: Provider = findProvider({ providerId: id }) ?? expect.fail(`no ${id}`);
  return provider.models.flatMap((model) => {
    const found = calcPrice({ input_tokens: 0 }, model.id, { providerId: id });
    const price = prices.getPrice({ provider: id, model: model.id });
    // Only prices that are the same at every hour can be compared with the source's own clock.
    const isEven = price?.source === "@pydantic/genai-prices";
    return found !== null && price !== undefined && isEven ? [{ id, model: model.id, price }] : [];
  });
});

const tokens = fc.oneof(fc.nat(1000), fc.nat(1_000_000));

proves(["M63"], "charges a call as the package does, to the micro-dollar", () => {
  expect(MODELS.length).toBeGreaterThan(400);
  fc.assert(
    fc.property(
      fc.constantFrom(...MODELS),
      fc.tuple(tokens, tokens, tokens, tokens),
      ({ id, model, price }, [cached, written, fresh, output]) => {
        const inputTokens = cached + written + fresh;
        const theirs = calcPrice(
          {
            input_tokens: inputTokens,
            cache_read_tokens: cached,
            cache_write_tokens: written,
            output_tokens: output,
          },
          model,
          { providerId: id, timestamp: new Date(`${DAY}T12:00:00Z`) },
        );
        const ours = computeMicroUsd(price, {
          inputTokens,
          cachedInputTokens: cached,
          cacheWriteInputTokens: written,
          outputTokens: output,
          reasoningTokens: 0,
        });
        const difference = Math.abs(ours - (theirs?.total_price ?? Number.NaN) * 1e6);
        expect(difference).toBeLessThanOrEqual(1.001);
      },
    ),
    { numRuns: 1000 },
  );
});

test("returns the price of the requested day, with its source", () => {
  expect(prices.getPrice({ provider: "anthropic", model: "claude-sonnet-4-5" })).toEqual({
    inputUsdPerMillion: 3,
    cachedInputUsdPerMillion: 0.3,
    cacheWriteUsdPerMillion: 3.75,
    outputUsdPerMillion: 15,
    tiers: [
      {
        aboveInputTokens: 200_000,
        inputUsdPerMillion: 6,
        cachedInputUsdPerMillion: 0.6,
        cacheWriteUsdPerMillion: 7.5,
        outputUsdPerMillion: 22.5,
      },
    ],
    asOf: DAY,
    source: "@pydantic/genai-prices",
  });
});

test("returns the highest price of a day if it depends on the hour, and marks the source", async () => {
  const day = (asOf: string) => loadPrices({ asOf });
  const asked = { provider: "deepseek", model: "deepseek-v4-pro" };
  const before = (await day("2026-08-16")).getPrice(asked);
  const since = (await day("2026-08-17")).getPrice(asked);
  expect([before?.outputUsdPerMillion, since?.outputUsdPerMillion, since?.source]).toEqual([
    3.96,
    3.96,
    "@pydantic/genai-prices, highest rate",
  ]);
});

test("returns undefined, not zero, for a free model that has no rates in the package", () => {
  const free = findProvider({ providerId: "openrouter" })?.models.find(({ id }) =>
    id.endsWith(":free"),
  );
  expect(free?.prices).toEqual({});
  expect(prices.getPrice({ provider: "openrouter", model: free?.id ?? "" })).toBe(undefined);
});

test("uses the prices of today if no day is given", async () => {
  const today = new Date().toISOString().slice(0, 10);
  const price = (await loadPrices()).getPrice({ provider: "openai", model: "gpt-5-mini" });
  expect([today, new Date().toISOString().slice(0, 10)]).toContain(price?.asOf);
});

function outputUsd(provider: string, model: string, baseUrl?: string): number | undefined {
  return prices.getPrice({ provider, model, baseUrl })?.outputUsdPerMillion;
}

describe("the price of a model", () => {
  test.each([
    ["anthropic", "claude-sonnet-4-5"],
    ["gcp.gemini", "gemini-2.5-pro"],
    ["gcp.vertex_ai", "claude-sonnet-4-5"],
    ["aws.bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"],
    ["azure.ai.openai", "gpt-4o"],
    ["x_ai", "grok-4"],
    ["mistral_ai", "mistral-large-latest"],
    ["groq", "llama-3.3-70b-versatile"],
    ["deepseek", "deepseek-v3.2"],
  ])("is found by its provider %s", (provider, model) => {
    expect(outputUsd(provider, model)).toBeGreaterThan(0);
  });

  test.each([
    ["https://api.openai.com/v1", "gpt-5.4"],
    ["https://api.deepseek.com", "deepseek-v3.2"],
    ["https://api.deepseek.com/v1/", "deepseek-v3.2"],
    ["https://openrouter.ai/api/v1", "anthropic/claude-sonnet-4.5"],
    ["https://acme.openai.azure.com/openai/v1", "gpt-4o"],
    ["https://api.groq.com/openai/v1", "llama-3.3-70b-versatile"],
    ["https://api.moonshot.ai/v1", "kimi-k2-0905-preview"],
    [
      "https://bedrock-runtime.us-east-1.amazonaws.com",
      "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    ],
  ])("is found by its address %s, whatever the provider is called", (baseUrl, model) => {
    expect(outputUsd("somebody", model, baseUrl)).toBeGreaterThan(0);
  });
});

proves(["M63"], "returns undefined for an unknown address or provider, whatever its name", () => {
  const providers = ["", "somebody", "my-openai-gateway", "OpenAI", "ollama", "constructor"];
  const addresses = [
    "https://eu.api.openai.com/v1",
    "https://api.openai.com:8443/v1",
    "https://api.openai.com.example.org/v1",
    "http://api.openai.com/v1",
    "http://localhost:11434/v1",
    "https://example.org/https://api.openai.com/v1",
    "api.openai.com",
    "",
  ];
  const known = [
    ...providers.filter((provider) => outputUsd(provider, "gpt-5.4") !== undefined),
    ...addresses.filter((address) => outputUsd("openai", "gpt-5.4", address) !== undefined),
  ];
  expect(known).toEqual([]);
  const gateway = "https://example.org/https://generativelanguage.googleapis.com/v1";
  expect(outputUsd("gcp.gemini", "gemini-2.5-pro", gateway)).toBe(undefined);
});

test.each([
  ["openai", "gpt-0"],
  ["openai", "claude-sonnet-4-5"],
  ["openai", "text-embedding-3-small"],
  ["openai", ""],
  ["openai", "__proto__"],
  ["perplexity", "sonar"],
  ["x-ai", "grok-2-image"],
])("returns undefined for %s and %j, which have no price by tokens", (provider, model) => {
  expect(outputUsd(provider, model)).toBe(undefined);
});

test("rejects unknown options and a day that does not exist", async () => {
  expect((await rejectionOf(loadPrices({ asOf: "2026-02-30" }))).message).toBe(
    'Expected loadPrices.asOf to be a day like "2026-09-23", got "2026-02-30". Leave it out for today.',
  );
  const { code } = await rejectionOf(loadPrices(Object.assign({ asOf: DAY }, { day: DAY })));
  expect(code).toBe("invalid_argument");
});

test("imports the entry without the package, and names the package to install when prices are loaded", () => {
  const output = outputWithout(
    "@pydantic/genai-prices",
    `import { loadPrices } from "./src/model/genai-prices/load-prices.ts";
     await loadPrices().catch(({ code, message, data }) => console.log(JSON.stringify({ code, message, data })));`,
  );
  expect(JSON.parse(output)).toEqual({
    code: "missing_package",
    message:
      "The package @pydantic/genai-prices is not installed: without it, prices of other providers are unknown. Run: npm install @pydantic/genai-prices.",
    data: { package: "@pydantic/genai-prices" },
  });
});
