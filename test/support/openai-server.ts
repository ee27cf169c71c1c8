// OpenAiServer: an HTTP server that speaks the Chat Completions wire format, for tests of the real
// client. Owns the port, the connections and the record of every request. The handler of the test
// decides each response. The server never waits for time: a late response waits for a promise of
// the test.

import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";

import { z } from "zod";

import { wireProblems } from "./wire-messages.ts";

/** A request as it arrived. */
export interface WireRequest {
  /** `/v1/chat/completions` */
  readonly path: string;
  /** Tells connections apart. */
  readonly clientPort: number | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly bodyText: string;
  readonly body: Readonly<Record<string, unknown>>;
  /**
   * `closed early`: the client, or a fault of the script, closed the socket before the reply had
   * been sent.
   */
  readonly ended: Promise<"replied" | "closed early">;
}

export interface WireCall {
  /** Left out: the server sends none, as some do. */
  readonly id?: string;
  readonly name: string;
  readonly arguments: string;
}

/** A reply of the model, sent whole or as a stream, as the request wants it. */
export interface Says {
  readonly type: "says";
  readonly text?: string;
  readonly refusal?: string;
  readonly toolCalls?: readonly WireCall[];
  /** Default: `tool_calls` if there are any, else `stop`. Null: the reply ends without one. */
  readonly finishReason?: string | null;
  /**
   * Default: 10 input and 5 output tokens. Streams contain a usage only if the request asks for it,
   * as at OpenAI.
   */
  readonly usage?: Readonly<Record<string, unknown>> | "none";
  /**
   * Interrupts the reply after this number of chunks. A whole reply is interrupted in the middle of
   * its body.
   */
  readonly interrupted?: Interruption;
}

export type Interruption =
  /** The socket is destroyed. */
  | { readonly type: "cut"; readonly afterChunks: number }
  /** The response ends as if it were complete. */
  | { readonly type: "end"; readonly afterChunks: number }
  /** Nothing more comes until the promise resolves. */
  | { readonly type: "pause"; readonly afterChunks: number; readonly until: Promise<void> };

export type WireHeaders = Readonly<Record<string, string | string[]>>;

export type ServerReply =
  | Says
  /** A failure: status, headers and a JSON body; by default an error object of OpenAI's form. */
  | {
      readonly type: "status";
      readonly status: number;
      readonly headers?: WireHeaders;
      readonly body?: unknown;
    }
  /** Anything else: bytes as given, with status 200 if nothing else is said. */
  | {
      readonly type: "raw";
      readonly body: string | Uint8Array;
      readonly contentType?: string;
      readonly encoding?: string;
      readonly status?: number;
    }
  /** Bytes that are sent as fast as the client reads them. The default status is 200. */
  | {
      readonly type: "pours";
      readonly pieces: Iterable<string | Uint8Array> | AsyncIterable<string | Uint8Array>;
      readonly contentType?: string;
      readonly encoding?: string;
      readonly status?: number;
    }
  /** A stream of events with this data; values are written as JSON. */
  | { readonly type: "events"; readonly data: readonly unknown[] };

/**
 * Decides the response to request number `count`, from 1. While it waits, the client waits for the
 * head of the response.
 */
export type Handler = (request: WireRequest, count: number) => ServerReply | Promise<ServerReply>;

export class OpenAiServer implements AsyncDisposable {
  /** All requests so far, in order of arrival. */
  readonly requests: readonly WireRequest[];
  /** For the option `baseUrl`. */
  readonly baseUrl: string;
  readonly #server: Server;

  private constructor(server: Server, requests: readonly WireRequest[]) {
    const address = server.address();
    if (address === null || typeof address === "string") throw new Error("The server has no port.");
    this.baseUrl = `http://127.0.0.1:${address.port}/v1`;
    this.requests = requests;
    this.#server = server;
  }

  /**
   * `takesAnyMessages`: accept message lists that a provider would refuse, for tests of the adapter
   * alone.
   */
  static async start(
    handler: Handler,
    options: { readonly takesAnyMessages?: boolean } = {},
  ): Promise<OpenAiServer> {
    const requests: WireRequest[] = [];
    const server = createServer((incoming, response) => {
      void receive(incoming, response).then(async (request) => {
        requests.push(request);
        const problems = options.takesAnyMessages === true ? [] : wireProblems(request.body);
        const decide = (): ReturnType<Handler> =>
          problems.length > 0 ? invalid(problems) : handler(request, requests.length);
        await answer(request, response, decide);
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new OpenAiServer(server, requests);
  }

  /** The request with this number, from 1, which must have arrived. */
  request(number: number): WireRequest {
    const request = this.requests[number - 1];
    if (request === undefined)
      throw new Error(`Expected request ${number}, got ${this.requests.length} requests.`);
    return request;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }
}

/** A reply of text. */
export function says(text: string, more: Partial<Says> = {}): Says {
  return { type: "says", text, ...more };
}

/** A reply that asks for tools: `calls(["add", { a: 1 }], …)`, with the ids `call_1`, `call_2`, … */
export function calls(...wanted: readonly (readonly [name: string, args: unknown])[]): Says {
  const toolCalls = wanted.map(([name, args], index) => ({
    id: `call_${index + 1}`,
    name,
    arguments: typeof args === "string" ? args : JSON.stringify(args),
  }));
  return { type: "says", toolCalls };
}

/** A failure with this status. */
export function status(code: number, headers: WireHeaders = {}): ServerReply {
  return { type: "status", status: code, headers };
}

/** The error of a provider for a message list that it refuses. */
function invalid(problems: readonly string[]): ServerReply {
  const error = {
    message: problems.join("; "),
    type: "invalid_request_error",
    param: "messages",
    code: null,
  };
  return { type: "status", status: 400, body: { error } };
}

const BodySchema = z.record(z.string(), z.unknown());

const RESPONSE_ID = "chatcmpl-1";
const RESPONSE_MODEL = "test-model-2026";
const USAGE = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
const PIECE_LENGTH = 4;

async function receive(incoming: IncomingMessage, response: ServerResponse): Promise<WireRequest> {
  const ended = new Promise<"replied" | "closed early">((resolve) => {
    response.on("close", () => resolve(response.writableFinished ? "replied" : "closed early"));
  });
  let bodyText = "";
  incoming.setEncoding("utf8");
  for await (const piece of incoming) bodyText += String(piece);
  const { url = "", headers } = incoming;
  const clientPort = incoming.socket.remotePort;
  return {
    path: url,
    clientPort,
    headers,
    bodyText,
    body: BodySchema.parse(JSON.parse(bodyText)),
    ended,
  };
}

async function answer(
  request: WireRequest,
  response: ServerResponse,
  decide: () => ServerReply | Promise<ServerReply>,
): Promise<void> {
  const reply = await decide();
  if (response.destroyed) return;
  switch (reply.type) {
    case "says":
      return request.body["stream"] === true
        ? await sendChunks(request, response, reply)
        : await sendWhole(response, reply);
    case "status": {
      const { status: code, headers, body } = reply;
      const error = {
        message: `Failed with ${code}.`,
        type: "test_error",
        param: null,
        code: null,
      };
      response.writeHead(code, {
        "content-type": "application/json",
        "x-request-id": "req_1",
        ...headers,
      });
      response.end(typeof body === "string" ? body : JSON.stringify(body ?? { error }));
      return;
    }
    case "raw": {
      const { body, contentType = "application/json", encoding, status: code = 200 } = reply;
      response.writeHead(code, headersOf(contentType, encoding));
      response.end(body);
      return;
    }
    case "pours": {
      const { pieces, contentType = "text/event-stream", encoding, status: code = 200 } = reply;
      response.writeHead(code, headersOf(contentType, encoding));
      await pipeline(Readable.from(pieces), response).catch(() => undefined);
      return;
    }
    case "events":
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.end(reply.data.map(eventOf).join(""));
      return;
  }
}

function headersOf(contentType: string, encoding: string | undefined): WireHeaders {
  const type = { "content-type": contentType };
  return encoding === undefined ? type : { ...type, "content-encoding": encoding };
}

async function sendWhole(response: ServerResponse, reply: Says): Promise<void> {
  const { text, refusal, toolCalls = [], usage = USAGE, interrupted } = reply;
  const message = {
    role: "assistant",
    content: text ?? null,
    refusal: refusal ?? null,
    ...(toolCalls.length === 0 ? {} : { tool_calls: toolCalls.map(wireCall) }),
  };
  const body = JSON.stringify({
    id: RESPONSE_ID,
    object: "chat.completion",
    created: 1_790_000_000,
    model: RESPONSE_MODEL,
    choices: [{ index: 0, message, logprobs: null, finish_reason: finishReasonOf(reply) }],
    ...(usage === "none" ? {} : { usage }),
  });
  response.writeHead(200, { "content-type": "application/json" });
  const middle = interrupted === undefined ? body.length : body.length / 2;
  await sendInterrupted(
    response,
    [body.slice(0, middle), body.slice(middle)],
    interrupted && { ...interrupted, afterChunks: 1 },
  );
}

async function sendChunks(
  request: WireRequest,
  response: ServerResponse,
  reply: Says,
): Promise<void> {
  const { text, refusal, toolCalls = [], usage = USAGE, interrupted } = reply;
  const deltas = [
    { role: "assistant", content: text === undefined ? null : "", refusal: null },
    ...piecesOf(text ?? "").map((content) => ({ content })),
    ...piecesOf(refusal ?? "").map((piece) => ({ refusal: piece })),
    ...toolCalls.flatMap(callDeltas),
  ];
  const chunks = deltas.map((delta) =>
    chunkOf([{ index: 0, delta, logprobs: null, finish_reason: null }], null),
  );
  const finishReason = finishReasonOf(reply);
  if (finishReason !== null)
    chunks.push(
      chunkOf([{ index: 0, delta: {}, logprobs: null, finish_reason: finishReason }], null),
    );
  const options = request.body["stream_options"];
  if (usage !== "none" && JSON.stringify(options)?.includes('"include_usage":true'))
    chunks.push(chunkOf([], usage));
  response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
  await sendInterrupted(response, [...chunks, "[DONE]"].map(eventOf), interrupted);
}

async function sendInterrupted(
  response: ServerResponse,
  pieces: readonly string[],
  interruption: Interruption | undefined,
): Promise<void> {
  if (interruption === undefined) {
    response.end(pieces.join(""));
    return;
  }
  const before = pieces.slice(0, interruption.afterChunks).join("");
  const after = pieces.slice(interruption.afterChunks).join("");
  response.flushHeaders();
  await new Promise<void>((resolve) => response.write(before, () => resolve()));
  switch (interruption.type) {
    case "cut":
      response.destroy();
      return;
    case "end":
      response.end();
      return;
    case "pause":
      await interruption.until;
      if (!response.destroyed) response.end(after);
      return;
  }
}

function finishReasonOf({ finishReason, toolCalls = [] }: Says): string | null {
  return finishReason === undefined
    ? toolCalls.length === 0
      ? "stop"
      : "tool_calls"
    : finishReason;
}

function wireCall({ id, name, arguments: args }: WireCall): object {
  return {
    ...(id === undefined ? {} : { id }),
    type: "function",
    function: { name, arguments: args },
  };
}

/** A call as OpenAI streams it: id and name first, then the arguments bit by bit. */
function callDeltas({ id, name, arguments: args }: WireCall, index: number): readonly object[] {
  const opening = {
    index,
    ...(id === undefined ? {} : { id }),
    type: "function",
    function: { name, arguments: "" },
  };
  const rest = piecesOf(args).map((piece) => ({ index, function: { arguments: piece } }));
  return [opening, ...rest].map((call) => ({ tool_calls: [call] }));
}

function chunkOf(choices: readonly object[], usage: object | null): object {
  const head = {
    id: RESPONSE_ID,
    object: "chat.completion.chunk",
    created: 1_790_000_000,
    model: RESPONSE_MODEL,
  };
  return { ...head, choices, usage };
}

function eventOf(data: unknown): string {
  return `data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`;
}

function piecesOf(text: string): readonly string[] {
  const count = Math.ceil(text.length / PIECE_LENGTH);
  return Array.from({ length: count }, (_unused, index) =>
    text.slice(index * PIECE_LENGTH, (index + 1) * PIECE_LENGTH),
  );
}
