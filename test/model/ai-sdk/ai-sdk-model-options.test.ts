// Goal: invalid models and options are rejected when the model is created, with the remedy. Omitted
// options have a default that is reported.
// Method: definitions with one fault each, and the models that valid definitions create.

import type { LanguageModelV4 } from "@ai-sdk/provider";
import { describe, expect, test } from "vitest";

import { aiSdkModel, type AiSdkOptions } from "../../../src/model/ai-sdk/ai-sdk-model.ts";
import { omitUndefined } from "../../../src/kernel/json.ts";
import { lookUpModelPrice, createPriceLookup } from "../../../src/model/prices.ts";
import { proves } from "../../harness/proves.ts";
import { thrownBy } from "../../support/thrown.ts";
import { saying } from "../../support/ai-sdk/fake-model.ts";

const NONE = saying([]);

/** Calls `aiSdkModel` as JavaScript would. */
function made(model: unknown, options?: unknown): unknown {
  return Reflect.apply(aiSdkModel, undefined, [model, options]);
}

proves(
  ["M30"],
  "rejects a value that is not a model of the AI SDK 7, and states the remedy",
  () => {
    const { doStream: _doStream, ...whole } = NONE;
    const { doGenerate: _doGenerate, ...embedding } = whole;
    const refused = [
      "anthropic/claude-sonnet-5",
      { ...NONE, specificationVersion: "v3" },
      undefined,
      embedding,
      whole,
      { ...NONE, modelId: "" },
    ];
    expect(
      refused
        .map((model) => thrownBy(() => made(model)))
        .map(({ code, message }) => [code, message]),
    ).toEqual([
      [
        "invalid_argument",
        'Expected aiSdkModel.model to be a model of the AI SDK, got "anthropic/claude-sonnet-5". An id alone needs a gateway. Create the model with its provider, for example anthropic("…").',
      ],
      [
        "invalid_argument",
        'Expected aiSdkModel.model to be a model of the AI SDK with specificationVersion "v4", got "v3". Update the provider to one for AI SDK 7.',
      ],
      [
        "invalid_argument",
        'Expected aiSdkModel.model to be a model of the AI SDK with specificationVersion "v4", got undefined. Update the provider to one for AI SDK 7.',
      ],
      [
        "invalid_argument",
        "Expected aiSdkModel.model to be a language model with doStream(), got an object. Pass a language model: agents cannot use models of embeddings, images or speech.",
      ],
      [
        "invalid_argument",
        "Expected aiSdkModel.model to be a language model with doStream(), got an object. Implement doStream: espalier never calls doGenerate.",
      ],
      [
        "invalid_argument",
        'Expected aiSdkModel.model.modelId to be a non-empty string, got "". Pass some text.',
      ],
    ]);
  },
);

test.each<[string, unknown, string]>([
  ["a name that does not exist", { retries: 3 }, "aiSdkModel.retries"],
  ["a level of reasoning", { reasoning: "huge" }, "aiSdkModel.reasoning"],
  [
    "options of providers",
    { providerOptions: { anthropic: "fast" } },
    "aiSdkModel.providerOptions",
  ],
  ["headers", { headers: { "a b": "c" } }, "aiSdkModel.headers"],
  [
    "a price",
    { price: { inputUsdPerMillion: -1, outputUsdPerMillion: 1 } },
    "aiSdkModel.price.inputUsdPerMillion",
  ],
  ["a provider", { provider: " " }, "aiSdkModel.provider"],
  ["a replay key", { replayKey: "" }, "aiSdkModel.replayKey"],
  ["what it takes", { inputModalities: ["video"] }, "aiSdkModel.inputModalities"],
  ["a time", { timeoutMs: 0 }, "aiSdkModel.timeoutMs"],
])("rejects %s that cannot be used", (_what, options, field) => {
  const { code, message } = thrownBy(() => made(NONE, options));
  expect(code).toBe("invalid_argument");
  expect(message).toContain(`Expected ${field} to be `);
});

function named(provider: string, modelId = "m"): LanguageModelV4 {
  return { ...saying([], provider), modelId };
}

proves(["M30"], "names the provider of a model for prices and traces by the conventions", () => {
  const names = [
    "anthropic.messages",
    "google.generative-ai",
    "google.vertex.chat",
    "amazon-bedrock",
    "azure.responses",
    "azure-openai.chat",
    "openai.responses",
    "xai.chat",
    "mistral.chat",
    "groq.chat",
    "deepseek.chat",
    "cohere.chat",
    "perplexity",
    "openrouter.chat",
    "ollama.responses",
    "openaicompatible.chat",
  ].map((provider) => [provider, aiSdkModel(named(provider)).provider]);
  expect(Object.fromEntries(names)).toEqual({
    "anthropic.messages": "anthropic",
    "google.generative-ai": "gcp.gemini",
    "google.vertex.chat": "gcp.vertex_ai",
    "amazon-bedrock": "aws.bedrock",
    "azure.responses": "azure.ai.openai",
    "azure-openai.chat": "azure.ai.openai",
    "openai.responses": "openai",
    "xai.chat": "x_ai",
    "mistral.chat": "mistral_ai",
    "groq.chat": "groq",
    "deepseek.chat": "deepseek",
    "cohere.chat": "cohere",
    perplexity: "perplexity",
    "openrouter.chat": "openrouter",
    "ollama.responses": "ollama",
    "openaicompatible.chat": "openaicompatible",
  });
});

describe("a model", () => {
  const facts = (model: LanguageModelV4, options?: AiSdkOptions): object => {
    const { provider, id, replayKey, minOutputTokens, price } = aiSdkModel(model, options);
    return { provider, id, replayKey, ...omitUndefined({ minOutputTokens, price }) };
  };

  test("has a replay key of its provider, interface and id, unless one is set", () => {
    const models = [named("openai.responses", "gpt-5"), named("openai.chat", "gpt-5")];
    expect(
      [...models.map((model) => aiSdkModel(model)), aiSdkModel(NONE, { replayKey: "eu" })].map(
        ({ replayKey }) => replayKey,
      ),
    ).toEqual(["ai-sdk:openai.responses/gpt-5", "ai-sdk:openai.chat/gpt-5", "eu"]);
  });

  test("has the price that it is given, or none", () => {
    const price = { inputUsdPerMillion: 1, outputUsdPerMillion: 2 };
    const mini = { provider: "openai", id: "gpt-5-mini" };
    expect([
      facts(named("anthropic.messages"), { price, provider: "mine" }),
      facts(named("anthropic.messages")),
      facts(named("openai.responses", "gpt-5-mini")),
      facts(named("openai.chat", "gpt-5-mini"), { price: "unknown" }),
    ]).toEqual([
      { provider: "mine", id: "m", replayKey: "ai-sdk:anthropic.messages/m", price },
      { provider: "anthropic", id: "m", replayKey: "ai-sdk:anthropic.messages/m" },
      { ...mini, replayKey: "ai-sdk:openai.responses/gpt-5-mini", minOutputTokens: 16 },
      { ...mini, replayKey: "ai-sdk:openai.chat/gpt-5-mini", price: "unknown" },
    ]);
  });

  proves(["M63"], "is priced by the table only if OpenAI serves it, unless a price is set", () => {
    const price = { inputUsdPerMillion: 1, outputUsdPerMillion: 2 };
    const priceOf = (provider: string, options?: AiSdkOptions) =>
      createPriceLookup(undefined)(aiSdkModel(named(provider, "gpt-5-mini"), options));
    expect([
      priceOf("openai.responses"),
      priceOf("openai.responses", { price }),
      priceOf("openai.responses", { price: "unknown" }),
      priceOf("azure.responses"),
      priceOf("openaicompatible.chat"),
    ]).toEqual([lookUpModelPrice("openai", "gpt-5-mini"), price, undefined, undefined, undefined]);
  });

  proves(["M64"], "has no price at another service tier, unless one is given", () => {
    const price = { inputUsdPerMillion: 1, outputUsdPerMillion: 2 };
    const priceAt = (serviceTier: string, more: AiSdkOptions = {}) => {
      const providerOptions = { openai: { serviceTier } };
      return aiSdkModel(named("openai.responses"), { providerOptions, ...more }).price;
    };
    expect([
      priceAt("flex"),
      priceAt("priority"),
      priceAt("flex", { price }),
      priceAt("auto"),
    ]).toEqual(["unknown", "unknown", price, undefined]);
  });

  test("is frozen", () => expect(Object.isFrozen(aiSdkModel(NONE))).toBe(true));
});
