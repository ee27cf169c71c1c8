// The port to language models. What is in here is all that the loop knows of any provider.

import type { JsonObject } from "../kernel/json.ts";
import type { AttachmentKind } from "../protocol/attachment.ts";
import type { FinishReason } from "../protocol/finish-reason.ts";
import type { AssistantMessage, Message } from "../protocol/message.ts";
import type { ModelSettings, ToolChoice } from "../protocol/model-settings.ts";
import type { ModelDelta } from "../protocol/stream-part.ts";
import type { ModelLimits } from "./model-limits.ts";
import type { ModelPrice } from "./model-price.ts";
import type { TokenUsage } from "./token-usage.ts";

/** A language model. Adapters exist for OpenAI-compatible servers and scripts; write your own for anything else. */
export interface Model {
  /** Who serves it, as in `gen_ai.provider.name`: `openai`. */
  readonly provider: string;
  /** Which model: `gpt-5-mini`. */
  readonly id: string;
  /** Where it is served, for traces: `api.openai.com`, 443. Left out: nothing is said of it. */
  readonly server?:
    | {
        /** The host name. */
        readonly address: string;
        /** The port. */
        readonly port?: number;
      }
    | undefined;
  /**
   * Whose reasoning and provider data this model takes back: that of replies by models with the same key. Default: `provider/id`. Two
   * deployments under one id need keys of their own; a model that hands its requests on to another one has the key of that one.
   */
  readonly replayKey?: string;
  /** What it takes besides text, in messages and in results of tools. All else it reads as a line. Left out: nothing. */
  readonly inputModalities?: readonly AttachmentKind[];
  /** The server takes no lower cap than this. Left out: 1. */
  readonly minOutputTokens?: number | undefined;
  /** It can be held to the schema of a typed result (`ModelRequest.output`), also beside tools. Left out: it cannot. */
  readonly supportsStructuredOutputs?: boolean;
  /** It obeys a `toolChoice` in every request, and keeps the tools listed. Left out: tools that it is not to call are not listed. */
  readonly supportsToolChoice?: boolean;
  /** Over which interface of OpenAI's it is asked, for traces. Left out: nothing is said of it. */
  readonly apiType?: "chat_completions" | "responses" | undefined;
  /** How fast it is asked to be served, for traces. Left out: nothing is said of it. */
  readonly serviceTier?: string | undefined;
  /**
   * What it costs. Left out: what the `prices` of the orchestrator or our own table have for it, else unknown, which is never zero; a cost
   * limit over it is refused at the start. `"unknown"`: nothing is looked up.
   */
  readonly price?: ModelPrice | "unknown";
  /** Where it is asked, if its price is looked up by that: `https://api.deepseek.com/v1`. Left out: by `provider`. */
  readonly baseUrl?: string | undefined;
  /** What its provider takes of all that share them; each attempt waits for its turn before it is made. Left out: all of it. */
  readonly limits?: ModelLimits | undefined;
  /**
   * One reply to one request. Called once per attempt, may run in parallel with itself.
   * Must reject with a `ModelError` when it fails, and soon after `options.signal` was aborted.
   */
  generate(request: ModelRequest, options: GenerateOptions): Promise<ModelReply>;
  /** Counts the input tokens of a request, without the network. Left out: an estimate from the length of the text. */
  countTokens?(request: ModelRequest): number;
  /** Throws a coded error if its requests cannot carry these settings. Called when a role is defined that has them. */
  checkSettings?(settings: ModelSettings): void;
  /** Throws a coded error if the model cannot work at all, as without a key. Called at the start of a run. */
  assertReady?(): void;
}

/** What goes with a request besides what the model is shown. */
export interface GenerateOptions {
  /** Aborted when the reply is not needed any more. */
  readonly signal: AbortSignal;
  /** Called with each piece of the reply as it arrives. Left out: the adapter need not stream. */
  readonly onDelta?: (delta: ModelDelta) => void;
  /** Whose requests begin alike: providers with a cache by key find it again by this. No agent is named in it. Left out: none of them. */
  readonly cacheKey?: {
    /** The same for all agents with these instructions and tools, in every run: 12 hexadecimal digits. */
    readonly role: string;
    /** Distinguishes the agents of a role in one run, from 1. */
    readonly agent: number;
  };
}

export type CacheKey = NonNullable<GenerateOptions["cacheKey"]>;

/** What a model is asked. Lists are append-only from step to step, so that prompt caches hit. */
export interface ModelRequest {
  readonly messages: readonly Message[];
  readonly tools: readonly ToolSpec[];
  /** The model must not write more; clamped to what the budget has left. */
  readonly maxOutputTokens: number;
  /** From 0 to 2. */
  readonly temperature?: number;
  /** How it is to answer, as its role says. What the model cannot do it refuses, or says in `ModelReply.warnings`. */
  readonly settings?: ModelSettings;
  /** Which tools it may call in this step. Left out: `auto`. */
  readonly toolChoice?: ToolChoice;
  /** What its text must be, where it calls no tools. Only for models that are `native`. */
  readonly output?: OutputSchema;
}

/** A typed result that the provider is asked to hold the model to. */
export interface OutputSchema {
  /** As providers want one. */
  readonly name: string;
  /** JSON Schema of an object, in strict form (`strictSchema`) if `strict`. */
  readonly schema: JsonObject;
  /** False: the schema has no strict form. */
  readonly strict: boolean;
}

/** A tool as the model sees it. */
export interface ToolSpec {
  /** What the model calls it by. */
  readonly name: string;
  /** What the model reads about it. */
  readonly description: string;
  /** JSON Schema of the arguments. */
  readonly inputSchema: JsonObject;
  /** The provider is asked to hold the model to the schema, which has a strict form (`strictSchema`). */
  readonly strictSchema?: boolean;
}

/** What a model answered. */
export interface ModelReply {
  /** As `buildReplyMessage` makes it of pieces; `writtenBy` is left to the loop. */
  readonly message: AssistantMessage;
  readonly finishReason: FinishReason;
  /** The provider's own text, for example `eos_token`, where ours says less: 200 characters at most. */
  readonly rawFinishReason?: string;
  /** Left out when the provider reports none: the call is then charged by estimate. */
  readonly usage?: TokenUsage;
  /** The id that the provider gave the reply. */
  readonly responseId?: string;
  /** The model that in fact answered. */
  readonly responseModel?: string;
  /** What of the request the provider left out or changed, in its words. */
  readonly warnings?: readonly string[];
}
