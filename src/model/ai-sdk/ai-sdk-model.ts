// Entry `espalier/ai-sdk`: converts language models of the AI SDK to models. The user installs the
// packages of the AI SDK. This entry imports only types of `@ai-sdk/provider`.

import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  SharedV4ProviderOptions,
} from "@ai-sdk/provider";

import { checkBoolean, checkText, mismatch } from "../../kernel/argument-checks.ts";
import { systemClock } from "../../kernel/clock.ts";
import { omitUndefined, isRecord } from "../../kernel/json.ts";
import type { AttachmentKind } from "../../protocol/attachment.ts";
import {
  checkAccepts,
  checkHeaders,
  checkOptions,
  checkTimeout,
  mustBe,
  type OptionChecks,
} from "../check-options.ts";
import type { Model } from "../model.ts";
import { checkModelLimits, type ModelLimits } from "../model-limits.ts";
import { checkPriceOption, copyPrice, type ModelPrice } from "../model-price.ts";
import { isStandardTier } from "../prices.ts";
import { findTaken, findProviderName } from "./ai-sdk-providers.ts";
import { AiSdkConnection } from "./ai-sdk-connection.ts";

export { sameOriginFetch } from "./same-origin-fetch.ts";

/** Options of `aiSdkModel()`. */
export interface AiSdkOptions {
  /**
   * Reasoning effort, for roles whose `modelSettings` set none.
   *
   * @default the provider's
   */
  readonly reasoning?: NonNullable<LanguageModelV4CallOptions["reasoning"]>;
  /**
   * Options of the provider, under its name, as `providerOptions` of the AI SDK.
   *
   * @example
   * ```ts
   * import { anthropic } from "@ai-sdk/anthropic";
   *
   * const claude = aiSdkModel(anthropic("claude-sonnet-5"), {
   *   providerOptions: { anthropic: { cacheControl: { type: "ephemeral" } } },
   * });
   * ```
   */
  readonly providerOptions?: SharedV4ProviderOptions;
  /**
   * Headers of each request. Errors do not contain their values, except short values and those of
   * harmless headers such as `user-agent`.
   *
   * @example
   * ```ts
   * import { anthropic } from "@ai-sdk/anthropic";
   *
   * const claude = aiSdkModel(anthropic("claude-sonnet-5"), {
   *   headers: { "anthropic-beta": "context-1m-2025-08-07" },
   * });
   * ```
   */
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * Price of the model. If it is absent, `prices` of the orchestrator is asked by provider. For
   * models of OpenAI, `lookUpModelPrice` comes next.
   *
   * `"unknown"` disables that lookup. A run with a cost limit refuses to start if the price is
   * unknown.
   *
   * @example
   * ```ts
   * import { anthropic } from "@ai-sdk/anthropic";
   *
   * const claude = aiSdkModel(anthropic("claude-sonnet-5"), {
   *   price: { inputUsdPerMillion: 3, cachedInputUsdPerMillion: 0.3, outputUsdPerMillion: 15 },
   * });
   * ```
   */
  readonly price?: ModelPrice | "unknown";
  /**
   * Name of the provider for prices and traces, as in `gen_ai.provider.name`.
   *
   * @default by `provider` of the AI SDK model, for example `anthropic` or `gcp.gemini`
   */
  readonly provider?: string;
  /**
   * Key of the models that can read each other's reasoning. Two deployments of one model need
   * different keys.
   *
   * @default `ai-sdk:` with the provider and id of the AI SDK model
   */
  readonly replayKey?: string;
  /**
   * Whether the provider enforces the schema of a typed result, also in requests with tools.
   *
   * @default true, unless the AI SDK model has `supportsStructuredOutputs: false`
   */
  readonly supportsStructuredOutputs?: boolean;
  /**
   * Kinds of attachments that the model reads. It receives one line of text in place of any other
   * attachment.
   *
   * @default ["image", "file"] for Anthropic, OpenAI and Azure, all kinds for Google, else []
   */
  readonly inputModalities?: readonly AttachmentKind[];
  /**
   * Longest time of one attempt, in milliseconds, from the request to the last part of the reply.
   *
   * @default 600_000
   */
  readonly timeoutMs?: number;
  /**
   * Rate limits of the provider, created by `modelLimits` and shared by all models with this
   * object.
   *
   * @default none
   */
  readonly limits?: ModelLimits;
}

const REASONING_LEVELS: readonly unknown[] = [
  "provider-default",
  "none",
  "minimal",
  "low",
  "medium",
  "high",
  "xhigh",
  "max",
] satisfies AiSdkOptions["reasoning"][];
const CHECKS: OptionChecks<AiSdkOptions> = {
  reasoning: mustBe(
    `one of ${REASONING_LEVELS.join(", ")}`,
    (value) => REASONING_LEVELS.includes(value),
    "Leave it out for the provider's default.",
  ),
  providerOptions: mustBe(
    "an object of objects, by provider",
    (value) => isRecord(value) && Object.values(value).every(isRecord),
    "Put options of Anthropic under anthropic, and so on.",
  ),
  headers: checkHeaders,
  price: checkPriceOption,
  provider: checkText,
  replayKey: checkText,
  supportsStructuredOutputs: (field, value) => checkBoolean(field, value),
  inputModalities: checkAccepts,
  timeoutMs: checkTimeout,
  limits: checkModelLimits,
};
const DEFAULT_TIMEOUT_MS = 600_000;
/** Smallest cap that the Responses API accepts. */
const MIN_RESPONSES_TOKENS = 16;

/**
 * Creates a model from a language model of the AI SDK 7, of any provider. Each attempt is one call
 * of `doStream`; retries are made by espalier.
 *
 * Signed reasoning and other data that the provider needs back is stored in the reply and sent with
 * later requests.
 *
 * @throws EspalierError `invalid_argument` if `model` is not a language model of the AI SDK 7, if
 * `provider` or `replayKey` is empty, or if `limits` was not created by `modelLimits`.
 * @throws EspalierError `invalid_argument` if another option is invalid.
 *
 * @example
 * ```ts
 * import { anthropic } from "@ai-sdk/anthropic";
 *
 * const claude = aiSdkModel(anthropic("claude-sonnet-5"), { reasoning: "medium" });
 * const writer = defineAgent({ name: "writer", instructions: "Write clearly.", model: claude });
 * ```
 */
export function aiSdkModel(model: LanguageModelV4, options: AiSdkOptions = {}): Model {
  checkSdkModel(model);
  checkOptions("aiSdkModel", options, CHECKS);
  const { providerOptions = {} } = options;
  const isStandard = Object.values(providerOptions).every(({ serviceTier }) =>
    isStandardTier(serviceTier),
  );
  const {
    price = isStandard ? undefined : "unknown",
    limits,
    provider = findProviderName(model.provider),
    timeoutMs = DEFAULT_TIMEOUT_MS,
  } = options;
  const inputModalities = Object.freeze([
    ...(options.inputModalities ?? findTaken(model.provider)),
  ]);
  const replayKey = options.replayKey ?? `ai-sdk:${model.provider}/${model.modelId}`;
  const [, api] = /^(?:openai|azure)\b.*\.(responses|chat)$/.exec(model.provider) ?? [];
  const responses = api === "responses" ? api : undefined;
  const apiType = api === "chat" ? "chat_completions" : responses;
  const isStructured =
    !("supportsStructuredOutputs" in model) || model.supportsStructuredOutputs === true;
  const connection = new AiSdkConnection({
    ...options,
    model,
    replayKey,
    inputModalities,
    timeoutMs,
    clock: systemClock,
  });
  return Object.freeze({
    provider,
    id: model.modelId,
    replayKey,
    ...(inputModalities.length === 0 ? {} : { inputModalities }),
    supportsStructuredOutputs: options.supportsStructuredOutputs ?? isStructured,
    supportsToolChoice: TOOL_CHOICE_PROVIDERS.test(model.provider),
    apiType,
    ...omitUndefined({ limits }),
    ...(apiType === "responses" ? { minOutputTokens: MIN_RESPONSES_TOKENS } : {}),
    ...(price === undefined ? {} : { price: price === "unknown" ? price : copyPrice(price) }),
    generate: async (request, generation) => await connection.generate(request, generation),
  } satisfies Model);
}

/** Providers that are known to obey a choice of tools. */
const TOOL_CHOICE_PROVIDERS = /^(openai|azure|anthropic|google)\b/;

function checkSdkModel(model: unknown): void {
  if (typeof model === "string") {
    const advice =
      'An id alone needs a gateway. Create the model with its provider, for example anthropic("…").';
    throw mismatch("aiSdkModel.model", "a model of the AI SDK", model, advice);
  }
  const fields = isRecord(model) ? model : {};
  const version = fields["specificationVersion"];
  if (version !== "v4") {
    const expected = 'a model of the AI SDK with specificationVersion "v4"';
    const advice = "Update the provider to one for AI SDK 7.";
    throw mismatch("aiSdkModel.model", expected, version ?? model, advice);
  }
  if (typeof fields["doStream"] !== "function") {
    const advice =
      typeof fields["doGenerate"] === "function"
        ? "Implement doStream: espalier never calls doGenerate."
        : "Pass a language model: agents cannot use models of embeddings, images or speech.";
    throw mismatch("aiSdkModel.model", "a language model with doStream()", model, advice);
  }
  checkText("aiSdkModel.model.provider", fields["provider"]);
  checkText("aiSdkModel.model.modelId", fields["modelId"]);
}
