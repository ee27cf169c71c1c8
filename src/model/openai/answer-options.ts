// The options of openai() for the content of requests: the interface, and settings of the answer.

import { checkBoolean, checkText, mismatch } from "../../kernel/argument-checks.ts";
import { getErrorMessage, type EspalierError } from "../../kernel/error.ts";
import { copyForeignJson } from "../../kernel/json-copy.ts";
import { deepFreeze, omitUndefined, isRecord, type JsonObject } from "../../kernel/json.ts";
import type { ModelSettings } from "../../protocol/model-settings.ts";
import { copyModelSettings } from "../check-model-settings.ts";
import { mustBe, type OptionChecks } from "../check-options.ts";
import { isWireObject } from "../wire-json.ts";
import type { ModelError } from "../model-error.ts";
import type { CacheKey, ModelReply, ModelRequest } from "../model.ts";
import type { ModelDelta } from "../../protocol/stream-part.ts";
import type { ReplyLimits } from "../reply-limits.ts";
import type { ReportedInput } from "../token-usage.ts";

/**
 * Options of `openai()` for the content of requests. Those of `ModelSettings` are defaults that
 * `modelSettings` of a role overrides.
 */
export interface OpenAiModelOptions extends ModelSettings {
  /**
   * OpenAI interface: `responses`, or `chat_completions` for Chat Completions. Azure and some other servers
   * have both; set `responses` there.
   *
   * @default the environment variable `ESPALIER_OPENAI_API`, else `responses` at api.openai.com and
   * `chat_completions` elsewhere
   *
   * @example
   * ```ts
   * const azure = openai("my-deployment", {
   *   baseUrl: "https://mine.openai.azure.com/openai/v1",
   *   api: "responses",
   * });
   * ```
   */
  readonly api?: "responses" | "chat_completions";
  /**
   * Name of the provider for prices and traces, as in `gen_ai.provider.name`, for example
   * `deepseek`.
   *
   * @default by the host of the base URL, else `openai`
   */
  readonly provider?: string;
  /**
   * Service tier of the requests, for example `flex` or `priority`. With a tier other than `auto`
   * and `default`, the price is unknown unless `price` is set.
   *
   * @default the provider's
   */
  readonly serviceTier?: string;
  /**
   * Agents that share a key of the provider's prompt cache. With `role`, the agents of a role share
   * a few keys. With `agent`, each agent has its own. With `false`, no key is sent.
   *
   * @default "role" at OpenAI and Azure and over Responses, else `false`
   */
  readonly promptCacheKey?: "role" | "agent" | false;
  /**
   * Whether the provider enforces the schemas of all tools that have a strict form. The first use
   * of a schema is slower. `strictSchema` of a tool overrides it.
   *
   * @default false
   */
  readonly strictTools?: boolean;
  /**
   * Whether the server enforces the schema of a typed result, also in requests with tools. Many
   * servers accept the field and ignore it, so test before you set it.
   *
   * @default true for Responses at OpenAI and Azure, else false
   */
  readonly supportsStructuredOutputs?: boolean;
  /**
   * Fields for the body of each request, merged last. They replace fields of the same name.
   *
   * The fields `model`, `input`, `messages`, `tools`, `stream`, `store` and those of the output cap
   * are not allowed.
   *
   * @example
   * ```ts
   * const model = openai("qwen3", {
   *   baseUrl: "http://127.0.0.1:8000/v1",
   *   extraBody: { top_k: 20, chat_template_kwargs: { enable_thinking: false } },
   * });
   * ```
   */
  readonly extraBody?: JsonObject;
}

/** Options of a model that affect each request. */
export interface RequestOptions {
  /** Defaults that the settings of a request override. */
  readonly settings: ModelSettings;
  readonly serviceTier: string | undefined;
  /** Agents that share a key of the provider's cache. `false` if no key is sent. */
  readonly promptCacheKey: "role" | "agent" | false;
  /** Whether the provider enforces the schema of every tool that has a strict form. */
  readonly strictTools: boolean;
  /** Merged last. */
  readonly extraBody: JsonObject;
}

/** Fields that the adapter sets or relies on. `extraBody` must not contain them. */
const OWN_FIELDS: readonly string[] = [
  "model",
  "input",
  "messages",
  "tools",
  "stream",
  "store",
  "max_output_tokens",
  "max_completion_tokens",
  "max_tokens",
];

/** Throws `invalid_argument` for an unknown interface. */
export const checkApi = mustBe(
  '"responses" or "chat_completions"',
  isApi,
  "Leave it out to go by the base URL.",
);

/** Settings are checked together by `checkModelSettings`. */
export const ANSWER_CHECKS: OptionChecks<Omit<OpenAiModelOptions, keyof ModelSettings>> = {
  api: checkApi,
  provider: checkText,
  serviceTier: checkText,
  promptCacheKey: mustBe(
    '"role", "agent" or false',
    (value) => value === "role" || value === "agent" || value === false,
    "Leave it out to go by the base URL.",
  ),
  strictTools: (field, value) => checkBoolean(field, value),
  supportsStructuredOutputs: (field, value) => checkBoolean(field, value),
  extraBody: checkExtraBody,
};

export function isApi(api: unknown): api is OpenAiApi {
  return api === "responses" || api === "chat_completions";
}

function checkExtraBody(field: string, extraBody: unknown): void {
  const advice = "Pass plain JSON.";
  if (!isRecord(extraBody)) throw mismatch(field, "a plain object", extraBody, advice);
  const reserved = Object.keys(extraBody).find((name) => OWN_FIELDS.includes(name));
  if (reserved !== undefined) {
    const advice = "Use the option of the model, or the field of the request, for that.";
    throw mismatch(`${field}.${reserved}`, "left out", extraBody[reserved], advice);
  }
  try {
    copyForeignJson(extraBody);
  } catch (cause) {
    throw mismatch(field, `plain JSON, but ${getErrorMessage(cause)}`, extraBody, advice);
  }
}

/**
 * Returns the error for a setting that this interface has no field for, under its public name.
 * `undefined` if all settings can be sent.
 */
export function findUncarriedError(
  api: OpenAiApi,
  field: string,
  { seed, stopSequences, reasoning }: ModelSettings,
): EspalierError | undefined {
  const uncarried =
    api === "chat_completions"
      ? { "reasoning.summary": reasoning?.summary }
      : { seed, stopSequences };
  const [firstField] = Object.entries<unknown>(omitUndefined(uncarried));
  if (firstField === undefined) return undefined;
  const [name, value] = firstField;
  return mismatch(`${field}.${name}`, "left out", value, UNCARRIED_ADVICE[api]);
}

const UNCARRIED_ADVICE: Readonly<Record<OpenAiApi, string>> = {
  chat_completions: 'Chat Completions has no summaries. Leave it out, or set api: "responses".',
  responses: 'Responses has no such field. Leave it out, or set api: "chat_completions".',
};

/** Returns the options that go into each request. */
export function createRequestOptions(
  options: OpenAiModelOptions,
  hasCacheKeys: boolean,
): RequestOptions {
  const { serviceTier, promptCacheKey, strictTools = false, extraBody = {} } = options;
  const copy = deepFreeze(copyForeignJson(extraBody));
  return {
    settings: copyModelSettings(options),
    serviceTier,
    promptCacheKey: promptCacheKey ?? (hasCacheKeys ? "role" : false),
    strictTools,
    extraBody: isWireObject(copy) ? copy : {},
  };
}

/**
 * The field of a message that contains its reasoning. DeepSeek, Kimi, GLM and SGLang use the first,
 * OpenRouter, Groq, vLLM and Ollama the second.
 */
export type ReasoningField = "reasoning_content" | "reasoning";

export const REASONING_FIELDS: readonly ReasoningField[] = ["reasoning_content", "reasoning"];

// The port of the connection to an interface of OpenAI: writes requests and reads replies.

/** Interfaces that `openai()` supports. */
export type OpenAiApi = NonNullable<OpenAiModelOptions["api"]>;

/** A request with the key of its cache. */
export interface WireRequest extends ModelRequest {
  readonly cacheKey?: CacheKey | undefined;
}

export interface WireApi {
  readonly name: OpenAiApi;
  /** Appended to the base URL. */
  readonly path: string;
  /** Returns the body of a request. */
  write(request: WireRequest, isStreaming: boolean): Buffer;
  /** Reads a reply that was not streamed. Throws a `ModelError` if the body is not a reply. */
  read(body: string, limits: ReplyLimits): ModelReply;
  /** Creates a reader of a streamed reply. */
  stream(limits: ReplyLimits, onDelta: (delta: ModelDelta) => void): ReplyStream;
  /** Returns the reply in the body of a refusal, if the server refused its own model's output. */
  rescue?(body: unknown, limits: ReplyLimits): ModelReply | undefined;
  /**
   * Drops a field from all later requests after a server has refused it. Returns `undefined` if
   * this request stays the same. Another call may have dropped the field before.
   */
  dropRejectedField?(request: ModelRequest, refusal: ModelError): FieldFallback | undefined;
}

/** Description of a dropped field for a warning. `undefined` if no warning is needed. */
export interface FieldFallback {
  readonly warning: string | undefined;
}

/** Reply that is assembled from the events of a stream. */
export interface ReplyStream {
  /** True if no further event can change the reply. */
  readonly isComplete: boolean;
  /** True if the reply is complete, and no further event is worth waiting for. */
  readonly isOver: boolean;
  /** True if the reply was cut at twice its cap. The request is then aborted. */
  readonly isCut: boolean;
  /**
   * Estimate of the output tokens to charge if the stream breaks now. `undefined` until the model
   * has begun.
   */
  readonly lostOutputTokens: number | undefined;
  /** Input tokens that the server has reported so far. `undefined` if it has reported none. */
  readonly lostInput: ReportedInput | undefined;
  /**
   * Processes the data of one event. Throws a `ModelError` if it is invalid or reports an error.
   */
  take(data: string): void;
  /** Returns the complete reply after the last event. Throws a `ModelError` without a reply. */
  finish(): ModelReply;
}
