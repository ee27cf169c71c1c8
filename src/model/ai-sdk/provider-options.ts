// Options that single providers need besides, since the AI SDK has no word for it or says something that we cannot use.

import type { LanguageModelV4CallOptions, SharedV4ProviderOptions } from "@ai-sdk/provider";

import { isRecord } from "../../kernel/json.ts";
import type { CacheKey, OutputSchema } from "../model.ts";
import { promptCacheKey } from "../prompt-cache-key.ts";
import { firstWordOf } from "./provider-name.ts";

interface Settings {
  /** By the user. */
  readonly given: SharedV4ProviderOptions;
  readonly reasoning: LanguageModelV4CallOptions["reasoning"];
  readonly maxOutputTokens: number;
  readonly cacheKey: CacheKey | undefined;
  readonly output: OutputSchema | undefined;
}

type Options = SharedV4ProviderOptions[string];

/** The options for a provider of this name: those of the user, and defaults. */
export function providerOptionsFor(provider: string, settings: Settings): SharedV4ProviderOptions {
  const { given } = settings;
  const name = firstWordOf(provider);
  switch (name) {
    case "openai":
      return { ...given, openai: openaiOptions(provider, settings, given["openai"]) };
    case "azure": {
      // It reads one of the two, its own first.
      const read = given["azure"] === undefined ? "openai" : "azure";
      return { ...given, [read]: openaiOptions(provider, settings, given[read]) };
    }
    case "openrouter":
      return { ...given, openrouter: openrouterOptions(settings, given["openrouter"]) };
    case "ollama":
      return { ...given, ollama: ollamaOptions(settings, given["ollama"]) };
    default:
      return given;
  }
}

/** Items that are stored are sent as references, which outlive neither a compaction nor thirty days. */
function openaiOptions(
  provider: string,
  { cacheKey, output }: Settings,
  given: Options = {},
): Options {
  return {
    ...(provider.endsWith(".responses") ? { store: false } : {}),
    // It says strict of any schema, and is refused with one that is not.
    ...(output?.strict === false ? { strictJsonSchema: false } : {}),
    ...(cacheKey === undefined ? {} : { promptCacheKey: promptCacheKey(cacheKey, "role") }),
    ...given,
  };
}

/** It does not obey the AI SDK's own setting. */
function openrouterOptions({ reasoning }: Settings, given: Options = {}): Options {
  if (reasoning === undefined || reasoning === "provider-default") return given;
  return { reasoning: { effort: reasoning }, ...given };
}

/** The cap that its provider sends is one that Ollama does not know. */
function ollamaOptions({ maxOutputTokens: cap }: Settings, given: Options = {}): Options {
  const options = isRecord(given["options"]) ? given["options"] : {};
  const { num_predict: own } = options;
  const num_predict = typeof own === "number" && own > 0 ? Math.min(own, cap) : cap;
  return { ...given, options: { ...options, num_predict } };
}
