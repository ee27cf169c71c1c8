// What the connection needs to know of an interface of OpenAI: how a request is written, and how a reply is read.

import type { ModelError } from "../model-error.ts";
import type { CacheKey, ModelReply, ModelRequest } from "../model.ts";
import type { ModelDelta } from "../../protocol/stream-piece.ts";
import type { ReplyLimits } from "../reply-limits.ts";
import type { ReportedInput } from "../token-usage.ts";

/** The interfaces that `openai()` speaks. */
export type OpenAiApi = "responses" | "chat";

/** A request, with whose cache it may use. */
export interface WireRequest extends ModelRequest {
  readonly cacheKey?: CacheKey | undefined;
}

export interface WireApi {
  readonly name: OpenAiApi;
  /** Behind the base URL. */
  readonly path: string;
  /** The body of a request. */
  write(request: WireRequest, isStreaming: boolean): Buffer;
  /** Reads a reply that came in one piece. Throws a `ModelError` if it is none. */
  read(body: string, limits: ReplyLimits): ModelReply;
  /** Reads a reply that comes in pieces. */
  stream(limits: ReplyLimits, onDelta: (delta: ModelDelta) => void): ReplyStream;
  /** The reply that is in the body of a refusal, if it is about a reply that the server would not take. */
  rescue?(body: unknown, limits: ReplyLimits): ModelReply | undefined;
  /**
   * What is left out of requests from now on, so that the server may take one that it has refused: if that one is written otherwise now.
   * Another call may have learnt of it meanwhile.
   */
  relent?(request: ModelRequest, refusal: ModelError): Relented | undefined;
}

/** What is left out of requests, in words for a warning. Undefined: nothing that matters. */
export interface Relented {
  readonly warning: string | undefined;
}

/** One reply, put together from the events of a stream. */
export interface ReplyStream {
  /** Nothing that may still come can change what the model said. */
  readonly isComplete: boolean;
  /** It is complete, and nothing that may still come is worth waiting for. */
  readonly isOver: boolean;
  /** It was cut at twice its cap: the server is not to send any more. */
  readonly isCut: boolean;
  /** What is paid for and gone if the stream breaks here, by estimate; undefined as long as the model has not begun. */
  readonly lostOutputTokens: number | undefined;
  /** The input that the server has reported so far; `undefined` if it has reported none. */
  readonly lostInput: ReportedInput | undefined;
  /** Takes the data of one event. Throws a `ModelError` if it cannot be used, or reports an error. */
  take(data: string): void;
  /** The whole reply, after the last event. Throws a `ModelError` if there is none. */
  finish(): ModelReply;
}
