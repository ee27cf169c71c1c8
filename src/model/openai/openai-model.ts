// openai(): the model port over Responses and Chat Completions, at OpenAI or any server that speaks
// them. Owns one connection, opened at the first call: the code of the provider is loaded then.
// Options and environment are read once, by `assertReady` or at the first call.

import { checkText, mismatch } from "../../kernel/argument-checks.ts";
import { systemClock } from "../../kernel/clock.ts";
import { EspalierError } from "../../kernel/error.ts";
import { omitUndefined } from "../../kernel/json.ts";
import type { AttachmentKind } from "../../protocol/attachment.ts";
import type { ModelSettings } from "../../protocol/model-settings.ts";
import { checkModelSettings, SETTING_NAMES } from "../check-model-settings.ts";
import {
  isHeaderRecord,
  checkAccepts,
  checkHeaders,
  checkOptions,
  checkTimeout,
  mustBe,
  mustBeFunction,
  type OptionChecks,
} from "../check-options.ts";
import type { Model, ModelRequest } from "../model.ts";
import { checkModelLimits, type ModelLimits } from "../model-limits.ts";
import { checkPriceOption, copyPrice, type ModelPrice } from "../model-price.ts";
import { addComputedFields } from "../memoized-values.ts";
import { isOpenAiItself, isStandardTier } from "../prices.ts";
import { findHostIdForm } from "../wire-text.ts";
import {
  ANSWER_CHECKS,
  checkApi,
  isApi,
  createRequestOptions,
  findUncarriedError,
  type OpenAiModelOptions,
  REASONING_FIELDS,
  type OpenAiApi,
} from "./answer-options.ts";
import type { ConnectionSettings, OpenAiConnection } from "./openai-connection.ts";
import { checkProxy, isHttpAddress, resolveProxy } from "./proxy.ts";

/**
 * Options of `openai()`: connection, price and limits, and the content of requests.
 *
 * @example
 * ```ts
 * const local = openai("qwen3", {
 *   baseUrl: "http://127.0.0.1:11434/v1",
 *   price: { inputUsdPerMillion: 0, outputUsdPerMillion: 0 },
 *   timeoutMs: 120_000,
 * });
 * ```
 */
export interface OpenAiOptions extends OpenAiModelOptions {
  /**
   * API key. Optional with a base URL, since local servers need none.
   *
   * @default the environment variable `OPENAI_API_KEY`
   */
  readonly apiKey?: string;
  /**
   * Base URL of the server, without `/responses` or `/chat/completions`:
   * `http://127.0.0.1:11434/v1`.
   *
   * @default the environment variable `OPENAI_BASE_URL`, else OpenAI
   */
  readonly baseUrl?: string;
  /**
   * Price of the model. If it is absent, `prices` of the orchestrator is asked, by base URL, or by
   * `provider` if that is set. At OpenAI itself, `lookUpModelPrice` comes next.
   *
   * `"unknown"` disables that lookup. A run with a cost limit refuses to start if the price is
   * unknown.
   *
   * @example
   * ```ts
   * const mistral = openai("mistral-large-latest", {
   *   baseUrl: "https://api.mistral.ai/v1",
   *   price: { inputUsdPerMillion: 2, outputUsdPerMillion: 6 },
   * });
   * ```
   */
  readonly price?: ModelPrice | "unknown";
  /**
   * Counts the input tokens of a request without network access.
   *
   * @default the count that the provider reported for the previous requests, plus an estimate of
   * the rest
   *
   * @example
   * ```ts
   * const countTokens = await loadGptTokenCounter("gpt-5.6");
   * const counted = openai("gpt-5.6", { countTokens });
   * ```
   */
  readonly countTokens?: (request: ModelRequest) => number;
  /**
   * Longest time of one attempt, in milliseconds, from the request to the last byte of the reply.
   *
   * @default 600_000
   */
  readonly timeoutMs?: number;
  /**
   * Rate limits of the provider, created by `modelLimits` and shared by all models with this
   * object.
   *
   * @default none
   *
   * @example
   * ```ts
   * const limited = openai("gpt-5.6", { limits: modelLimits({ maxConcurrentRequests: 4 }) });
   * ```
   */
  readonly limits?: ModelLimits;
  /**
   * Name of the output cap in Chat Completions. Many servers ignore `max_completion_tokens`, and
   * with it the cap. Newer models of OpenAI accept no other name.
   *
   * @default "max_completion_tokens" at OpenAI and Azure, else "max_tokens"
   */
  readonly maxTokensField?: "max_completion_tokens" | "max_tokens";
  /**
   * Name of the message field with the model's reasoning in Chat Completions. The reasoning is sent
   * back under that name. `false` drops it.
   *
   * DeepSeek, Kimi, GLM and SGLang use `reasoning_content`. OpenRouter, Groq, vLLM and Ollama use
   * `reasoning`.
   *
   * @default the field that the server sent
   */
  readonly reasoningField?: "reasoning_content" | "reasoning" | false;
  /**
   * Kinds of attachments that the model reads. It receives one line of text in place of any other
   * attachment.
   *
   * @default ["image", "file"] at OpenAI and Azure, else []
   */
  readonly inputModalities?: readonly AttachmentKind[];
  /**
   * Headers of each request. Errors do not contain their values, except short values and those of
   * harmless headers such as `user-agent`.
   *
   * @example
   * ```ts
   * const routed = openai("qwen3", {
   *   baseUrl: "https://gateway.example/v1",
   *   headers: { "x-api-key": process.env["GATEWAY_KEY"] ?? "" },
   * });
   * ```
   */
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * Address of an HTTP proxy. `false` disables proxies. Needs Node 24.5 or 22.21. On an older Node,
   * runs that need a proxy fail to start.
   *
   * @default `HTTPS_PROXY` or `HTTP_PROXY`, by the scheme of the base URL, except for hosts in
   * `NO_PROXY`
   *
   * @example
   * ```ts
   * const model = openai("gpt-5.6", { proxy: "http://name:password@proxy.example:8080" });
   * ```
   */
  readonly proxy?: string | false;
  /**
   * Sends the requests in place of the built-in transport. It must obey `signal`, and `redirect`,
   * which is always `manual`: redirects are followed within the origin of the base URL only.
   *
   * @example
   * ```ts
   * const logged = openai("gpt-5.6", {
   *   fetch: async (input, init) => {
   *     const response = await fetch(input, init);
   *     console.log(response.status, response.headers.get("x-request-id"));
   *     return response;
   *   },
   * });
   * ```
   */
  readonly fetch?: typeof globalThis.fetch;
}

const KEY_VARIABLE = "OPENAI_API_KEY";
const URL_VARIABLE = "OPENAI_BASE_URL";
const API_VARIABLE = "ESPALIER_OPENAI_API";
const DEFAULT_TIMEOUT_MS = 600_000;
const HTTP_PORT = 80;
const HTTPS_PORT = 443;
const OPENAI_ORIGIN = "https://api.openai.com";
/** Addresses of OpenAI and Azure OpenAI. Other hosts of Azure also have other interfaces. */
const OPENAI_ADDRESSES =
  /^([^/]+\.)?openai(\.azure)?\.com\/|^[^/]+\.(services\.ai|cognitiveservices)\.azure\.com\/openai\//;
/** Hosts of OpenAI and its regions. */
const RESPONSES_HOSTS = /(^|\.)api\.openai\.com$/;
/** Lowest output cap that Responses accepts. */
const MIN_CAP = 16;

/**
 * Creates a model of OpenAI, Azure OpenAI, or any server that speaks Responses or Chat Completions,
 * such as Ollama and vLLM. Creating it sends no request and reads no API key.
 *
 * @throws EspalierError `invalid_argument` if `modelId`, `provider` or `serviceTier` is empty or not
 * a string, or if `limits` was not created by `modelLimits`.
 * @throws EspalierError `invalid_argument` if another option is invalid.
 *
 * @example
 * ```ts
 * const gpt = openai("gpt-5.6", { reasoning: { effort: "low" } });
 * const local = openai("qwen3", { baseUrl: "http://127.0.0.1:11434/v1" });
 * const assistant = defineAgent({ name: "assistant", instructions: "Answer briefly.", model: gpt });
 * ```
 */
export function openai(modelId: string, options: OpenAiOptions = {}): Model {
  checkText("openai.modelId", modelId);
  checkAll(options);
  let settings: ConnectionSettings | undefined;
  let connecting: Promise<OpenAiConnection> | undefined;
  let connection: OpenAiConnection | undefined;
  const connect = async (): Promise<OpenAiConnection> => {
    settings ??= readSettings(modelId, options);
    const known = settings;
    connecting ??= import("./openai-connection.ts").then(
      ({ OpenAiConnection }) => new OpenAiConnection(known),
    );
    connection = await connecting;
    return connection;
  };
  const { countTokens, limits } = options;
  const tier = options.extraBody?.["service_tier"] ?? options.serviceTier;
  const price = options.price ?? (isStandardTier(tier) ? undefined : "unknown");
  /** Computed once per base URL, since every call reads it. */
  let known: Address | undefined;
  const getAddress = (): Address => {
    const baseUrl = settings === undefined ? readBaseUrl(options) : settings.baseUrl;
    if (known === undefined || known.baseUrl !== baseUrl) known = describeAddress(baseUrl, modelId);
    return known;
  };
  const getApi = (): OpenAiApi => settings?.api ?? chooseApi(options, getAddress().usualApi);
  const fields = {
    id: modelId,
    ...(price === undefined ? {} : { price: price === "unknown" ? price : copyPrice(price) }),
    ...omitUndefined({ countTokens, limits }),
    ...(typeof tier === "string" ? { serviceTier: tier } : {}),
    checkSettings: (roleSettings) => refuseUncarried(getApi(), "modelSettings", roleSettings),
    assertReady: () => {
      settings ??= readSettings(modelId, options);
    },
    generate: (request, generation) =>
      connection === undefined
        ? connect().then((opened) => opened.generate(request, generation))
        : connection.generate(request, generation),
  } satisfies Omit<Model, "provider">;
  // These depend on the environment until the model is used.
  return Object.freeze(
    addComputedFields(fields, {
      provider: () => options.provider ?? getAddress().provider,
      // At other servers the user's provider name determines the price.
      baseUrl: () => {
        const { url, isOpenAiItself } = getAddress();
        return options.provider === undefined || isOpenAiItself ? url : undefined;
      },
      // A deployment cannot decrypt the reasoning of another.
      replayKey: () => getAddress().replayKey,
      inputModalities: () => chooseAccepted(options, getAddress().isAtOpenAi),
      minOutputTokens: () => (getApi() === "responses" ? MIN_CAP : 1),
      supportsStructuredOutputs: () =>
        options.supportsStructuredOutputs ?? (getAddress().isAtOpenAi && getApi() === "responses"),
      // Other servers may accept the field and ignore it.
      supportsToolChoice: () => getAddress().isAtOpenAi,
      server: () => getAddress().server,
      apiType: getApi,
    }),
  );
}

/** Properties of a model that follow from its base URL. */
type Address = ReturnType<typeof describeAddress>;

/** Returns the properties of a base URL. An invalid one is reported by `assertReady`. */
function describeAddress(baseUrl: string | undefined, modelId: string) {
  const text = baseUrl ?? `${OPENAI_ORIGIN}/v1`;
  const url = isHttpAddress(text) ? new URL(text) : undefined;
  const { hostname = "", pathname = "" } = url ?? {};
  const usualPort = url?.protocol === "http:" ? HTTP_PORT : HTTPS_PORT;
  const isItself = isOpenAiItself(text);
  const usualApi: OpenAiApi = RESPONSES_HOSTS.test(hostname) ? "responses" : "chat_completions";
  return {
    baseUrl,
    /** The base URL, with the default. */
    url: text,
    provider: findProvider(hostname),
    replayKey: isItself ? `openai/${modelId}` : `openai/${modelId}@${url?.host ?? text}`,
    server: url && { address: hostname, port: Number(url.port || usualPort) },
    /** False at a region's address and at Azure: they may charge more. */
    isOpenAiItself: isItself,
    /** At OpenAI or at Azure, which take all fields that OpenAI has. */
    isAtOpenAi: OPENAI_ADDRESSES.test(`${hostname}${pathname}/`),
    callIdForm: findHostIdForm(hostname),
    /** Used without the option `api`. */
    usualApi,
  };
}

/** Reads options and environment. */
function readSettings(modelId: string, options: OpenAiOptions): ConnectionSettings {
  const baseUrl = readBaseUrl(options);
  if (options.baseUrl === undefined && baseUrl !== undefined) checkBaseUrl(URL_VARIABLE, baseUrl);
  const apiKey = (options.apiKey ?? readVariable(KEY_VARIABLE))?.trim();
  if (baseUrl === undefined && (apiKey === undefined || apiKey === ""))
    throw new EspalierError({
      code: "missing_api_key",
      message: `Expected an API key for the model ${modelId}, got none. Set the environment variable ${KEY_VARIABLE} or the option apiKey; for a server that needs no key, set ${URL_VARIABLE} or the option baseUrl.`,
      data: { model: modelId, variable: KEY_VARIABLE, option: "apiKey" },
    });
  if (!isHeaderRecord({ authorization: apiKey ?? "" })) {
    const field = options.apiKey === undefined ? KEY_VARIABLE : "openai.apiKey";
    const expected = "characters that HTTP allows in a header";
    // The key is not quoted.
    throw mismatch(field, expected, "others", "Copy the key again, on one line.");
  }
  const named = readVariable(API_VARIABLE);
  if (options.api === undefined && named !== undefined) checkApi(API_VARIABLE, named);
  const { replayKey, isAtOpenAi, callIdForm, usualApi } = describeAddress(baseUrl, modelId);
  const api = chooseApi(options, usualApi);
  refuseUncarried(api, "openai", options);
  return {
    modelId,
    api,
    options: createRequestOptions(options, api === "responses" || isAtOpenAi),
    apiKey: apiKey === "" ? undefined : apiKey,
    baseUrl,
    timeoutMs: options.timeoutMs ?? DEFAULT_TIMEOUT_MS,
    clock: systemClock,
    maxTokensField: options.maxTokensField ?? (isAtOpenAi ? "max_completion_tokens" : "max_tokens"),
    replayKey,
    reasoningField: options.reasoningField,
    callIdForm,
    inputModalities: chooseAccepted(options, isAtOpenAi),
    headers: options.headers ?? {},
    fetch: options.fetch,
    // The user's fetch chooses its own proxy.
    proxy:
      options.fetch === undefined
        ? resolveProxy(baseUrl ?? OPENAI_ORIGIN, options.proxy)
        : undefined,
  };
}

const OPENAI_MODALITIES: readonly AttachmentKind[] = Object.freeze(["image", "file"]);
const NO_MODALITIES: readonly AttachmentKind[] = Object.freeze([]);

function chooseAccepted(
  { inputModalities }: OpenAiOptions,
  isAtOpenAi: boolean,
): readonly AttachmentKind[] {
  return inputModalities ?? (isAtOpenAi ? OPENAI_MODALITIES : NO_MODALITIES);
}

function readBaseUrl(options: OpenAiOptions): string | undefined {
  return options.baseUrl ?? readVariable(URL_VARIABLE);
}

function readVariable(name: string): string | undefined {
  const value = process.env[name]?.trim();
  return value === "" ? undefined : value;
}

function refuseUncarried(api: OpenAiApi, field: string, settings: ModelSettings): void {
  const refused = findUncarriedError(api, field, settings);
  if (refused !== undefined) throw refused;
}

function chooseApi({ api }: OpenAiOptions, usualApi: OpenAiApi): OpenAiApi {
  if (api !== undefined) return api;
  const named = readVariable(API_VARIABLE);
  return isApi(named) ? named : usualApi;
}

const CHECKS: OptionChecks<Omit<OpenAiOptions, keyof ModelSettings>> = {
  apiKey: (field, key) => {
    if (typeof key === "string") return;
    throw mismatch(field, "text", typeof key, `Leave it out to use ${KEY_VARIABLE}.`);
  },
  baseUrl: checkBaseUrl,
  price: checkPriceOption,
  countTokens: mustBeFunction("a function of a request", "Leave it out for an estimate."),
  timeoutMs: checkTimeout,
  limits: checkModelLimits,
  maxTokensField: mustBe(
    "max_completion_tokens or max_tokens",
    (value) => value === "max_completion_tokens" || value === "max_tokens",
    "Leave it out to go by the base URL.",
  ),
  reasoningField: mustBe(
    '"reasoning_content", "reasoning" or false',
    (value) => value === false || REASONING_FIELDS.some((field) => field === value),
    "Leave it out to detect the field in the replies.",
  ),
  inputModalities: checkAccepts,
  headers: checkHeaders,
  proxy: checkProxy,
  fetch: mustBeFunction("a function like fetch", "Leave it out for the built-in transport."),
  ...ANSWER_CHECKS,
};

function checkAll(options: OpenAiOptions): void {
  checkOptions<Omit<OpenAiOptions, keyof ModelSettings>>("openai", options, CHECKS, SETTING_NAMES);
  checkModelSettings("openai", options);
  const { api, fetch, proxy } = options;
  if (api !== undefined) refuseUncarried(api, "openai", options);
  if (proxy === undefined || fetch === undefined) return;
  const advice = "Leave one of them out: a custom fetch ignores it.";
  throw mismatch("openai.proxy", "left out when fetch is set", "both", advice);
}

function checkBaseUrl(field: string, url: unknown): void {
  if (isHttpAddress(url)) return;
  const isBare = typeof url === "string" && !url.includes("://") && URL.canParse(`http://${url}`);
  const advice = isBare
    ? `Add the scheme: http://${url}, or https://.`
    : "Pass the URL without /chat/completions.";
  throw mismatch(field, "an http or https URL", url, advice);
}

/** Values of `gen_ai.provider.name`, where it defines one. */
const PROVIDERS: readonly (readonly [host: RegExp, provider: string])[] = [
  [/(^|\.)openai\.com$/, "openai"],
  [/\.azure\.com$/, "azure.ai.openai"],
  [/(^|\.)deepseek\.com$/, "deepseek"],
  [/(^|\.)groq\.com$/, "groq"],
  [/(^|\.)mistral\.ai$/, "mistral_ai"],
  [/(^|\.)openrouter\.ai$/, "openrouter"],
  [/(^|\.)perplexity\.ai$/, "perplexity"],
  [/(^|\.)x\.ai$/, "x_ai"],
  [/^generativelanguage\.googleapis\.com$/, "gcp.gemini"],
];

/** Returns the provider at a host, or `openai` if it is unknown. */
export function findProvider(hostname: string): string {
  return PROVIDERS.find(([host]) => host.test(hostname))?.[1] ?? "openai";
}
