// NodeTransport: requests by Node's own `http` and `https`, at about half the CPU of `fetch`.
// Owns the pool of sockets of one scheme and one way out; the whole process has one of each.
// F1. Only to connect has a time limit: the signal ends a request, in whatever state, and closes its socket.
// F2. A socket that the server closed while it was idle costs no attempt: the request is sent once more, on a new one. Not if
// anything has come, or if the server may have been at work on it for a while.

import type { IncomingMessage, OutgoingHttpHeaders } from "node:http";

import { onAbort } from "../../kernel/cancel.ts";
import { systemClock, type Clock } from "../../kernel/clock.ts";
import { isRecord } from "../../kernel/json.ts";
import { decoded } from "./content-encoding.ts";
import type { Proxy } from "./proxy.ts";
import { SocketPool, type PooledRequest } from "./socket-pool.ts";

const STALE_MS = 1_000;
/** Of a server that changes to another protocol Node says nothing but that it is over. */
const NO_HEAD = "The server closed the connection without a response, or changed its protocol.";
const BROKEN: ReadonlySet<unknown> = new Set(["ECONNRESET", "EPIPE"]);

const transports = new Map<string, NodeTransport>();

/** The transport to servers like the one at `url`. */
export function transportTo(url: string, proxy: Proxy | undefined): NodeTransport {
  const scheme = new URL(url).protocol === "https:" ? "https:" : "http:";
  const key = JSON.stringify([scheme, proxy?.url, proxy?.noProxy]);
  const transport = transports.get(key) ?? new NodeTransport(scheme, proxy);
  transports.set(key, transport);
  return transport;
}

export class NodeTransport {
  readonly #pool: SocketPool;
  readonly #clock: Clock;

  constructor(scheme: "http:" | "https:", proxy?: Proxy, clock = systemClock) {
    this.#pool = new SocketPool(scheme, proxy, clock);
    this.#clock = clock;
  }

  /** Does what `fetch` does for a request to an address whose body is text, but follows no redirects. */
  readonly send = async (
    url: string | URL | Request,
    init: RequestInit = {},
  ): Promise<NodeResponse> => {
    init.signal?.throwIfAborted();
    const sentAtMs = this.#clock.monotonicMs();
    const first = new Exchange(this.#pool, url, init);
    try {
      return await first.response;
    } catch (thrown) {
      const tookMs = this.#clock.monotonicMs() - sentAtMs;
      if (!first.wasStale(thrown) || tookMs > STALE_MS) throw thrown;
    }
    // It was the one that had been used last: the others have been idle for longer.
    this.#pool.closeIdle();
    return await new Exchange(this.#pool, url, init).response;
  };
}

/** The response as it arrives. Has the head and `chunks`; all ways to read a `Response` see no body. */
export class NodeResponse extends Response {
  /** The pieces of the body, decoded. To stop reading them closes the socket. */
  readonly chunks: AsyncIterable<Uint8Array>;

  constructor(message: IncomingMessage) {
    const { statusCode = 0, statusMessage = "", rawHeaders } = message;
    super(null, { status: statusCode, statusText: statusMessage, headers: headersOf(rawHeaders) });
    this.chunks = decoded(message, this.headers.get("content-encoding"));
  }
}

/** One request on one socket. */
class Exchange {
  readonly response: Promise<NodeResponse>;
  readonly #sent: PooledRequest;
  readonly #signal: AbortSignal | undefined;
  #bytesBefore = 0;
  #hasHead = false;

  constructor(pool: SocketPool, url: string | URL | Request, init: RequestInit) {
    const { method = "GET", headers, body = "", signal } = init;
    if (typeof url !== "string" || typeof body !== "string") {
      throw new TypeError("Expected an address, and a body of text.");
    }
    this.#signal = signal ?? undefined;
    this.#sent = pool.begin(url, { method: method.toUpperCase(), headers: plainHeaders(headers) });
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const { request } = this.#sent;
    request.on("socket", ({ bytesRead }) => (this.#bytesBefore = bytesRead));
    request.on("response", (message) => {
      this.#hasHead = true;
      resolve(message);
    });
    // Stays: what goes wrong behind the head reaches the reader of the body.
    request.on("error", reject);
    const unlink = signal ? onAbort(signal, () => this.#abort(reject)) : undefined;
    request.on("close", () => {
      unlink?.();
      if (!this.#hasHead) reject(new Error(NO_HEAD));
    });
    // As bytes: `http` would write text in twice the time.
    request.end(Buffer.from(body));
    this.response = promise.then((message) => this.#answer(message));
  }

  /** The server had closed the socket before it could see the request. */
  wasStale(thrown: unknown): boolean {
    const { request } = this.#sent;
    if (!request.reusedSocket || this.#signal?.aborted === true) return false;
    const hasAnswered = request.socket?.bytesRead !== this.#bytesBefore;
    return !hasAnswered && isRecord(thrown) && BROKEN.has(thrown["code"]);
  }

  #answer(message: IncomingMessage): NodeResponse {
    try {
      return new NodeResponse(message);
    } catch (thrown) {
      this.#close(); // It will not be read.
      throw thrown;
    }
  }

  #abort(reject: (reason: unknown) => void): void {
    reject(this.#signal?.reason);
    this.#close();
  }

  #close(): void {
    const { request, opening } = this.#sent;
    request.destroy();
    opening?.destroy();
  }
}

const plain = new WeakMap<Headers, OutgoingHttpHeaders>();

/** As `http` takes them. The client sends the same again and again. */
function plainHeaders(given: RequestInit["headers"]): OutgoingHttpHeaders {
  const headers = given instanceof Headers ? given : new Headers(given);
  const fields = plain.get(headers) ?? Object.fromEntries(headers);
  plain.set(headers, fields);
  return fields;
}

/** `rawHeaders`: names and values in turn. */
function headersOf(rawHeaders: readonly string[]): Headers {
  const headers = new Headers();
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    headers.append(rawHeaders[at] ?? "", rawHeaders[at + 1] ?? "");
  }
  return headers;
}
