// Model servers with faults. Each fault writes its own response. Owns the valid reply of each
// interface, streamed and whole.

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";

import type { Interface } from "./four-interfaces.ts";
import type { Mode } from "./openai-calls.ts";

/** A reply that says "ok", in the form that an interface expects. */
export interface SoundReply {
  readonly type: string;
  readonly body: string;
  /** The part of the body that has begun the answer and not ended it. */
  readonly begun: string;
}

export type AnswerWith = (
  response: ServerResponse,
  sound: SoundReply,
  request: IncomingMessage,
) => void;

export class FaultServer implements AsyncDisposable {
  requests = 0;
  readonly #server;

  private constructor(answer: AnswerWith, sound: SoundReply) {
    this.#server = createServer((request, response) => {
      this.requests += 1;
      response.on("error", () => undefined);
      request.resume().on("end", () => answer(response, sound, request));
    });
  }

  static async start(answer: AnswerWith, sound: SoundReply): Promise<FaultServer> {
    const server = new FaultServer(answer, sound);
    await new Promise<void>((resolve) => server.#server.listen(0, "127.0.0.1", resolve));
    return server;
  }

  get url(): string {
    const address = this.#server.address();
    if (address === null || typeof address === "string") throw new Error("The server has no port.");
    return `http://127.0.0.1:${address.port}/v1`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }
}

/** Returns the sound reply of an interface. The AI SDK adapter always asks for a stream. */
export function soundReply({ name, events, begun }: Interface, mode: Mode): SoundReply {
  const whole = mode === "whole" ? WHOLE.get(name) : undefined;
  if (whole !== undefined) {
    const body = JSON.stringify(whole);
    return { type: "application/json", body, begun: body.slice(0, body.length / 2) };
  }
  const begin = events.slice(0, begun).join("");
  return { type: "text/event-stream", body: events.join(""), begun: begin };
}

const WHOLE: ReadonlyMap<string, object> = new Map<string, object>([
  [
    "Chat Completions",
    {
      id: "c",
      model: "m",
      choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "ok" } }],
      usage: { prompt_tokens: 700, completion_tokens: 2, total_tokens: 702 },
    },
  ],
  [
    "Responses",
    {
      id: "r",
      status: "completed",
      output: [{ type: "message", id: "i", content: [{ type: "output_text", text: "ok" }] }],
      usage: { input_tokens: 700, output_tokens: 2, total_tokens: 702 },
    },
  ],
]);
