// Goal: a stream that is cut at any byte results in the whole reply or in a retryable failure. An
// error after a complete reply is ignored.
// Method: an HTTP server sends the first bytes of a stream, then ends or destroys the connection.

import { describe, expect } from "vitest";
import { createServer } from "node:http";

import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogle } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import type { LanguageModelV4 } from "@ai-sdk/provider";
import { createOpenRouter } from "@openrouter/ai-sdk-provider";

import { aiSdkModel, sameOriginFetch } from "../../../src/model/ai-sdk/ai-sdk-model.ts";
import type { Model } from "../../../src/model/model.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import { proves } from "../../harness/proves.ts";
import { INTERFACES } from "../../support/four-interfaces.ts";
import { never, QUESTION } from "../../support/openai-calls.ts";

/** Sends the first bytes of a text. The request path contains their number and the kind of end. */
class CuttingServer implements AsyncDisposable {
  readonly #server;

  private constructor(body: Buffer) {
    this.#server = createServer((request, response) => {
      const [, bytes = "", end] = /^\/(\d+)\/(closed|destroyed)\//.exec(request.url ?? "") ?? [];
      request.resume().on("end", () => {
        response.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
        const sent = body.subarray(0, Number(bytes));
        if (end === "closed") return void response.end(sent);
        response.write(sent.length === 0 ? "" : sent, () =>
          setImmediate(() => response.socket?.destroy()),
        );
        return undefined;
      });
    });
  }

  static async start(body: Buffer): Promise<CuttingServer> {
    const server = new CuttingServer(body);
    await new Promise<void>((resolve) => server.#server.listen(0, "127.0.0.1", resolve));
    return server;
  }

  /** Returns the base URL of a stream that is cut after this many bytes. */
  urlOf(bytes: number, end: "closed" | "destroyed"): string {
    const address = this.#server.address();
    if (address === null || typeof address === "string") throw new Error("The server has no port.");
    return `http://127.0.0.1:${address.port}/${bytes}/${end}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }
}

type Fetch = typeof globalThis.fetch;

const apiKey = "key-0123456789";
const SDK: Readonly<Record<string, (baseURL: string, fetch: Fetch) => LanguageModelV4>> = {
  "Chat Completions": (baseURL, fetch) =>
    createOpenAICompatible({ name: "local", apiKey, baseURL, fetch })("m"),
  Responses: (baseURL, fetch) => createOpenAI({ apiKey, baseURL, fetch }).responses("m"),
  Anthropic: (baseURL, fetch) => createAnthropic({ apiKey, baseURL, fetch })("claude-sonnet-5"),
  Gemini: (baseURL, fetch) => createGoogle({ apiKey, baseURL, fetch })("gemini-3-pro-preview"),
};

interface Way {
  readonly name: string;
  readonly model: (url: string) => Model;
  /** True if an event counts once its data is complete, without the blank line after it. */
  readonly readsLastEvent: boolean;
}

/** Returns the ways to read a stream of an interface. */
function waysOf(name: string): readonly Way[] {
  const sdk = SDK[name];
  const own = INTERFACES.find((one) => one.name === name)?.model;
  if (sdk === undefined || own === undefined) throw new Error("Expected a known interface.");
  const isOwn = name === "Chat Completions" || name === "Responses";
  const openRouter = (baseURL: string, fetch: Fetch): LanguageModelV4 =>
    createOpenRouter({ apiKey, baseURL, fetch })("m");
  return [
    ...(name === "Chat Completions"
      ? [
          {
            name: "the package of OpenRouter",
            model: (url: string) => aiSdkModel(openRouter(url, sameOriginFetch)),
            readsLastEvent: true,
          },
        ]
      : []),
    ...(isOwn ? [{ name: "openai()", model: own, readsLastEvent: true }] : []),
    {
      name: "the AI SDK with sameOriginFetch",
      model: (url) => aiSdkModel(sdk(url, sameOriginFetch)),
      readsLastEvent: true,
    },
    {
      name: "the AI SDK alone",
      model: (url) => aiSdkModel(sdk(url, globalThis.fetch)),
      readsLastEvent: false,
    },
  ];
}

const END =
  /"(finish_reason|stop_reason|finishReason)":"(stop|end_turn|STOP|tool_calls|tool_use)"|"response.completed"/;
const INPUT = /"(prompt_tokens|input_tokens|promptTokenCount)":\d/;
const OUTPUT = /"(?:completion_tokens|output_tokens|candidatesTokenCount)":(\d+)/g;

interface Outcome {
  /** The text and the calls of the reply, or the code of the error. */
  readonly got: string;
  readonly isRetryable?: boolean;
  readonly input: number | undefined;
  readonly output?: number | undefined;
}

/** Returns the outcome of a stream that was cut to this text. */
function expectedOf(text: string, readsLastEvent: boolean, whole: string): Outcome {
  const blocks = text.split("\n\n");
  const last = blocks.pop() ?? "";
  const [, data = ""] = /^data: (.*)$/m.exec(last) ?? [];
  const read = [...blocks, ...(readsLastEvent && isJson(data) ? [data] : [])].join("\n");
  const input = INPUT.test(read) ? 700 : undefined;
  if (!END.test(read)) return { got: "model_unavailable", isRetryable: true, input };
  const output = [...read.matchAll(OUTPUT)].at(-1)?.[1];
  return { got: whole, input, output: output === undefined ? undefined : Number(output) };
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

async function outcomeOf(model: Model): Promise<Outcome> {
  try {
    const options = { signal: never(), onDelta: () => undefined };
    const { message, usage } = await model.generate(QUESTION, options);
    const calls = message.toolCalls.map((call) => `${call.toolName} ${call.argumentsText}`);
    const got = [message.text, ...calls].join("");
    return { got, input: usage?.inputTokens, output: usage?.outputTokens };
  } catch (thrown) {
    if (!(thrown instanceof ModelError)) throw thrown;
    const { code, isRetryable, lostInput } = thrown;
    return { got: code, isRetryable, input: lostInput?.inputTokens };
  }
}

/** Returns the stream as real servers send it, with event names and an end mark. */
function streamOf(name: string, events: readonly string[]): string {
  if (name === "Gemini") return events.join("");
  if (name === "Chat Completions") return `${events.join("")}data: [DONE]\n\n`;
  const named = events.map((event) => {
    const [, type = ""] = /"type":"([\w.]+)"/.exec(event) ?? [];
    return `event: ${type}\n${event}`;
  });
  return named.join("");
}

const AT_ONCE = 16;

/** A completed response can no longer fail, but its server can still report an error. */
const RESPONSES_ERROR =
  'data: {"type":"error","sequence_number":9,"code":"server_error","message":"Busy."}\n\n';

describe.each(INTERFACES)("an error of $name", ({ name, events, failed }) => {
  const stream = events.join("");
  for (const { name: way, model } of waysOf(name))
    proves(["D607"], `is ignored after a complete reply over ${way} (${name})`, async () => {
      const body = `${stream}${name === "Responses" ? RESPONSES_ERROR : failed}`;
      await using server = await CuttingServer.start(Buffer.from(body));
      const got = await outcomeOf(model(server.urlOf(body.length, "closed")));
      expect(got).toEqual({ got: "ok", input: 700, output: 2 });
    });
});

describe("an event that cannot be parsed", () => {
  for (const { name, model } of waysOf("Chat Completions").filter(
    ({ name: way }) => way !== "openai()",
  ))
    proves(["D607"], `is reported as an error although it ends the reply (${name})`, async () => {
      const delta = { content: 5, tool_calls: "none" };
      const choices = [{ index: 0, delta, finish_reason: "stop" }];
      const body = `data: ${JSON.stringify({ id: "c", choices })}\n\n`;
      await using server = await CuttingServer.start(Buffer.from(body));
      const got = await outcomeOf(model(server.urlOf(body.length, "closed")));
      expect(got.got).toBe("model_protocol_error");
    });
});

const REPLIES = INTERFACES.flatMap(({ name, events, call }) => [
  { name, what: "a text", events, whole: "ok" },
  { name, what: "a call", events: call, whole: 'look {"at":1}' },
]);

describe.each(REPLIES)("$what in a cut stream of $name", ({ name, what, events, whole }) => {
  const stream = streamOf(name, events);
  for (const { name: way, model, readsLastEvent } of waysOf(name))
    for (const end of ["closed", "destroyed"] as const)
      proves(
        ["D605"],
        `results in ${what} or a retryable failure wherever the stream is cut, over ${way} (${name}, ${end})`,
        async () => {
          await using server = await CuttingServer.start(Buffer.from(stream));
          const cuts = Array.from({ length: stream.length + 1 }, (_, bytes) => bytes);
          const wrong: unknown[] = [];
          const work = async (): Promise<void> => {
            for (let bytes = cuts.shift(); bytes !== undefined; bytes = cuts.shift()) {
              const text = stream.slice(0, bytes);
              const expected = expectedOf(text, readsLastEvent, whole);
              const got = await outcomeOf(model(server.urlOf(bytes, end)));
              if (JSON.stringify(got) !== JSON.stringify(expected))
                wrong.push({ cutAfter: text.slice(-40), got, expected });
            }
          };
          await Promise.all(Array.from({ length: AT_ONCE }, work));
          expect(wrong).toEqual([]);
        },
      );
});
