// NodeTransport: requests by Node's own `http` and `https`, at about half the CPU of `fetch`.
// Owns the pool of sockets of one scheme and one way out; the whole process has one of each.
// F1. Only to connect has a time limit: the signal ends a request, in whatever state, and closes its socket.
// F2. A socket that the server closed while it was idle costs no attempt: the request is sent once more, on a new one. Not if
// anything has come, or if the server may have been at work on it for a while.

import type { IncomingMessage } from "node:http";

import { systemClock, type Clock } from "../../kernel/clock.ts";
import { isRecord } from "../../kernel/json.ts";
import type { CancelSignal } from "../../kernel/cancel.ts";
import { decoded } from "./content-encoding.ts";
import type { Proxy } from "./proxy.ts";
import type { RequestHead, Send } from "./send-request.ts";
import { SocketPool, type PooledRequest } from "./socket-pool.ts";
import { checkStatus, headersOf, type WireResponse } from "./wire-response.ts";

const STALE_MS = 1_000;
/** Of a server that changes to another protocol Node says nothing but that it is over. */
const NO_HEAD = "The server closed the connection without a response, or changed its protocol.";
/** Of responses that end an exchange. */
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

  /** Does what `fetch` does for a POST, but follows no redirects. */
  readonly send: Send = (head, body, signal) =>
    new Exchange({ pool: this.#pool, clock: this.#clock, head, body, signal }).response;
}

/** A response of Node's, without the `Response` and the `Headers` that no caller asks for. */
class NodeResponse implements WireResponse {
  readonly status: number;
  readonly pieces: AsyncIterable<Uint8Array>;
  /** Names and values in turn. */
  readonly #fields: readonly string[];

  constructor(message: IncomingMessage) {
    this.status = message.statusCode ?? 0;
    this.#fields = message.rawHeaders;
    this.pieces = decoded(message, this.header("content-encoding"));
  }

  header(name: string): string | null {
    let value: string | null = null;
    for (let at = 0; at + 1 < this.#fields.length; at += 2) {
      const field = this.#fields[at] ?? "";
      if (field.length !== name.length || field.toLowerCase() !== name) continue;
      const next = this.#fields[at + 1] ?? "";
      value = value === null ? next : `${value}, ${next}`;
    }
    return value;
  }

  headers(): Headers {
    return headersOf(this.#fields);
  }
}

/** What is to be sent, and by which sockets. */
interface Sending {
  readonly pool: SocketPool;
  readonly clock: Clock;
  readonly head: RequestHead;
  readonly body: Buffer;
  readonly signal: CancelSignal;
}

/** One request, on one socket, or on two (F2). */
class Exchange {
  readonly #answer = Promise.withResolvers<WireResponse>();
  readonly #sending: Sending;
  readonly #sentAtMs: number;
  #sent: PooledRequest;
  #bytesBefore = 0;
  #hasHead = false;
  #isSecond = false;

  constructor(sending: Sending) {
    const { clock, signal } = sending;
    this.#sending = sending;
    this.#sentAtMs = clock.monotonicMs();
    this.#sent = this.#begin();
    signal.onAbort(this.#stop);
  }

  get response(): Promise<WireResponse> {
    return this.#answer.promise;
  }

  readonly #stop = (): void => {
    this.#answer.reject(this.#sending.signal.reason);
    this.#close();
  };

  #begin(): PooledRequest {
    const { pool, head, body } = this.#sending;
    const sent = pool.begin(head, body.length);
    const { request } = sent;
    request.on("socket", ({ bytesRead }) => (this.#bytesBefore = bytesRead));
    request.on("response", (message) => {
      this.#hasHead = true;
      this.#take(message);
    });
    // Stays: what goes wrong behind the head reaches the reader of the body.
    request.on("error", (thrown) => this.#fail(thrown));
    request.on("close", () => {
      if (request !== this.#sent.request) return;
      this.#sending.signal.offAbort(this.#stop);
      if (!this.#hasHead) this.#answer.reject(new Error(NO_HEAD));
    });
    request.end(body);
    return sent;
  }

  #fail(thrown: unknown): void {
    const { pool, clock } = this.#sending;
    const isLate = clock.monotonicMs() - this.#sentAtMs > STALE_MS;
    if (this.#isSecond || isLate || !this.#wasStale(thrown)) return this.#answer.reject(thrown);
    this.#isSecond = true;
    // It was the one that had been used last: the others have been idle for longer.
    pool.closeIdle();
    this.#sent = this.#begin();
  }

  /** The server had closed the socket before it could see the request. */
  #wasStale(thrown: unknown): boolean {
    const { request } = this.#sent;
    if (!request.reusedSocket || this.#sending.signal.aborted) return false;
    const hasAnswered = request.socket?.bytesRead !== this.#bytesBefore;
    return !hasAnswered && isRecord(thrown) && BROKEN.has(thrown["code"]);
  }

  #take(message: IncomingMessage): void {
    try {
      checkStatus(message.statusCode ?? 0);
      this.#answer.resolve(new NodeResponse(message));
    } catch (thrown) {
      this.#answer.reject(thrown);
      this.#close(); // It will not be read.
    }
  }

  #close(): void {
    const { request, opening } = this.#sent;
    request.destroy();
    opening?.destroy();
  }
}
