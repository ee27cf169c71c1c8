// openai(): the model port over the two interfaces of OpenAI, Responses and Chat Completions, at OpenAI or any server that speaks them.
// Owns one connection, opened at the first call: until then nothing of the provider's code is loaded. Options and environment are
// read together when the model is first used, or found ready for it, and hold from then on.

import { checkKeys, checkText, mismatch } from "../../kernel/check.ts";
import { systemClock } from "../../kernel/clock.ts";
import { EspalierError } from "../../kernel/error.ts";
import type { Model, ModelRequest, ModelServer } from "../model.ts";
import { knownPrice } from "../known-price.ts";
import { checkPrice, copyPrice, type ModelPrice } from "../model-price.ts";
import {
  ANSWER_OPTION_NAMES,
  checkAnswerOptions,
  requestOptions,
  uncarriedError,
  type OpenAiAnswerOptions,
  checkApi,
} from "./answer-options.ts";
import { REASONING_FIELDS, type ReasoningField } from "./chat-reasoning.ts";
import type { ConnectionSettings, OpenAiConnection } from "./openai-connection.ts";
import { providerAt } from "./provider-at.ts";
import { checkProxy, proxyTo, type Proxy } from "./proxy.ts";
import type { MaxTokensField } from "./to-openai.ts";
import type { OpenAiApi } from "./wire-api.ts";

/** How the server is reached, and how its models are asked. */
export interface OpenAiOptions extends OpenAiAnswerOptions {
  /** Default: the environment variable `OPENAI_API_KEY`. May be missing if there is a base URL: local servers need none. */
  readonly apiKey?: string;
  /** Where the server is, up to and without `/responses` or `/chat/completions`. Default: `OPENAI_BASE_URL`, else OpenAI itself. */
  readonly baseUrl?: string;
  /**
   * What the model costs. Left out: what `knownPrice` has, if OpenAI itself is asked, not a server at another base URL; else it is
   * unknown, and a cost limit over it is refused. `"unknown"`: as if we did not know either.
   */
  readonly price?: ModelPrice | "unknown";
  /**
   * Counts the input tokens of a request, without the network. Default: what the provider said of the requests before, and an estimate of
   * the rest. `gptTokenCounter` of `espalier/tokens` makes one.
   */
  readonly countTokens?: (request: ModelRequest) => number;
  /** How long one attempt may take, from the request to the last byte of the reply. Default: 600,000. */
  readonly timeoutMs?: number;
  /**
   * How a server of Chat Completions calls the cap on output tokens. Default: `max_completion_tokens` at OpenAI and Azure, where newer models know
   * nothing else; `max_tokens` at any other base URL, since many servers ignore the newer name in silence, and with it the cap.
   */
  readonly maxTokensField?: MaxTokensField;
  /**
   * In which field of a message the server gives the model's reasoning, and gets it back with the next request, as DeepSeek, Kimi and
   * others demand. Default: the one that arrived. `false`: it is neither kept nor sent.
   */
  readonly reasoningField?: ReasoningField | false;
  /** Headers to send along with each request. */
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * The proxy on the way to the server: `http://host:port`, with a name and a password before the host if it wants them. `false`: none.
   * Default: `HTTPS_PROXY` or `HTTP_PROXY`, by the scheme of the base URL, for all hosts that are not in `NO_PROXY`. Needs Node 24.5 or
   * 22.21; where Node cannot go through a proxy and one is asked for, `assertReady` throws.
   */
  readonly proxy?: string | false;
  /** Sends the requests instead of our own transport. Must obey its signal and the option `redirect`, which is always `manual`: we
   * follow redirects ourselves, within the origin of the base URL only. */
  readonly fetch?: typeof globalThis.fetch;
}

const OPTION_NAMES = [
  "apiKey",
  "baseUrl",
  "price",
  "countTokens",
  "timeoutMs",
  "maxTokensField",
  "reasoningField",
  "headers",
  "proxy",
  "fetch",
  ...ANSWER_OPTION_NAMES,
] as const;
const KEY_VARIABLE = "OPENAI_API_KEY";
const URL_VARIABLE = "OPENAI_BASE_URL";
const API_VARIABLE = "ESPALIER_OPENAI_API";
const DEFAULT_TIMEOUT_MS = 600_000;
const MAX_TOKENS_FIELDS: readonly unknown[] = [
  "max_completion_tokens",
  "max_tokens",
] satisfies MaxTokensField[];
const REASONING_OPTIONS: readonly unknown[] = [...REASONING_FIELDS, false];
const HTTP_PORT = 80;
const HTTPS_PORT = 443;
const OPENAI_ORIGIN = "https://api.openai.com";
const OPENAI_HOSTS = /(^|\.)openai(\.azure)?\.com$/;
/** OpenAI itself, or a region of it. */
const RESPONSES_HOSTS = /(^|\.)api\.openai\.com$/;
/** Responses takes no lower cap. */
const LEAST_CAP = 16;
const USUAL_TIERS: readonly unknown[] = [undefined, "auto", "default"];

/**
 * A model served over Responses or Chat Completions. Retries are not its business: one call is one request.
 *
 * @throws EspalierError `invalid_definition` or `invalid_option`, if the id or an option cannot be used.
 */
export function openai(modelId: string, options: OpenAiOptions = {}): Model {
  checkText("openai.modelId", modelId);
  checkOptions(options);
  let settings: ConnectionSettings | undefined;
  let connection: Promise<OpenAiConnection> | undefined;
  const { price, countTokens } = options;
  /** The environment has a say in it until the model is used. */
  const baseUrl = (): string | undefined =>
    settings === undefined ? baseUrlOf(options) : settings.baseUrl;
  const api = (): OpenAiApi =>
    settings === undefined ? apiAt(options, baseUrlOf(options)) : settings.api;
  /** Worked out once per address: every call asks for it. */
  let known: Address | undefined;
  const address = (): Address => {
    const url = baseUrl();
    if (known === undefined || known.baseUrl !== url) known = addressOf(url, modelId);
    return known;
  };
  const model: Model = {
    get provider(): string {
      return options.provider ?? address().provider;
    },
    id: modelId,
    ...(price === undefined || price === "unknown" ? {} : { price: copyPrice(price) }),
    ...(countTokens === undefined ? {} : { countTokens }),
    /** What one deployment seals, another cannot open. */
    get replayKey(): string {
      return address().replayKey;
    },
    get minOutputTokens(): number {
      return api() === "responses" ? LEAST_CAP : 1;
    },
    get server(): ModelServer | undefined {
      return address().server;
    },
    checkSettings: (roleSettings) => {
      const refused = uncarriedError(api(), "modelSettings", roleSettings);
      if (refused !== undefined) throw refused;
    },
    assertReady: () => {
      settings ??= settingsOf(modelId, options);
    },
    generate: async (request, generation) => {
      settings ??= settingsOf(modelId, options);
      connection ??= connect(settings);
      return await (await connection).generate(request, generation);
    },
  };
  const tier = options.extraBody?.["service_tier"] ?? options.serviceTier;
  const isListed = price === undefined && USUAL_TIERS.includes(tier);
  const listed = isListed ? knownPrice("openai", modelId) : undefined;
  if (listed !== undefined) {
    const get = (): ModelPrice | undefined => (isOpenAiItself(baseUrl()) ? listed : undefined);
    Object.defineProperty(model, "price", { get, enumerable: true });
  }
  return Object.freeze(model);
}

/** What follows from the base URL of a model. */
interface Address {
  readonly baseUrl: string | undefined;
  readonly provider: string;
  readonly replayKey: string;
  readonly server: ModelServer | undefined;
}

function addressOf(baseUrl: string | undefined, modelId: string): Address {
  return {
    baseUrl,
    provider: providerAt(baseUrl),
    replayKey: replayKeyAt(baseUrl, modelId),
    server: serverAt(baseUrl ?? OPENAI_ORIGIN),
  };
}

async function connect(settings: ConnectionSettings): Promise<OpenAiConnection> {
  const { OpenAiConnection } = await import("./openai-connection.ts");
  return new OpenAiConnection(settings);
}

/** Options and environment together, as they are now. */
function settingsOf(modelId: string, options: OpenAiOptions): ConnectionSettings {
  const baseUrl = baseUrlOf(options);
  if (options.baseUrl === undefined && baseUrl !== undefined) checkUrl(URL_VARIABLE, baseUrl);
  const apiKey = (options.apiKey ?? readVariable(KEY_VARIABLE))?.trim();
  if (baseUrl === undefined && (apiKey === undefined || apiKey === "")) throw missingKey(modelId);
  checkKey(options.apiKey === undefined ? KEY_VARIABLE : "openai.apiKey", apiKey);
  if (options.api === undefined) checkApi(API_VARIABLE, readVariable(API_VARIABLE));
  const api = apiAt(options, baseUrl);
  const refused = uncarriedError(api, "openai", options);
  if (refused !== undefined) throw refused;
  return {
    modelId,
    api,
    options: requestOptions(options, api === "responses" || isAtOpenAi(baseUrl)),
    apiKey: apiKey === "" ? undefined : apiKey,
    baseUrl,
    timeoutMs: options.timeoutMs ?? DEFAULT_TIMEOUT_MS,
    clock: systemClock,
    maxTokensField: options.maxTokensField ?? maxTokensFieldAt(baseUrl),
    replayKey: replayKeyAt(baseUrl, modelId),
    reasoningField: options.reasoningField,
    headers: options.headers ?? {},
    fetch: options.fetch,
    proxy: proxyOf(options, baseUrl),
  };
}

/** A fetch of the user's finds its own way. */
function proxyOf({ fetch, proxy }: OpenAiOptions, baseUrl = OPENAI_ORIGIN): Proxy | undefined {
  return fetch === undefined ? proxyTo(baseUrl, proxy) : undefined;
}

function baseUrlOf(options: OpenAiOptions): string | undefined {
  return options.baseUrl ?? readVariable(URL_VARIABLE);
}

function replayKeyAt(baseUrl: string | undefined, modelId: string): string {
  if (baseUrl === undefined || isOpenAiItself(baseUrl)) return `openai/${modelId}`;
  return `openai/${modelId}@${isHttpUrl(baseUrl) ? new URL(baseUrl).host : baseUrl}`;
}

function serverAt(url: string): ModelServer | undefined {
  if (!isHttpUrl(url)) return undefined; // What is wrong with it is said when the model is found ready.
  const { hostname, port, protocol } = new URL(url);
  const usual = protocol === "http:" ? HTTP_PORT : HTTPS_PORT;
  return { address: hostname, port: port === "" ? usual : Number(port) };
}

/** Not so at a region's address or at Azure: they may charge more. */
function isOpenAiItself(baseUrl: string | undefined): boolean {
  if (baseUrl === undefined) return true;
  return URL.canParse(baseUrl) && new URL(baseUrl).origin === OPENAI_ORIGIN;
}

function readVariable(name: string): string | undefined {
  const value = process.env[name]?.trim();
  return value === "" ? undefined : value;
}

function missingKey(modelId: string): EspalierError {
  return new EspalierError({
    code: "missing_api_key",
    message: `Expected an API key for the model ${modelId}, got none. Set the environment variable ${KEY_VARIABLE} or the option apiKey; a server that needs no key is named by the option baseUrl.`,
    data: { model: modelId, variable: KEY_VARIABLE, option: "apiKey" },
  });
}

/** Whatever is said of it, the key is not quoted. */
function checkKey(field: string, apiKey = ""): void {
  if (areHeaders({ authorization: apiKey })) return;
  const expected = "characters that HTTP allows in a header";
  throw mismatch(field, expected, "others", "Copy the key anew, on one line.");
}

function maxTokensFieldAt(baseUrl: string | undefined): MaxTokensField {
  return isAtOpenAi(baseUrl) ? "max_completion_tokens" : "max_tokens";
}

/** At OpenAI or at Azure, which take all fields that OpenAI has. */
function isAtOpenAi(baseUrl: string | undefined): boolean {
  return baseUrl === undefined || OPENAI_HOSTS.test(new URL(baseUrl).hostname);
}

function apiAt({ api }: OpenAiOptions, baseUrl: string | undefined): OpenAiApi {
  if (api !== undefined) return api;
  const named = readVariable(API_VARIABLE);
  if (named === "responses" || named === "chat") return named;
  if (baseUrl === undefined) return "responses";
  const isOpenAi = isHttpUrl(baseUrl) && RESPONSES_HOSTS.test(new URL(baseUrl).hostname);
  return isOpenAi ? "responses" : "chat";
}

function checkOptions(options: OpenAiOptions): void {
  checkKeys("openai", options, OPTION_NAMES);
  const { apiKey, baseUrl, price, timeoutMs, maxTokensField, headers, countTokens } = options;
  const { fetch, proxy, reasoningField } = options;
  if (apiKey !== undefined && typeof apiKey !== "string") {
    throw mismatch("openai.apiKey", "text", typeof apiKey, `Leave it out to use ${KEY_VARIABLE}.`);
  }
  if (baseUrl !== undefined) checkUrl("openai.baseUrl", baseUrl);
  if (price !== undefined && price !== "unknown") checkPrice("openai.price", price);
  if (timeoutMs !== undefined && !(Number.isSafeInteger(timeoutMs) && timeoutMs > 0)) {
    throw mismatch(
      "openai.timeoutMs",
      "a whole number from 1 up",
      timeoutMs,
      "Leave it out for ten minutes.",
    );
  }
  if (maxTokensField !== undefined && !MAX_TOKENS_FIELDS.includes(maxTokensField)) {
    const expected = MAX_TOKENS_FIELDS.join(" or ");
    throw mismatch(
      "openai.maxTokensField",
      expected,
      maxTokensField,
      "Leave it out to go by the base URL.",
    );
  }
  if (reasoningField !== undefined && !REASONING_OPTIONS.includes(reasoningField)) {
    const expected = '"reasoning_content", "reasoning" or false';
    const advice = "Leave it out to go by what the server sends.";
    throw mismatch("openai.reasoningField", expected, reasoningField, advice);
  }
  if (headers !== undefined) checkHeaders(headers);
  checkAnswerOptions(options);
  const refused =
    options.api === undefined ? undefined : uncarriedError(options.api, "openai", options);
  if (refused !== undefined) throw refused;
  if (countTokens !== undefined && typeof countTokens !== "function") {
    const advice = "Leave it out for an estimate.";
    throw mismatch("openai.countTokens", "a function of a request", countTokens, advice);
  }
  if (fetch !== undefined && typeof fetch !== "function") {
    throw mismatch(
      "openai.fetch",
      "a function like fetch",
      fetch,
      "Leave it out for our own transport.",
    );
  }
  if (proxy === undefined) return;
  checkProxy(proxy);
  if (fetch !== undefined) {
    const advice = "A fetch goes its own way: leave one of them out.";
    throw mismatch("openai.proxy", "left out beside the option fetch", "both", advice);
  }
}

function checkUrl(field: string, url: unknown): void {
  if (isHttpUrl(url)) return;
  const isBare = typeof url === "string" && !url.includes("://") && URL.canParse(`http://${url}`);
  const advice = isBare
    ? `Say how it is reached: http://${url}, or https://.`
    : "Give the address up to and without /chat/completions.";
  throw mismatch(field, "an http or https URL", url, advice);
}

function isHttpUrl(url: unknown): boolean {
  return typeof url === "string" && /^https?:\/\//.test(url) && URL.canParse(url);
}

function checkHeaders(headers: Readonly<Record<string, string>>): void {
  if (areHeaders(headers)) return;
  throw mismatch("openai.headers", "names and values that HTTP allows", headers, "Correct them.");
}

function areHeaders(headers: Readonly<Record<string, string>>): boolean {
  try {
    return new Headers(headers) instanceof Headers;
  } catch {
    return false;
  }
}
