// The providers of the AI SDK, each with a network that answers from a script and records its
// requests.

import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogle } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import type { LanguageModelV4 } from "@ai-sdk/provider";
import { createOpenRouter } from "@openrouter/ai-sdk-provider";
import { createOllama } from "ollama-ai-provider-v2";

import { isRecord } from "../../../src/kernel/json.ts";

type Fetch = typeof globalThis.fetch;

const apiKey = "key-0123456789";

/** A model of each provider, over a scripted network. */
export const PROVIDERS = {
  anthropic: (fetch: Fetch, id = "claude-sonnet-5") => createAnthropic({ apiKey, fetch })(id),
  google: (fetch: Fetch, id = "gemini-3-pro-preview") => createGoogle({ apiKey, fetch })(id),
  openai: (fetch: Fetch, id = "gpt-5.6") => createOpenAI({ apiKey, fetch })(id),
  chat: (fetch: Fetch, id = "gpt-5.6") => createOpenAI({ apiKey, fetch }).chat(id),
  compatible: (fetch: Fetch, id = "deepseek-v4") =>
    createOpenAICompatible({
      name: "deepseek",
      baseURL: "https://api.example.com/v1",
      apiKey,
      fetch,
    })(id),
  openrouter: (fetch: Fetch, id = "anthropic/claude-sonnet-5") =>
    createOpenRouter({ apiKey, fetch })(id),
  ollama: (fetch: Fetch, id = "qwen3:8b") => createOllama({ fetch })(id),
} as const satisfies Readonly<Record<string, (fetch: Fetch, id?: string) => LanguageModelV4>>;
export type ProviderName = keyof typeof PROVIDERS;

export const PROVIDER_NAMES: readonly ProviderName[] = [
  "anthropic",
  "google",
  "openai",
  "chat",
  "compatible",
  "openrouter",
  "ollama",
];

export type Body = Readonly<Record<string, unknown>>;

/** A network that returns the answers of the list in order, the last one forever. */
export class FakeNetwork {
  readonly bodies: Body[] = [];
  readonly #answers: readonly (() => Response)[];

  constructor(...answers: readonly (() => Response)[]) {
    this.#answers = answers;
  }

  readonly fetch: Fetch = (_url, init) => {
    init?.signal?.throwIfAborted();
    const text = init?.body;
    const body: unknown = typeof text === "string" ? JSON.parse(text) : undefined;
    if (!isRecord(body)) throw new Error("Expected a JSON object as a body.");
    this.bodies.push(body);
    const answer = this.#answers[Math.min(this.bodies.length, this.#answers.length) - 1];
    if (answer === undefined) throw new Error("Expected no request.");
    return Promise.resolve(answer());
  };

  /** The last body that was sent, as text. */
  get lastText(): string {
    return JSON.stringify(this.bodies.at(-1));
  }
}

/** Returns a stream of events, in these chunks. */
export function streaming(...pieces: readonly (string | Uint8Array)[]): () => Response {
  const encoder = new TextEncoder();
  const bytes = pieces.map((piece) => (typeof piece === "string" ? encoder.encode(piece) : piece));
  const headers = { "content-type": "text/event-stream" };
  return () => new Response(ReadableStream.from(bytes), { headers });
}

export function failing(
  status: number,
  body: string,
  headers: Record<string, string> = {},
): () => Response {
  const all = { "content-type": "application/json", ...headers };
  return () => new Response(body, { status, headers: all });
}

/** A complete answer of Anthropic with the text "ok". */
export const ANTHROPIC_OK = [
  {
    type: "message_start",
    message: {
      id: "msg_ok",
      type: "message",
      role: "assistant",
      model: "claude-sonnet-5-20260901",
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: { input_tokens: 500, output_tokens: 1 },
    },
  },
  { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
  { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "ok" } },
  { type: "content_block_stop", index: 0 },
  {
    type: "message_delta",
    delta: { stop_reason: "end_turn", stop_sequence: null },
    usage: { output_tokens: 2 },
  },
  { type: "message_stop" },
]
  .map((event) => `data: ${JSON.stringify(event)}\n\n`)
  .join("");
