// The port to language models. What is in here is all that the loop knows of any provider.

import { z } from "zod";

import type { JsonObject } from "../kernel/json.ts";
import type { AssistantMessage, Message } from "../protocol/message.ts";
import type { ModelPrice } from "./model-price.ts";
import type { TokenUsage } from "./token-usage.ts";

/** A language model. Adapters exist for OpenAI-compatible servers and scripts; write your own for anything else. */
export interface Model {
  /** Who serves it, as in `gen_ai.provider.name`: `openai`. */
  readonly provider: string;
  /** Which model: `gpt-5-mini`. */
  readonly id: string;
  /** Where it is served, for traces: `api.openai.com`, 443. Left out: nothing is said of it. */
  readonly server?: ModelServer | undefined;
  /** What it costs. Left out: unknown, which is never zero; a cost limit over it is refused at the start (R57). */
  readonly price?: ModelPrice;
  /**
   * One reply to one request. Called once per attempt, may run in parallel with itself.
   * Must reject with a `ModelError` when it fails, and soon after `options.signal` was aborted.
   */
  generate(request: ModelRequest, options: GenerateOptions): Promise<ModelReply>;
  /** Counts the input tokens of a request, without the network. Left out: an estimate from the length of the text. */
  countTokens?(request: ModelRequest): number;
  /** Throws a coded error if the model cannot work at all, as without a key. Called at the start of a run. */
  assertReady?(): void;
}

/** The host that serves a model. */
export interface ModelServer {
  readonly address: string;
  readonly port?: number;
}

/** What goes with a request besides what the model is shown. */
export interface GenerateOptions {
  readonly signal: AbortSignal;
  /** Called with each piece of text as it arrives. Left out: the adapter need not stream. */
  readonly onText?: (piece: string) => void;
}

/** What a model is asked. Lists are append-only from step to step, so that prompt caches hit. */
export interface ModelRequest {
  readonly messages: readonly Message[];
  readonly tools: readonly ToolSpec[];
  /** The model must not write more; clamped to what the budget has left. */
  readonly maxOutputTokens: number;
  /** From 0 to 2. */
  readonly temperature?: number;
}

/** A tool as the model sees it. */
export interface ToolSpec {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of the arguments. */
  readonly inputSchema: JsonObject;
}

export const FinishReasonSchema = z.enum([
  "stop",
  "tool_calls",
  "length",
  "content_filter",
  "error",
  "other",
  "unknown",
]);
/** Why the model stopped writing, in one vocabulary for all providers. */
export type FinishReason = z.infer<typeof FinishReasonSchema>;

/** What a model answered. */
export interface ModelReply {
  readonly message: AssistantMessage;
  readonly finishReason: FinishReason;
  /** Left out when the provider reports none: the call is then charged by estimate. */
  readonly usage?: TokenUsage;
  readonly responseId?: string;
  /** The model that in fact answered. */
  readonly responseModel?: string;
}
