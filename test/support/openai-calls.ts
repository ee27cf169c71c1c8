// Parts for tests of the OpenAI adapter: a model at a test server, and requests to it.

import type { GenerateOptions, Model, ModelReply, ModelRequest } from "../../src/model/model.ts";
import { ModelError } from "../../src/model/model-error.ts";
import { openai, type OpenAiOptions } from "../../src/model/openai/openai-model.ts";
import { OpenAiServer, type ServerReply } from "./openai-server.ts";
import { texts } from "./texts.ts";

export const API_KEY = "sk-test-0123456789";

export function modelAt(server: OpenAiServer, options: OpenAiOptions = {}): Model {
  return openai("test-model", { baseUrl: server.baseUrl, apiKey: API_KEY, ...options });
}

export const QUESTION: ModelRequest = Object.freeze({
  messages: Object.freeze([
    Object.freeze({ role: "user", text: "What is it?", origin: "task" } as const),
  ]),
  tools: Object.freeze([]),
  maxOutputTokens: 100,
});

/** The two ways in which a reply can come. */
export const MODES = ["whole", "streamed"] as const;
export type Mode = (typeof MODES)[number];

/** The reply, and the pieces of text in which it came. */
export async function reply(
  model: Model,
  mode: Mode,
  signal = never(),
): Promise<{ reply: ModelReply; pieces: string[] }> {
  const pieces: string[] = [];
  const options: GenerateOptions =
    mode === "whole" ? { signal } : { signal, onDelta: texts((text) => pieces.push(text)) };
  return { reply: await model.generate(QUESTION, options), pieces };
}

/** The error with which a call fails, as plain values. */
export async function failure(model: Model, mode: Mode): Promise<FailureFacts> {
  const thrown = await rejection(reply(model, mode));
  if (!(thrown instanceof ModelError)) throw new Error("Expected a ModelError.", { cause: thrown });
  const { code, message, isRetryable, retryAfterMs, lostOutputTokens, data } = thrown;
  return { code, message, isRetryable, retryAfterMs, lostOutputTokens, data };
}

export type FailureFacts = Pick<
  ModelError,
  "code" | "message" | "isRetryable" | "retryAfterMs" | "lostOutputTokens" | "data"
>;

/** The failure of a call to a server that gives this answer to its only request. */
export async function failureOn(answer: ServerReply, mode: Mode = "whole"): Promise<FailureFacts> {
  await using server = await OpenAiServer.start(() => answer);
  const facts = await failure(modelAt(server), mode);
  if (server.requests.length !== 1)
    throw new Error(`Expected one request, got ${server.requests.length}.`);
  return facts;
}

/** Returns the rejection of `promise`. */
export async function rejection(promise: Promise<unknown>): Promise<unknown> {
  const outcome = await promise.then(
    () => ({ type: "resolved" }) as const,
    (thrown: unknown) => ({ type: "rejected", thrown }) as const,
  );
  if (outcome.type === "resolved") throw new Error("Expected a rejection, got a value.");
  return outcome.thrown;
}

/** A signal that is never aborted. */
export function never(): AbortSignal {
  return new AbortController().signal;
}
