// A model of the AI SDK with scripted streams, and requests to it.

import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4StreamPart,
  LanguageModelV4StreamResult,
  LanguageModelV4Usage,
} from "@ai-sdk/provider";

import { checkReply } from "../../../src/model/check-reply.ts";
import type { GenerateOptions, Model, ModelReply, ModelRequest } from "../../../src/model/model.ts";
import type { AssistantMessage } from "../../../src/protocol/message.ts";
import { never, QUESTION } from "../openai-calls.ts";

export type Part = LanguageModelV4StreamPart;
export type Opening = LanguageModelV4StreamResult;

export interface FakeModel extends LanguageModelV4 {
  readonly asked: readonly LanguageModelV4CallOptions[];
}

type Answer = (options: LanguageModelV4CallOptions) => Opening | Promise<Opening>;

/** Creates a model that answers each call with `answer`, in the name of `provider`. */
export function fakeModel(answer: Answer, provider = "fake.chat"): FakeModel {
  const asked: LanguageModelV4CallOptions[] = [];
  return {
    specificationVersion: "v4",
    provider,
    modelId: "some-model",
    supportedUrls: {},
    asked,
    doGenerate: () => Promise.reject(new Error("Expected a stream to be asked for.")),
    doStream: async (options) => {
      asked.push(options);
      return await answer(options);
    },
  };
}

/** Creates a model that streams these parts. */
export function saying(parts: readonly Part[], provider?: string): FakeModel {
  return fakeModel(() => ({ stream: streamOf(parts) }), provider);
}

export function streamOf(parts: readonly Part[]): ReadableStream<Part> {
  return ReadableStream.from(parts);
}

const USAGE: LanguageModelV4Usage = {
  inputTokens: { total: 100, noCache: 30, cacheRead: 60, cacheWrite: 10 },
  outputTokens: { total: 20, text: 12, reasoning: 8 },
};

export const NO_USAGE: LanguageModelV4Usage = {
  inputTokens: {
    total: undefined,
    noCache: undefined,
    cacheRead: undefined,
    cacheWrite: undefined,
  },
  outputTokens: { total: undefined, text: undefined, reasoning: undefined },
};

export function finish(
  unified:
    | "stop"
    | "length"
    | "content-filter"
    | "tool-calls"
    | "error"
    | "interrupted"
    | "other" = "stop",
  raw: string | null = unified,
  usage = USAGE,
): Part {
  return { type: "finish", finishReason: { unified, raw: raw ?? undefined }, usage };
}

export function text(delta: string, id = "t"): readonly Part[] {
  return [
    { type: "text-start", id },
    { type: "text-delta", id, delta },
    { type: "text-end", id },
  ];
}

export async function ask(
  model: Model,
  request: Partial<ModelRequest> = {},
  signal = never(),
  more: Partial<GenerateOptions> = {},
): Promise<ModelReply> {
  return await model.generate({ ...QUESTION, ...request }, { signal, ...more });
}

/**
 * Returns the request that continues after a reply, stamped as by the agent loop, with a result for
 * each of its calls.
 */
export function after(
  model: Model,
  reply: ModelReply,
  request: ModelRequest = QUESTION,
): ModelRequest {
  const { message } = checkReply(model, reply, { inputTokens: 10_000, maxOutputTokens: 10_000 });
  return { ...request, messages: [...request.messages, message, ...includeResultsFrom(message)] };
}

function includeResultsFrom({ toolCalls }: AssistantMessage): ModelRequest["messages"] {
  return toolCalls.map(({ callId, toolName }) => ({
    role: "tool",
    callId,
    toolName,
    text: "It is sunny.",
  }));
}
