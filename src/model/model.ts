// The port to language models. The loop knows nothing else about a provider.

import type { JsonObject } from "../kernel/json.ts";
import type { AttachmentKind } from "../protocol/attachment.ts";
import type { FinishReason } from "../protocol/finish-reason.ts";
import type { AssistantMessage, Message } from "../protocol/message.ts";
import type { ModelSettings, ToolChoice } from "../protocol/model-settings.ts";
import type { ModelDelta } from "../protocol/stream-part.ts";
import type { ModelLimits } from "./model-limits.ts";
import type { ModelPrice } from "./model-price.ts";
import type { TokenUsage } from "./token-usage.ts";

/**
 * A language model. `openai()` and `aiSdkModel()` create models; `ScriptedModel` is one for tests.
 * Implement the interface for any other provider.
 *
 * @example
 * ```ts
 * const oracle: Model = {
 *   provider: "oracle",
 *   id: "oracle-2",
 *   generate: async ({ messages, maxOutputTokens }, { signal }) => {
 *     const body = JSON.stringify({ messages, maxOutputTokens });
 *     const response = await fetch("https://oracle.example/v1", { method: "POST", body, signal });
 *     const message = buildReplyMessage([{ type: "text", text: await response.text() }]);
 *     return { message, finishReason: "stop" };
 *   },
 * };
 * ```
 */
export interface Model {
  /** Name of the provider, as in `gen_ai.provider.name` of OpenTelemetry, for example `openai`. */
  readonly provider: string;
  /** Name of the model at its provider, for example `gpt-5-mini`. */
  readonly id: string;
  /**
   * Address of the server, for traces: `{ address: "api.openai.com", port: 443 }`. Traces contain
   * no address if it is absent.
   */
  readonly server?:
    | {
        /** Host name. */
        readonly address: string;
        /** TCP port. */
        readonly port?: number;
      }
    | undefined;
  /**
   * Key of the models that can read each other's reasoning and provider data. A model receives the
   * reasoning of replies by models with the same key only.
   *
   * Two deployments of one model need different keys. A model that forwards requests to another
   * model has that model's key.
   *
   * @default `provider/id`
   */
  readonly replayKey?: string;
  /**
   * Kinds of attachments that the model reads, in messages and in tool results. It receives one
   * line of text in place of any other attachment.
   *
   * @default []
   *
   * @example
   * ```ts
   * const llava = openai("llava", {
   *   baseUrl: "http://127.0.0.1:11434/v1",
   *   inputModalities: ["image"],
   * });
   * ```
   */
  readonly inputModalities?: readonly AttachmentKind[];
  /**
   * Lowest cap on output tokens that the server accepts.
   *
   * @default 1
   */
  readonly minOutputTokens?: number | undefined;
  /**
   * Whether the provider can enforce the schema of a typed result (`ModelRequest.output`), also in
   * requests that list tools.
   *
   * @default false
   */
  readonly supportsStructuredOutputs?: boolean;
  /**
   * Whether the provider obeys `toolChoice` in every request. If `false`, requests omit the tools
   * that the model must not call.
   *
   * @default false
   */
  readonly supportsToolChoice?: boolean;
  /** OpenAI interface of the requests, for traces. Traces contain none if it is absent. */
  readonly apiType?: "chat_completions" | "responses" | undefined;
  /**
   * Service tier of the requests, for traces, for example `flex`. Traces contain none if it is
   * absent.
   */
  readonly serviceTier?: string | undefined;
  /**
   * Price of the model. If it is absent, the price comes from `prices` of the orchestrator, or else
   * from the price table of this package.
   *
   * `"unknown"` disables that lookup. An unknown price is not zero: a run with a cost limit refuses
   * to start.
   *
   * @example
   * ```ts
   * const price: ModelPrice = {
   *   inputUsdPerMillion: 3,
   *   cachedInputUsdPerMillion: 0.3,
   *   outputUsdPerMillion: 15,
   * };
   * ```
   */
  readonly price?: ModelPrice | "unknown";
  /**
   * Base URL of the server, for the lookup of the price: `https://api.deepseek.com/v1`. If it is
   * absent, the price is looked up by `provider`.
   */
  readonly baseUrl?: string | undefined;
  /**
   * Rate limits of the provider, created by `modelLimits`. Each attempt waits until the limits
   * allow its request. `undefined` if there are none.
   */
  readonly limits?: ModelLimits | undefined;
  /**
   * Sends one request and returns the reply. Retries are made by the caller: each attempt is one
   * call. Calls may overlap.
   *
   * Must reject with a `ModelError` if it fails, and soon after `options.signal` was aborted. Any
   * other error becomes `model_invalid_reply`, which is neither retried nor passed to a fallback.
   */
  generate(request: ModelRequest, options: GenerateOptions): Promise<ModelReply>;
  /**
   * Counts the input tokens of a request without network access. If it is absent, tokens are
   * estimated from the length of the text.
   */
  countTokens?(request: ModelRequest): number;
  /**
   * Throws an `EspalierError` if requests of this model cannot carry these settings. Called when a
   * role with `modelSettings` is defined.
   */
  checkSettings?(settings: ModelSettings): void;
  /**
   * Throws an `EspalierError` if the model cannot work at all, for example without an API key.
   * Called when a run starts.
   */
  assertReady?(): void;
}

/** Options of a model request, beside the content that the model reads. */
export interface GenerateOptions {
  /** Aborted when the reply is no longer needed. Pass it on to `fetch`. */
  readonly signal: AbortSignal;
  /**
   * Receives each part of the reply as it arrives. An adapter may ignore it; the reply then reaches
   * listeners as a whole.
   *
   * @example
   * ```ts
   * const speak = ({ onDelta }: GenerateOptions) => {
   *   onDelta?.({ type: "text", text: "Hello, " });
   *   onDelta?.({ type: "text", text: "world." });
   * };
   * ```
   */
  readonly onDelta?: (delta: ModelDelta) => void;
  /**
   * Key for the provider's prompt cache. Requests with the same key begin with the same
   * instructions and tools. `undefined` for requests beside the steps of an agent, such as
   * summaries.
   */
  readonly cacheKey?: {
    /**
     * Hash of the instructions and tools, as 12 hexadecimal digits. Equal for all agents with this
     * beginning, in every run.
     */
    readonly role: string;
    /** Number of the agent among the agents of its role in one run, from 1. */
    readonly agent: number;
  };
}

export type CacheKey = NonNullable<GenerateOptions["cacheKey"]>;

/**
 * Content of a model request. The next request of an agent usually repeats it and appends
 * messages, so that prompt caches hit.
 */
export interface ModelRequest {
  /** Conversation in order: system messages first, and one result for each tool call. */
  readonly messages: readonly Message[];
  /** Tools that the model may call. */
  readonly tools: readonly ToolSpec[];
  /** Cap on output tokens. It is at most the output that the budget still allows. */
  readonly maxOutputTokens: number;
  /** Sampling temperature, from 0 to 2. Absent for the provider's default. */
  readonly temperature?: number;
  /**
   * `modelSettings` of the role. An adapter refuses a setting that it cannot send, or reports it in
   * `ModelReply.warnings`.
   */
  readonly settings?: ModelSettings;
  /**
   * Tools that the model may or must call in this step.
   *
   * @default "auto"
   */
  readonly toolChoice?: ToolChoice;
  /**
   * Schema of the reply's text, if the reply calls no tools. Only models with
   * `supportsStructuredOutputs` receive it.
   */
  readonly output?: OutputSchema;
}

/**
 * Schema of a typed result that the provider enforces.
 *
 * @example
 * ```ts
 * const output: OutputSchema = {
 *   name: "price",
 *   schema: {
 *     type: "object",
 *     properties: { euros: { type: "number" } },
 *     required: ["euros"],
 *     additionalProperties: false,
 *   },
 *   strict: true,
 * };
 * ```
 */
export interface OutputSchema {
  /** Name of the schema, as providers require one. */
  readonly name: string;
  /** JSON Schema of an object. It has the strict form of `toStrictSchema()` if `strict` is `true`. */
  readonly schema: JsonObject;
  /** Whether `schema` has the strict form. `false` if there is none for this schema. */
  readonly strict: boolean;
}

/**
 * Tool as the model sees it.
 *
 * @example
 * ```ts
 * const spec: ToolSpec = {
 *   name: "search",
 *   description: "Searches the web.",
 *   inputSchema: { type: "object", properties: { query: { type: "string" } } },
 * };
 * ```
 */
export interface ToolSpec {
  /** Name by which the model calls the tool. */
  readonly name: string;
  /** Description that the model reads. */
  readonly description: string;
  /** JSON Schema of the arguments. */
  readonly inputSchema: JsonObject;
  /**
   * Whether the provider should enforce the schema of the arguments. `toStrictSchema()` returns the
   * form that providers need.
   */
  readonly strictSchema?: boolean;
}

/**
 * Reply of a model to one request.
 *
 * @example
 * ```ts
 * const reply: ModelReply = {
 *   message: buildReplyMessage([{ type: "text", text: "Bonn has 340,000 inhabitants." }]),
 *   finishReason: "stop",
 *   usage: { inputTokens: 210, cachedInputTokens: 0, outputTokens: 9, reasoningTokens: 0 },
 * };
 * ```
 */
export interface ModelReply {
  /**
   * Message of the reply, created with `buildReplyMessage`. Leave out `writtenBy`: it is set when
   * the reply is recorded.
   */
  readonly message: AssistantMessage;
  /** Reason for which the model stopped writing. */
  readonly finishReason: FinishReason;
  /**
   * Finish reason in the provider's own word, for example `eos_token`. Longer texts are cut to 200
   * characters.
   */
  readonly rawFinishReason?: string;
  /** Tokens that the provider reports. If it is absent, the call is charged by estimate. */
  readonly usage?: TokenUsage;
  /** Id of the reply at the provider. */
  readonly responseId?: string;
  /** Name of the model that answered, as the provider reports it. */
  readonly responseModel?: string;
  /**
   * Parts of the request that the provider ignored or changed, in words. Each is an event
   * `model.warned`.
   */
  readonly warnings?: readonly string[];
}
