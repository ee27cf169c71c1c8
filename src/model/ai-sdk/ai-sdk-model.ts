// Entry `espalier/ai-sdk`: every language model of the AI SDK as a model of ours. Its packages are the user's own choice: nothing of them
// is loaded here, and `@ai-sdk/provider` gives types only.

import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  SharedV4ProviderOptions,
} from "@ai-sdk/provider";

import { checkBoolean, checkText, misdefinition } from "../../kernel/check.ts";
import { systemClock } from "../../kernel/clock.ts";
import { defined, isRecord } from "../../kernel/json.ts";
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

/** How a model of the AI SDK is asked, besides what roles say. */
export interface AiSdkOptions {
  /** How much the model reasons, where a role does not say. Default: as its provider has it. */
  readonly reasoning?: NonNullable<LanguageModelV4CallOptions["reasoning"]>;
  /** What only this provider knows, by its name: `{ anthropic: { thinking: { type: "enabled", budgetTokens: 4_000 } } }`. */
  readonly providerOptions?: SharedV4ProviderOptions;
  /**
   * Headers to send along with each request. Errors do not contain their values, except short values
   * and those of harmless headers such as `user-agent`.
   */
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * What the model costs. Left out: what the `prices` of the orchestrator have for its provider; else what `lookUpModelPrice` has of a model by
   * OpenAI, wherever it is asked; else it is unknown, and a cost limit over it is refused. `"unknown"`: nothing is looked up.
   */
  readonly price?: ModelPrice | "unknown";
  /** Who serves it, for prices and traces. Default: by the first word of the model's own `provider`. */
  readonly provider?: string;
  /** Whose reasoning it takes back. Two deployments under one id need keys of their own. Default: `ai-sdk:`, its provider and its id. */
  readonly replayKey?: string;
  /**
   * Whether its provider can hold the model to the schema of a typed result, also beside tools (`outputMode` of a role). Default: true,
   * unless the model says `supportsStructuredOutputs: false`.
   */
  readonly native?: boolean;
  /**
   * What the model takes besides text. Default: images and files for Anthropic, OpenAI and Azure, sounds besides for Google; nothing for
   * other providers, whose models differ.
   */
  readonly inputModalities?: readonly AttachmentKind[];
  /** How long one attempt may take, from the request to the last piece of the reply. Default: 600,000. */
  readonly timeoutMs?: number;
  /** What the provider takes of all models that are given this object, in every run of the process: see `modelLimits`. */
  readonly limits?: ModelLimits;
}

const LEVELS: readonly unknown[] = [
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
    `one of ${LEVELS.join(", ")}`,
    (value) => LEVELS.includes(value),
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
  native: (field, value) => checkBoolean(field, value),
  inputModalities: checkAccepts,
  timeoutMs: checkTimeout,
  limits: checkModelLimits,
};
const DEFAULT_TIMEOUT_MS = 600_000;
/** The least that the Responses interface takes. */
const LEAST_RESPONSES_TOKENS = 16;

/**
 * A model of any provider of the AI SDK 7: `aiSdkModel(anthropic("claude-sonnet-5"))`. What the provider wants back with the next request,
 * such as signed reasoning, is kept in the reply's parts. Retries are not its business: one call is one request.
 *
 * @throws EspalierError `invalid_definition`, if it is no model of the AI SDK 7; `invalid_option`, if an option cannot be used.
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
  const apiType = api === "chat" ? "chat_completions" : api === "responses" ? api : undefined;
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
    native: options.native ?? isStructured,
    canForce: FORCING.test(model.provider),
    apiType,
    ...defined({ limits }),
    ...(apiType === "responses" ? { minOutputTokens: LEAST_RESPONSES_TOKENS } : {}),
    ...(price === undefined ? {} : { price: price === "unknown" ? price : copyPrice(price) }),
    generate: async (request, generation) => await connection.generate(request, generation),
  } satisfies Model);
}

/** Providers that are known to obey a choice of tools. */
const FORCING = /^(openai|azure|anthropic|google)\b/;

function checkSdkModel(model: unknown): void {
  if (typeof model === "string") {
    const advice =
      'An id alone needs a gateway. Create the model with its provider, for example anthropic("…").';
    throw misdefinition("aiSdkModel.model", "a model of the AI SDK", model, advice);
  }
  const fields = isRecord(model) ? model : {};
  const version = fields["specificationVersion"];
  if (version !== "v4") {
    const expected = 'a model of the AI SDK with specificationVersion "v4"';
    const advice = "Update the provider to one for AI SDK 7.";
    throw misdefinition("aiSdkModel.model", expected, version ?? model, advice);
  }
  if (typeof fields["doStream"] !== "function") {
    const advice =
      "Pass a language model: agents cannot use models of embeddings, images or speech.";
    throw misdefinition("aiSdkModel.model", "a language model with doStream()", model, advice);
  }
  checkText("aiSdkModel.model.provider", fields["provider"]);
  checkText("aiSdkModel.model.modelId", fields["modelId"]);
}
