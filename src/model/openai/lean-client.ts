// LeanClient: what we have of the client of the `openai` package: the head of a request, and its own errors.
// Owns the heads, which are built once. Its way to send is passed by: it takes as long as ours for the whole of a request, describes each
// request and response for a log that has no reader, would follow redirects anywhere, and read an error of any length.

import { APIError, OpenAI, type ClientOptions } from "openai";

import type { CancelSignal } from "../../kernel/cancel.ts";
import { ACCEPTED_ENCODINGS } from "./content-encoding.ts";
import {
  requestTarget,
  sendRequest,
  type RequestHead,
  type Send,
  type ServerAnswer,
} from "./send-request.ts";
import type { WireResponse } from "./wire-response.ts";
import { parseWireJson } from "../wire-json.ts";

const ACCEPT_ENCODING = "accept-encoding";
const JSON_BODY = { "content-type": "application/json" };

export interface LeanClientOptions extends Omit<ClientOptions, "fetch"> {
  /** Of all requests, behind the base URL. */
  readonly path: string;
  readonly send: Send;
  /** `send` decodes what comes. Then a whole reply may come compressed; pieces of a stream would be held up by that. */
  readonly isDecoding: boolean;
}

export class LeanClient extends OpenAI {
  readonly #path: string;
  /** By whether the reply is streamed. */
  readonly #heads = new Map<boolean, RequestHead>();
  readonly #send: Send;
  readonly #isDecoding: boolean;

  constructor({ path, send, isDecoding, ...options }: LeanClientOptions) {
    super(options);
    this.#path = path;
    this.#send = send;
    this.#isDecoding = isDecoding;
  }

  /** The answer to a request of JSON; rejects with a `ModelError` if there is none. */
  ask(stream: boolean, body: Buffer, signal: CancelSignal): Promise<ServerAnswer> {
    const head = this.#heads.get(stream);
    if (head !== undefined) return sendRequest(this.#send, head, body, signal);
    return this.#newHead(stream).then((made) => sendRequest(this.#send, made, body, signal));
  }

  /**
   * The response of an answer, if it is a success.
   *
   * @throws APIError by the status of any other.
   */
  responseOf({ response, opening }: ServerAnswer): WireResponse {
    if (opening !== undefined) throw this.#refusal(response, opening);
    return response;
  }

  /** The body is left out: nothing in a head goes by it. */
  async #newHead(stream: boolean): Promise<RequestHead> {
    const options = { method: "post", path: this.#path, stream, headers: JSON_BODY } as const;
    const { url, req } = await this.buildRequest(options);
    const { headers } = req;
    if (this.#isDecoding && !stream && !headers.has(ACCEPT_ENCODING))
      headers.set(ACCEPT_ENCODING, ACCEPTED_ENCODINGS);
    const head = { target: requestTarget(new URL(url)), headers: [...headers].flat() };
    this.#heads.set(stream, head);
    return head;
  }

  #refusal(response: WireResponse, opening: string): APIError {
    const { status } = response;
    const parsed = parseWireJson(opening);
    const report: unknown = Array.isArray(parsed) ? parsed[0] : parsed; // Google sends a list of one.
    const headers = response.headers();
    try {
      if (typeof report === "object" && report !== null)
        return this.makeStatusError(status, report, undefined, headers);
    } catch {
      // The client writes a report without a message as JSON: this one is nested too deep for that.
    }
    return APIError.generate(status, undefined, opening, headers);
  }
}
