// leanFetch: `fetch` on undici's `request`, at about half the CPU of the built-in one.
// Owns one pool of sockets for the whole process, made at the first request. Idle sockets do not keep the process alive.
// F1. It has no timeout of its own: the signal ends a request, in whatever state, and closes its socket.

import { Agent, request, type Dispatcher } from "undici";

let pool: Agent | undefined;

/** Does what `fetch` does for a request whose body is text, without redirects and decompression; hands any other to `fetch`. */
export async function leanFetch(
  input: string | URL | Request,
  init: RequestInit = {},
): Promise<Response> {
  const { method = "GET", headers, body, signal } = init;
  if (typeof input !== "string" || typeof body !== "string") return await fetch(input, init);
  pool ??= new Agent({ headersTimeout: 0, bodyTimeout: 0, allowH2: false });
  const reply = await request(input, {
    dispatcher: pool,
    method: method.toUpperCase(),
    headers: Object.fromEntries(headers instanceof Headers ? headers : new Headers(headers)),
    body,
    signal: signal ?? null,
  });
  return new LeanResponse(reply);
}

/** The response as it arrives. Has the head, `text` and `chunks`; the other ways to read a `Response` see no body. */
export class LeanResponse extends Response {
  /** The pieces of the body. To stop reading them closes the socket. */
  readonly chunks: AsyncIterable<Uint8Array>;
  override readonly text: () => Promise<string>;

  constructor({ statusCode, statusText, headers, body }: Dispatcher.ResponseData) {
    super(null, { status: statusCode, statusText, headers: headersOf(headers) });
    this.chunks = body;
    this.text = () => body.text();
  }
}

function headersOf(fields: Dispatcher.ResponseData["headers"]): Headers {
  const headers = new Headers();
  for (const [name, value] of Object.entries(fields)) {
    if (typeof value === "string") headers.append(name, value);
    else for (const one of value ?? []) headers.append(name, one);
  }
  return headers;
}
