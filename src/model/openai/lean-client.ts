// LeanClient: the client of the `openai` package without what it does anew for each request although nothing has changed.
// Owns the head of the requests it sends. Both overrides are public methods of the client; without them it would be slower, as it
// builds headers in five passes, and guards each call by timers, controllers and weak references that we do not need; and it would
// follow redirects anywhere, and read an error of any length.

import { OpenAI, type ClientOptions } from "openai";

import { sendRequest } from "./send-request.ts";

type Built = Awaited<ReturnType<OpenAI["buildRequest"]>>;
type RequestOptions = Parameters<OpenAI["buildRequest"]>[0];

/** What is the same in every request to one address. */
interface RequestHead {
  readonly url: string;
  readonly timeout: number;
  readonly headers: Headers;
}

export class LeanClient extends OpenAI {
  readonly #heads = new Map<string, RequestHead>();
  readonly #send: typeof globalThis.fetch;

  constructor({ fetch, ...options }: ClientOptions & { readonly fetch: typeof globalThis.fetch }) {
    super(options);
    this.#send = fetch;
  }

  /** Builds the head of a request with a text body once per address; the text and the signal are all that differ after that. */
  override async buildRequest(
    options: RequestOptions,
    extra?: { retryCount?: number },
  ): Promise<Built> {
    const { method, path, body, signal = null } = options;
    if (typeof body !== "string") return await super.buildRequest(options, extra);
    let head = this.#heads.get(path);
    if (head === undefined) {
      const { url, timeout, req } = await super.buildRequest(options, extra);
      head = { url, timeout, headers: req.headers };
      this.#heads.set(path, head);
    }
    const { url, timeout, headers } = head;
    return { url, timeout, req: { method: method.toUpperCase(), headers, body, signal } };
  }

  /** The signal of a call carries its deadline already, and reaches the socket without a detour. */
  override fetchWithTimeout(
    url: string | URL | Request,
    init: RequestInit = {},
  ): Promise<Response> {
    const address = url instanceof Request ? url.url : url.toString();
    return sendRequest(this.#send, address, init);
  }
}
