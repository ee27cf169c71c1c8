// LeanClient: what we have of the client of the `openai` package: the head of a request, and its own errors.
// Owns the heads, which are built once. Its way to send is passed by: it takes as long as ours for the whole of a request, describes each
// request and response for a log that has no reader, would follow redirects anywhere, and read an error of any length.
// Redirects are followed by us alone, so that neither the key nor the prompt reaches another origin, whatever sends the requests.

import { APIError, OpenAI, type ClientOptions } from "openai";

import { invoke, type CancelSignal } from "../../kernel/cancel.ts";
import { followRedirect, isRedirect } from "../http-errors.ts";
import { parseWireJson } from "../wire-json.ts";
import {
  ACCEPTED_ENCODINGS,
  checkStatus,
  fetchedResponse,
  headersOf,
  openingOf,
  type RequestHead,
  type RequestTarget,
  type Send,
  type WireResponse,
} from "./node-transport.ts";
import { failures, unreachedError } from "./openai-errors.ts";

const ACCEPT_ENCODING = "accept-encoding";
const JSON_BODY = { "content-type": "application/json" };

interface LeanClientOptions extends Omit<ClientOptions, "fetch"> {
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

  /**
   * Returns the response to a request of JSON, if it is a success.
   *
   * @throws APIError by the status of any other; ModelError if there is none, and `model_refused_request` for a redirect to another
   * origin, one that changes the request, or the sixth.
   */
  ask(stream: boolean, body: Buffer, signal: CancelSignal): Promise<WireResponse> {
    const head = this.#heads.get(stream);
    return head === undefined
      ? this.#newHead(stream).then((made) => this.#exchange(made, body, signal))
      : this.#exchange(head, body, signal);
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

  #exchange(
    head: RequestHead,
    body: Buffer,
    signal: CancelSignal,
    redirects = 0,
  ): Promise<WireResponse> {
    const sending = invoke(() => {
      if (signal.aborted) throw signal.reason;
      return this.#send(head, body, signal);
    });
    // Not awaited here: what an async function holds while it waits is held by every call that waits.
    return sending.then(
      async (response) => {
        const { status } = response;
        if (status < 300) return response;
        const opening = await openingOf(response);
        const location = response.header("location");
        if (location === null || !isRedirect(status)) throw this.#refusal(response, opening);
        const redirect = { status, location, from: head.target.href, count: redirects };
        const option = "Give the address where the server is as baseUrl";
        const target = requestTarget(followRedirect(redirect, failures, option));
        return await this.#exchange({ ...head, target }, body, signal, redirects + 1);
      },
      (thrown: unknown) => {
        throw unreachedError(thrown);
      },
    );
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

export function requestTarget(url: URL): RequestTarget {
  const { href, hostname, host, port, pathname, search } = url;
  const path = `${pathname}${search}`;
  return { href, host: hostname.replace(/^\[|\]$/g, ""), authority: host, port, path };
}

/** Sends requests by a `fetch` of the user's. */
export function sendBy(fetch: typeof globalThis.fetch): Send {
  return async ({ target, headers }, body, { abortSignal: signal }) => {
    const response = await fetch(target.href, {
      method: "POST",
      headers: headersOf(headers),
      body: body.toString(),
      signal,
      redirect: "manual",
    });
    checkStatus(response.status); // `Response.error()` has none.
    return fetchedResponse(response);
  };
}
