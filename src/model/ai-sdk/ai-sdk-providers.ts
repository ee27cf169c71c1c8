// Facts about single providers that the AI SDK does not express, or expresses unusably: their
// options, names, input modalities and the addresses that they fetch. Pure.

import type {
  LanguageModelV4CallOptions,
  SharedV4ProviderOptions,
  LanguageModelV4,
} from "@ai-sdk/provider";

import { isRecord } from "../../kernel/json.ts";
import type { CacheKey, OutputSchema } from "../model.ts";
import { buildPromptCacheKey, CLAUDE_PROVIDER } from "../wire-text.ts";
import type { AttachmentKind } from "../../protocol/attachment.ts";

interface ProviderSettings {
  /** Set by the user. */
  readonly userOptions: SharedV4ProviderOptions;
  readonly reasoning: LanguageModelV4CallOptions["reasoning"];
  readonly maxOutputTokens: number;
  readonly cacheKey: CacheKey | undefined;
  readonly output: OutputSchema | undefined;
}

type OwnOptions = SharedV4ProviderOptions[string];

/** Returns the user's options with defaults for the provider of this name. */
export function addProviderOptions(
  provider: string,
  settings: ProviderSettings,
): SharedV4ProviderOptions {
  const { userOptions } = settings;
  const name = readFirstWord(provider);
  const build = OPTION_BUILDERS.get(name);
  if (build === undefined) return userOptions;
  // The provider of Azure reads one of the two entries, its own first.
  const key = name === "azure" && userOptions["azure"] === undefined ? "openai" : name;
  return { ...userOptions, [key]: build(settings, userOptions[key] ?? {}, provider) };
}

type OptionBuilder = (
  settings: ProviderSettings,
  userOptions: OwnOptions,
  provider: string,
) => OwnOptions;

/**
 * Disables storage: stored items are sent as references, which are lost by a compaction and after
 * thirty days.
 */
const buildOpenaiOptions: OptionBuilder = ({ cacheKey, output }, userOptions, provider) => ({
  ...(provider.endsWith(".responses") ? { store: false } : {}),
  // The provider marks every schema as strict, and the server rejects schemas that are not.
  ...(output?.strict === false ? { strictJsonSchema: false } : {}),
  ...(cacheKey === undefined ? {} : { promptCacheKey: buildPromptCacheKey(cacheKey, "role") }),
  ...userOptions,
});

const OPTION_BUILDERS: ReadonlyMap<string, OptionBuilder> = new Map<string, OptionBuilder>([
  ["openai", buildOpenaiOptions],
  ["azure", buildOpenaiOptions],
  [
    "openrouter",
    // Sets the effort in OpenRouter's own form, since its provider ignores the AI SDK's setting.
    ({ reasoning }, userOptions) =>
      reasoning === undefined || reasoning === "provider-default"
        ? userOptions
        : { reasoning: { effort: reasoning }, ...userOptions },
  ],
  [
    "ollama",
    // Sets the cap under Ollama's own name. Ollama ignores the cap that its provider sends.
    ({ maxOutputTokens: cap }, userOptions) => {
      const options = isRecord(userOptions["options"]) ? userOptions["options"] : {};
      const { num_predict: ownCap } = options;
      const num_predict = typeof ownCap === "number" && ownCap > 0 ? Math.min(ownCap, cap) : cap;
      return { ...userOptions, options: { ...options, num_predict } };
    },
  ],
]);

/** Values of `gen_ai.provider.name` by the AI SDK's provider name. The first match wins. */
const PROVIDER_NAMES = [
  [/^google\.generative-ai\b/, "gcp.gemini"],
  [/^google\.vertex\b/, "gcp.vertex_ai"],
  [/^amazon-bedrock/, "aws.bedrock"],
  [/^azure/, "azure.ai.openai"],
  [/^xai\b/, "x_ai"],
  [/^mistral\b/, "mistral_ai"],
] as const satisfies readonly (readonly [RegExp, string])[];

/**
 * Returns the name for prices and traces: from the table, or else the first word of the provider's
 * own name, for example `anthropic` for `anthropic.messages`.
 */
export function findProviderName(provider: string): string {
  const [, name] = PROVIDER_NAMES.find(([pattern]) => pattern.test(provider)) ?? [];
  return name ?? readFirstWord(provider);
}

/** Returns the key of a provider's options, for example `anthropic` for `anthropic.messages`. */
export function readFirstWord(provider: string): string {
  const [word = ""] = provider.split(".");
  return word === "" ? provider : word;
}

/** Input modalities by the AI SDK's provider name. The first match wins, the rest is unknown. */
const INPUT_MODALITIES = [
  [/^(vertex\.)?anthropic\b/, ["image", "file"]],
  [/^google\b/, ["image", "audio", "file"]],
  [/^(openai|azure)\b/, ["image", "file"]],
] as const satisfies readonly (readonly [RegExp, readonly AttachmentKind[]])[];

/** Returns the default of `inputModalities`. */
export function findTaken(provider: string): readonly AttachmentKind[] {
  const [, kinds = []] = INPUT_MODALITIES.find(([pattern]) => pattern.test(provider)) ?? [];
  return kinds;
}

/**
 * Providers that pass on attachments in tool results. Others write them as JSON, base64 included.
 */
const RESULT_ATTACHMENT_PROVIDERS =
  /^((vertex\.)?anthropic|google|openrouter)\b|^(openai|azure)\b.*\.responses$/;

export function supportsResultAttachments(provider: string): boolean {
  return RESULT_ATTACHMENT_PROVIDERS.test(provider);
}

/** Returns true if the models of a provider accept texts of white space only. */
export function supportsBlankTexts(provider: string): boolean {
  return !CLAUDE_PROVIDER.test(provider);
}

/** Addresses that a provider fetches from, by media type, for example `image/*` or `*`. */
export type FetchedAddresses = Awaited<LanguageModelV4["supportedUrls"]>;

/** Returns true if a provider fetches a file of this type from this address. */
export function isFetched(known: FetchedAddresses, mediaType: string, address: string): boolean {
  const type = mediaType.toLowerCase();
  return Object.entries(known).some(
    ([pattern, addresses]) =>
      type.startsWith(pattern.toLowerCase().replace(/\*.*$/, "")) &&
      addresses.some((pattern) => pattern.test(address.toLowerCase())),
  );
}
