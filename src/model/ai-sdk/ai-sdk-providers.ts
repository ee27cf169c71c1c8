// Options that single providers need besides, since the AI SDK has no word for it or says something that we cannot use.

import type {
  LanguageModelV4CallOptions,
  SharedV4ProviderOptions,
  LanguageModelV4,
} from "@ai-sdk/provider";

import { isRecord } from "../../kernel/json.ts";
import type { CacheKey, OutputSchema } from "../model.ts";
import { buildPromptCacheKey, CLAUDE_PROVIDER } from "../well-formed.ts";
import type { AttachmentKind } from "../../protocol/attachment.ts";

interface ProviderSettings {
  /** By the user. */
  readonly given: SharedV4ProviderOptions;
  readonly reasoning: LanguageModelV4CallOptions["reasoning"];
  readonly maxOutputTokens: number;
  readonly cacheKey: CacheKey | undefined;
  readonly output: OutputSchema | undefined;
}

type OwnOptions = SharedV4ProviderOptions[string];

/** The options for a provider of this name: those of the user, and defaults. */
export function addProviderOptions(
  provider: string,
  settings: ProviderSettings,
): SharedV4ProviderOptions {
  const { given } = settings;
  const name = readFirstWord(provider);
  switch (name) {
    case "openai":
      return { ...given, openai: buildOpenaiOptions(provider, settings, given["openai"]) };
    case "azure": {
      // It reads one of the two, its own first.
      const read = given["azure"] === undefined ? "openai" : "azure";
      return { ...given, [read]: buildOpenaiOptions(provider, settings, given[read]) };
    }
    case "openrouter":
      return { ...given, openrouter: buildOpenrouterOptions(settings, given["openrouter"]) };
    case "ollama":
      return { ...given, ollama: buildOllamaOptions(settings, given["ollama"]) };
    default:
      return given;
  }
}

/** Items that are stored are sent as references, which outlive neither a compaction nor thirty days. */
function buildOpenaiOptions(
  provider: string,
  { cacheKey, output }: ProviderSettings,
  given: OwnOptions = {},
): OwnOptions {
  return {
    ...(provider.endsWith(".responses") ? { store: false } : {}),
    // It says strict of any schema, and is refused with one that is not.
    ...(output?.strict === false ? { strictJsonSchema: false } : {}),
    ...(cacheKey === undefined ? {} : { promptCacheKey: buildPromptCacheKey(cacheKey, "role") }),
    ...given,
  };
}

/** It does not obey the AI SDK's own setting. */
function buildOpenrouterOptions(
  { reasoning }: ProviderSettings,
  given: OwnOptions = {},
): OwnOptions {
  if (reasoning === undefined || reasoning === "provider-default") return given;
  return { reasoning: { effort: reasoning }, ...given };
}

/** The cap that its provider sends is one that Ollama does not know. */
function buildOllamaOptions(
  { maxOutputTokens: cap }: ProviderSettings,
  given: OwnOptions = {},
): OwnOptions {
  const options = isRecord(given["options"]) ? given["options"] : {};
  const { num_predict: own } = options;
  const num_predict = typeof own === "number" && own > 0 ? Math.min(own, cap) : cap;
  return { ...given, options: { ...options, num_predict } };
}

// Who serves a model of the AI SDK, in the words of `gen_ai.provider.name`.

/** By how the AI SDK calls its providers. The first that fits holds. */
const NAMES = [
  [/^google\.generative-ai\b/, "gcp.gemini"],
  [/^google\.vertex\b/, "gcp.vertex_ai"],
  [/^amazon-bedrock/, "aws.bedrock"],
  [/^azure/, "azure.ai.openai"],
  [/^xai\b/, "x_ai"],
  [/^mistral\b/, "mistral_ai"],
] as const satisfies readonly (readonly [RegExp, string])[];

/** The name for prices and traces: that of the table, else the first word of the provider's own (`anthropic.messages`: `anthropic`). */
export function findProviderName(provider: string): string {
  const [, name] = NAMES.find(([pattern]) => pattern.test(provider)) ?? [];
  return name ?? readFirstWord(provider);
}

/** The word under which a provider reads its options: `anthropic` of `anthropic.messages`. */
export function readFirstWord(provider: string): string {
  const [word = ""] = provider.split(".");
  return word === "" ? provider : word;
}

// What models of the AI SDK take besides text, as far as it follows from their provider. Pure.

/** By how the AI SDK calls its providers. The first that fits holds; of others nothing is known. */
const TAKEN = [
  [/^(vertex\.)?anthropic\b/, ["image", "file"]],
  [/^google\b/, ["image", "audio", "file"]],
  [/^(openai|azure)\b/, ["image", "file"]],
] as const satisfies readonly (readonly [RegExp, readonly AttachmentKind[]])[];

/** What the models of a provider take, where the user does not say so. */
export function findTaken(provider: string): readonly AttachmentKind[] {
  const [, kinds = []] = TAKEN.find(([pattern]) => pattern.test(provider)) ?? [];
  return kinds;
}

/** Those known to hand on what stands in the result of a tool. Others write it as JSON, base64 and all. */
const SEES_RESULTS = /^((vertex\.)?anthropic|google|openrouter)\b|^(openai|azure)\b.*\.responses$/;

export function supportsResultAttachments(provider: string): boolean {
  return SEES_RESULTS.test(provider);
}

/** Whether the models of a provider take texts in which there is no word. */
export function supportsBlankTexts(provider: string): boolean {
  return !CLAUDE_PROVIDER.test(provider);
}

/** Addresses that a provider fetches from, by media types: `image/*`, `*` and the like. */
export type FetchedAddresses = Awaited<LanguageModelV4["supportedUrls"]>;

/** Whether a provider fetches a file of this type from this address. */
export function isFetched(known: FetchedAddresses, mediaType: string, address: string): boolean {
  const type = mediaType.toLowerCase();
  return Object.entries(known).some(
    ([pattern, addresses]) =>
      type.startsWith(pattern.toLowerCase().replace(/\*.*$/, "")) &&
      addresses.some((one) => one.test(address.toLowerCase())),
  );
}
