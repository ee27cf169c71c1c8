// The four interfaces of models over real HTTP: Chat Completions, Responses, Anthropic and Gemini.
// Owns a server that sends the given bytes and then ends, or breaks, the response.

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";

import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogle } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";

import { omitUndefined } from "../../src/kernel/json.ts";
import { aiSdkModel, sameOriginFetch } from "../../src/model/ai-sdk/ai-sdk-model.ts";
import type { Model } from "../../src/model/model.ts";
import { openai } from "../../src/model/openai/openai-model.ts";

/** How a response ends after its last byte. */
export type WireEnd = "closed" | "destroyed" | "reset";

export interface WireAnswer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
  /** Default: closed, as HTTP has it. */
  readonly end?: WireEnd;
}

/** Answers with the entries of a list, the last one for ever. */
export class WireServer implements AsyncDisposable {
  requests = 0;
  /** The body of each request. */
  readonly bodies: string[] = [];
  readonly #answers: readonly WireAnswer[];
  readonly #server;

  private constructor(answers: readonly WireAnswer[]) {
    this.#answers = answers;
    this.#server = createServer((request, response) => void this.#answer(request, response));
  }

  static async start(...answers: readonly WireAnswer[]): Promise<WireServer> {
    const server = new WireServer(answers);
    await new Promise<void>((resolve) => server.#server.listen(0, "127.0.0.1", resolve));
    return server;
  }

  get url(): string {
    const address = this.#server.address();
    if (address === null || typeof address === "string") throw new Error("The server has no port.");
    return `http://127.0.0.1:${address.port}/v1`;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    await new Promise((resolve) => request.on("end", resolve));
    this.bodies.push(Buffer.concat(parts).toString());
    this.requests += 1;
    const answer = this.#answers[Math.min(this.requests, this.#answers.length) - 1];
    if (answer === undefined) throw new Error("Expected an answer.");
    const { status = 200, headers = {}, body, end = "closed" } = answer;
    response.writeHead(status, { "content-type": "text/event-stream", ...headers });
    if (end === "closed") return void response.end(body);
    await new Promise((resolve) => response.write(body, resolve));
    // The client has read the data once the kernel has nothing left to send.
    setImmediate(() => {
      if (end === "reset") response.socket?.resetAndDestroy();
      else response.socket?.destroy();
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }
}

export interface Interface {
  readonly name: string;
  readonly model: (url: string, timeoutMs?: number) => Model;
  /** The events of a reply that says "ok", with 700 input and 2 output tokens. */
  readonly events: readonly string[];
  /**
   * Number of events at the beginning of the stream that report the input and a part of the text.
   */
  readonly begun: number;
  /** The event of an error that may pass, after a beginning. */
  readonly failed: string;
  /** The events of a reply that calls the tool `look`. */
  readonly call: readonly string[];
}

const apiKey = "key-0123456789";

const MESSAGE_START = {
  type: "message_start",
  message: {
    id: "msg",
    type: "message",
    role: "assistant",
    model: "claude-sonnet-5",
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: { input_tokens: 600, cache_read_input_tokens: 100, output_tokens: 1 },
  },
};

const TEXT_ITEM = { type: "message", id: "i", role: "assistant", content: [] };

const CALL_ITEM = {
  type: "function_call",
  id: "i",
  call_id: "t",
  name: "look",
  arguments: '{"at":1}',
  status: "completed",
};

export const INTERFACES: readonly Interface[] = [
  {
    name: "Chat Completions",
    model: (baseUrl, timeoutMs) =>
      openai("m", { baseUrl, apiKey, api: "chat_completions", ...omitUndefined({ timeoutMs }) }),
    events: eventsOf(
      {
        id: "c",
        model: "m",
        choices: [{ index: 0, delta: { content: "ok" } }],
        usage: { prompt_tokens: 700, completion_tokens: 1, total_tokens: 701 },
      },
      { id: "c", model: "m", choices: [{ index: 0, delta: {}, finish_reason: "stop" }] },
      {
        id: "c",
        model: "m",
        choices: [],
        usage: { prompt_tokens: 700, completion_tokens: 2, total_tokens: 702 },
      },
    ),
    begun: 1,
    failed: eventOf({ error: { message: "Busy.", code: 503 } }),
    call: eventsOf(
      {
        id: "c",
        choices: [
          {
            index: 0,
            delta: {
              tool_calls: [
                {
                  index: 0,
                  id: "t",
                  type: "function",
                  function: { name: "look", arguments: '{"at":1}' },
                },
              ],
            },
          },
        ],
      },
      { id: "c", choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] },
    ),
  },
  {
    name: "Responses",
    model: (baseUrl, timeoutMs) =>
      openai("m", { baseUrl, apiKey, api: "responses", ...omitUndefined({ timeoutMs }) }),
    // The package of OpenAI takes only events with all their fields.
    events: eventsOf(
      {
        type: "response.created",
        response: { id: "r", status: "in_progress", created_at: 1, model: "m" },
      },
      { type: "response.output_item.added", output_index: 0, item: TEXT_ITEM },
      { type: "response.output_text.delta", item_id: "i", output_index: 0, delta: "ok" },
      {
        type: "response.output_item.done",
        output_index: 0,
        item: { ...TEXT_ITEM, content: [{ type: "output_text", text: "ok", annotations: [] }] },
      },
      {
        type: "response.completed",
        response: {
          id: "r",
          status: "completed",
          usage: { input_tokens: 700, output_tokens: 2, total_tokens: 702 },
        },
      },
    ),
    begun: 3,
    failed: eventOf({
      type: "response.failed",
      response: {
        id: "r",
        status: "failed",
        error: { code: "server_error", message: "Busy." },
        usage: { input_tokens: 700, output_tokens: 1, total_tokens: 701 },
      },
    }),
    call: eventsOf(
      {
        type: "response.created",
        response: { id: "r", status: "in_progress", created_at: 1, model: "m" },
      },
      {
        type: "response.output_item.added",
        output_index: 0,
        item: { ...CALL_ITEM, arguments: "" },
      },
      { type: "response.output_item.done", output_index: 0, item: CALL_ITEM },
      { type: "response.completed", response: { id: "r", status: "completed" } },
    ),
  },
  {
    name: "Anthropic",
    model: (baseURL, timeoutMs) =>
      aiSdkModel(
        createAnthropic({ apiKey, baseURL, fetch: sameOriginFetch })("claude-sonnet-5"),
        omitUndefined({ timeoutMs }),
      ),
    events: eventsOf(
      MESSAGE_START,
      { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
      { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "ok" } },
      { type: "content_block_stop", index: 0 },
      {
        type: "message_delta",
        delta: { stop_reason: "end_turn", stop_sequence: null },
        usage: { output_tokens: 2 },
      },
      { type: "message_stop" },
    ),
    begun: 3,
    failed: eventOf({
      type: "error",
      error: { type: "overloaded_error", message: "Overloaded" },
    }),
    call: eventsOf(
      MESSAGE_START,
      {
        type: "content_block_start",
        index: 0,
        content_block: { type: "tool_use", id: "t", name: "look", input: {} },
      },
      {
        type: "content_block_delta",
        index: 0,
        delta: { type: "input_json_delta", partial_json: '{"at":1}' },
      },
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: { stop_reason: "tool_use" }, usage: { output_tokens: 9 } },
    ),
  },
  {
    name: "Gemini",
    model: (baseURL, timeoutMs) =>
      aiSdkModel(
        createGoogle({ apiKey, baseURL, fetch: sameOriginFetch })("gemini-3-pro-preview"),
        omitUndefined({ timeoutMs }),
      ),
    events: eventsOf(
      {
        responseId: "g",
        candidates: [{ index: 0, content: { role: "model", parts: [{ text: "o" }] } }],
        usageMetadata: { promptTokenCount: 700, totalTokenCount: 700 },
      },
      {
        responseId: "g",
        candidates: [
          { index: 0, content: { role: "model", parts: [{ text: "k" }] }, finishReason: "STOP" },
        ],
        usageMetadata: { promptTokenCount: 700, candidatesTokenCount: 2, totalTokenCount: 702 },
      },
    ),
    begun: 1,
    failed: eventOf({ error: { code: 503, message: "Overloaded", status: "UNAVAILABLE" } }),
    call: eventsOf({
      responseId: "g",
      candidates: [
        {
          index: 0,
          content: { role: "model", parts: [{ functionCall: { name: "look", args: { at: 1 } } }] },
          finishReason: "STOP",
        },
      ],
      usageMetadata: { promptTokenCount: 700, candidatesTokenCount: 2 },
    }),
  },
];

/** `INTERFACES`, and those of openai() once more through the packages of the AI SDK. */
export const CLIENTS: readonly Interface[] = [
  ...INTERFACES,
  ...INTERFACES.slice(0, 2).map((face) => {
    const name = `${face.name} through the AI SDK`;
    return { ...face, name, model: sdkModelOf(face.name === "Responses" ? "responses" : "chat") };
  }),
];

function sdkModelOf(api: "chat" | "responses"): Interface["model"] {
  return (baseURL, timeoutMs) => {
    const provider = createOpenAI({ apiKey, baseURL, fetch: sameOriginFetch });
    return aiSdkModel(provider[api]("m"), omitUndefined({ timeoutMs }));
  };
}

/** The text of each event, with the blank line that ends it. */
export function eventsOf(...events: readonly object[]): readonly string[] {
  return events.map(eventOf);
}

function eventOf(event: object): string {
  return `data: ${JSON.stringify(event)}\n\n`;
}
