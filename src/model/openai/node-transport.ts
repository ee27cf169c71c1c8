// NodeTransport: sends requests by Node's own `http` and `https`, at about half the CPU time of
// `fetch`. Owns the keep-alive agent for a scheme and a proxy. The process has one transport for
// each pair. Idle sockets do not keep the process alive.
// 1. A socket that does not open in time is destroyed, whatever it waits for: the network, the
//    proxy, or the TLS handshake. After that only the signal ends a request, in any state, and
//    closes its socket.
// 2. A socket that the server closed while it was idle costs no attempt: the request is sent once
//    more, on a new socket. Not if any byte was received, or if the server may have worked on the
//    request for a while.

import {
  type IncomingMessage,
  Agent as HttpAgent,
  request as httpRequest,
  type ClientRequest,
} from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { type Duplex, pipeline, Readable, type Transform } from "node:stream";
import {
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createInflateRaw,
  createZstdDecompress,
} from "node:zlib";

import { systemClock, type Clock } from "../../kernel/clock.ts";
import { isRecord, omitUndefined } from "../../kernel/json.ts";
import type { CancelSignal } from "../../kernel/cancel-signal.ts";
import type { Proxy } from "./proxy.ts";
import { getErrorMessage } from "../../kernel/error.ts";
import { GrowingBytes } from "../server-sent-events.ts";
import { waitForTurnEnd } from "../../kernel/throttle.ts";

/** An address with the parts that `http` needs. Parsing costs more than a request's head. */
export interface RequestTarget {
  readonly href: string;
  readonly host: string;
  /** Value of the header `host`. */
  readonly authority: string;
  readonly port: string;
  readonly path: string;
}

/** The head of all requests to an address that expect the same kind of reply. */
export interface RequestHead {
  readonly target: RequestTarget;
  /** Names and values, alternating. */
  readonly headers: readonly string[];
}

/**
 * Sends one request by POST, and follows no redirect. Rejects soon after the signal is aborted,
 * with its reason.
 */
export type Send = (head: RequestHead, body: Buffer, signal: CancelSignal) => Promise<WireResponse>;

/** A response whose head has arrived, independent of the transport. */
export interface WireResponse {
  readonly status: number;
  /** The decoded pieces of the body as they arrive. Ending the iteration closes the socket. */
  readonly pieces: AsyncIterable<Uint8Array>;
  /** Returns the value of a header, by its lower-case name, or null. */
  header(name: string): string | null;
  /** Returns all headers. */
  headers(): Headers;
}

const CONNECT_MS = 10_000;
/** Routers drop connections that are silent for longer, without a signal. */
const IDLE_MS = 30_000;
const STALE_MS = 1_000;
/** Node reports only an end if a server changes the protocol. */
const NO_HEAD = "The server closed the connection without a response, or changed its protocol.";
/** Error codes of closed connections. */
const CLOSED_CODES: ReadonlySet<unknown> = new Set(["ECONNRESET", "EPIPE"]);

const transports = new Map<string, NodeTransport>();

/** Returns the transport for the scheme of `url`. */
export function getTransport(url: string, proxy: Proxy | undefined): NodeTransport {
  const scheme = new URL(url).protocol === "https:" ? "https:" : "http:";
  const key = JSON.stringify([scheme, proxy?.url, proxy?.noProxy]);
  const transport = transports.get(key) ?? new NodeTransport(scheme, proxy);
  transports.set(key, transport);
  return transport;
}

export class NodeTransport {
  readonly #agent: HttpAgent;
  readonly #clock: Clock;
  readonly #isSecure: boolean;
  readonly #isProxied: boolean;
  /**
   * The socket that is being opened. The request does not know it until the tunnel through a proxy
   * is open.
   */
  #opening: Duplex | undefined;

  constructor(scheme: "http:" | "https:", proxy?: Proxy, clock = systemClock) {
    this.#clock = clock;
    this.#isSecure = scheme === "https:";
    this.#isProxied = proxy !== undefined;
    // Node prefers the lower-case names.
    const proxyEnv = proxy && {
      http_proxy: proxy.url,
      https_proxy: proxy.url,
      ...omitUndefined({ no_proxy: proxy.noProxy }),
    };
    const options = { keepAlive: true, timeout: IDLE_MS, ...omitUndefined({ proxyEnv }) };
    this.#agent = this.#isSecure ? new HttpsAgent(options) : new HttpAgent(options);
    const connect = this.#agent.createConnection.bind(this.#agent);
    this.#agent.createConnection = (to, opened) => {
      const socket = connect(to, (error, open) => {
        stopTimer();
        opened?.(error, open);
      });
      const stopTimer = this.#startOpenTimer(socket);
      return socket;
    };
  }

  /** Sends a POST like `fetch`, but follows no redirects. */
  readonly send: Send = (head, body, signal) => {
    const { promise, resolve, reject } = Promise.withResolvers<WireResponse>();
    const sentAtMs = this.#clock.monotonicMs();
    let isSecond = false;
    let close: (() => void) | undefined;
    const stop = (): void => {
      reject(signal.reason);
      close?.();
    };
    const begin = (): void => {
      const request = this.#begin(head, body.length);
      const opening = this.#opening;
      let bytesBefore = 0;
      let isReplaced = false;
      let hasHead = false;
      close = () => {
        request.destroy();
        opening?.destroy();
      };
      request.on("socket", ({ bytesRead }) => {
        bytesBefore = bytesRead;
      });
      request.on("response", (message) => {
        hasHead = true;
        try {
          resolve(toNodeResponse(message));
        } catch (thrown) {
          reject(thrown);
          close?.(); // Nobody will read it.
        }
      });
      // The listener stays: errors after the head reach the reader of the body.
      request.on("error", (thrown) => {
        const isLate = this.#clock.monotonicMs() - sentAtMs > STALE_MS;
        // The server had closed the socket before it saw the request.
        const wasStale =
          request.reusedSocket && request.socket?.bytesRead === bytesBefore && isReset(thrown);
        if (isSecond || isLate || signal.aborted || !wasStale) return reject(thrown);
        isSecond = true;
        isReplaced = true;
        // The failed socket was the most recently used, so the others have been idle for longer.
        for (const sockets of Object.values(this.#agent.freeSockets))
          for (const socket of sockets ?? []) socket.destroy();
        begin();
      });
      request.on("close", () => {
        if (isReplaced) return;
        signal.offAbort(stop);
        if (!hasHead) reject(new Error(NO_HEAD));
      });
      request.end(body);
    };
    begin();
    signal.onAbort(stop);
    return promise;
  };

  /** Begins a POST. The caller sends its body of this length. */
  #begin({ target, headers: headFields }: RequestHead, bodyBytes: number): ClientRequest {
    const { host, authority, port, path } = target;
    this.#opening = undefined;
    const hasHost = headFields.some((field, at) => at % 2 === 0 && field === "host");
    const added = hasHost ? [] : ["host", authority];
    const list = headFields.concat(added, "content-length", String(bodyBytes));
    // Node converts an object to a table, which the request retains, but adds the proxy's headers
    // only to an object.
    const headers = this.#isProxied ? Object.fromEntries(toHeaders(list)) : list;
    const ask = this.#isSecure ? httpsRequest : httpRequest;
    return ask({ method: "POST", headers, host, port, path, agent: this.#agent });
  }

  #startOpenTimer(socket: Duplex | null | undefined): () => void {
    if (socket === null || socket === undefined) return () => undefined;
    this.#opening = socket;
    const stopTimer = this.#clock.setTimer(CONNECT_MS, () =>
      socket.destroy(new Error(`Connection timed out after ${CONNECT_MS} ms`)),
    );
    // Open sockets, possibly thousands, must not retain this closure.
    const stop = (): void => {
      stopTimer();
      socket.off("close", stop);
    };
    socket.once(this.#isSecure ? "secureConnect" : "connect", stop).once("close", stop);
    return stop;
  }
}

function isReset(thrown: unknown): boolean {
  return isRecord(thrown) && CLOSED_CODES.has(thrown["code"]);
}

/** Converts a response of Node without creating `Response` and `Headers`, which no caller uses. */
function toNodeResponse(message: IncomingMessage): WireResponse {
  const { statusCode: status = 0, rawHeaders } = message;
  checkStatus(status);
  const header = (name: string): string | null => {
    const values = rawHeaders.filter(
      (_value, at) => at % 2 === 1 && rawHeaders[at - 1]?.toLowerCase() === name,
    );
    return values.length === 0 ? null : values.join(", ");
  };
  const pieces = decodeBody(message, header("content-encoding"));
  return { status, pieces, header, headers: () => toHeaders(rawHeaders) };
}

// Decodes the encodings of a body, piece by piece. Decodes nothing before the next piece is
// requested, so that a reader that counts the output is safe from decompression bombs.

/** Value of the header `accept-encoding`. */
export const ACCEPTED_ENCODINGS = "gzip, br";

type Decode = (options: { readonly chunkSize: number }) => Transform;

const DECODERS: ReadonlyMap<string, Decode> = new Map<string, Decode>([
  ["gzip", createGunzip],
  ["x-gzip", createGunzip],
  ["br", createBrotliDecompress],
  // Some servers send these encodings unrequested.
  ["deflate", createInflate],
  ["zstd", createZstdDecompress],
]);
const PIECE_BYTES = 64 * 1024;
/**
 * Maximum overhead of a valid encoding. A larger body without output is never ended by the limit on
 * output alone.
 */
const MAX_OVERHEAD_BYTES = 1024 * 1024;
/** Error code of zlib for a truncated body. */
const TRUNCATED_CODE = "Z_BUF_ERROR";

/**
 * Thrown if a body does not match its encoding, or has an unrequested encoding. A retry would not
 * help.
 */
export class UndecodableBody extends Error {}

/**
 * Returns the decoded pieces of a body. Ending the iteration destroys the body. Fails with an
 * `UndecodableBody` if the body does not match its encoding, or the request did not accept it.
 */
function decodeBody(body: Readable, encoding: string | null): AsyncIterable<Uint8Array> {
  const name = encoding?.trim().toLowerCase() ?? "";
  if (name === "identity" || name === "") return new StreamPieces(body);
  return decodePieces(body, name);
}

async function* decodePieces(
  body: Readable,
  name: string,
): AsyncGenerator<Uint8Array, void, undefined> {
  const decode = DECODERS.get(name);
  if (decode === undefined) {
    body.destroy();
    throw new UndecodableBody(`a body in the encoding ${name}, which the request did not accept`);
  }
  const isRaw = name === "deflate" && (await isRawDeflate(body));
  const decoder = (isRaw ? createInflateRaw : decode)({ chunkSize: PIECE_BYTES });
  const createDecodingError = (reason: string): UndecodableBody =>
    new UndecodableBody(`a body that is not in its encoding ${name} (${reason})`);
  let inputBytes = 0;
  let outputBytes = 0;
  async function* countInput(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const piece of pieces) {
      inputBytes += piece.length;
      if (inputBytes - outputBytes > MAX_OVERHEAD_BYTES) throw createDecodingError("it has no end");
      yield piece;
    }
  }
  const pieces: AsyncIterable<Uint8Array> = pipeline(body, countInput, decoder, () => undefined);
  try {
    for await (const piece of pieces) {
      outputBytes += piece.length;
      yield piece;
    }
  } catch (thrown) {
    // An error of zlib, other than for a truncated body.
    const isWrong = isRecord(thrown) && "errno" in thrown && thrown["code"] !== TRUNCATED_CODE;
    throw decoder.errored === thrown && isWrong
      ? createDecodingError(getErrorMessage(thrown))
      : thrown;
  }
}

/** Returns true for a `deflate` body without the header of zlib, which some servers send. */
async function isRawDeflate(body: Readable): Promise<boolean> {
  const readable = new Promise((resolve) => body.once("readable", resolve).once("close", resolve));
  if (body.readableLength === 0) await readable;
  const first: unknown = body.read();
  if (!(first instanceof Uint8Array)) return false;
  body.unshift(first);
  return ((first[0] ?? 0) & 0x0f) !== 8;
}

/** Converts the response of a `fetch`. */
export function toWireResponse({ status, headers, body }: Response): WireResponse {
  return {
    status,
    pieces: new StreamPieces(body === null ? Readable.from([]) : Readable.fromWeb(body)),
    header: (name) => headers.get(name),
    headers: () => headers,
  };
}

/** Creates headers from names and values, alternating. */
export function toHeaders(fields: readonly string[]): Headers {
  const headers = new Headers();
  for (let at = 0; at + 1 < fields.length; at += 2)
    headers.append(fields[at] ?? "", fields[at + 1] ?? "");
  return headers;
}

/** Throws a `RangeError` for an invalid status. */
export function checkStatus(status: number): void {
  if (status < 200 || status > 599)
    throw new RangeError(`The server answered with the status ${status}.`);
}

/** Errors and redirects contain the relevant facts at their beginning. */
const OPENING_BYTES = 64 * 1024;

/** Returns the beginning of a body, or the part that arrived before it broke. */
export async function readOpening({ pieces }: WireResponse): Promise<string> {
  const bytes = new GrowingBytes();
  try {
    for await (const piece of pieces) {
      bytes.push(piece);
      if (bytes.length >= OPENING_BYTES) break;
    }
  } catch {
    // The status is enough to classify a failed request. Its body is optional.
  }
  return bytes.bytes.toString("utf8", 0, OPENING_BYTES);
}

// StreamPieces: iterates over a stream of bytes at less cost than the stream's own iterator. Owns
// the stream: ending the iteration destroys the stream and its source. Yields to the event loop
// between large amounts of data that arrived at once.

/**
 * Maximum of a piece, and of a turn of the event loop. A short piece counts for
 * `MIN_PIECE_BYTES`.
 */
const MAX_PIECE_BYTES = 64 * 1024;
const BYTES_AT_ONCE = 256 * 1024;
const MIN_PIECE_BYTES = 512;
const END = Object.freeze({ value: undefined, done: true });

export class StreamPieces implements AsyncIterableIterator<Uint8Array, undefined> {
  readonly #stream: Readable;
  #fault: { readonly thrown: unknown } | undefined;
  #wake = (): void => undefined;
  #bytesOfTurn = 0;

  constructor(stream: Readable) {
    this.#stream = stream;
    const wake = (): void => this.#wake();
    stream.on("readable", wake).on("end", wake);
    stream.on("error", (thrown) => {
      this.#fault = { thrown };
      wake();
    });
    stream.on("close", wake);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<Uint8Array, undefined>> {
    if (this.#bytesOfTurn >= BYTES_AT_ONCE) {
      await waitForTurnEnd();
      this.#bytesOfTurn = 0;
    }
    for (;;) {
      const available = Math.min(this.#stream.readableLength, MAX_PIECE_BYTES);
      const piece: unknown = available === 0 ? this.#stream.read() : this.#stream.read(available);
      if (piece instanceof Uint8Array) {
        this.#bytesOfTurn += Math.max(piece.length, MIN_PIECE_BYTES);
        return { value: piece, done: false };
      }
      if (this.#stream.readableEnded) return END;
      if (this.#fault !== undefined) throw this.#fault.thrown;
      if (this.#stream.closed)
        throw this.#stream.errored ?? new Error("The server closed the connection.");
      const woken = Promise.withResolvers<void>();
      this.#wake = woken.resolve;
      await woken.promise;
    }
  }

  async return(): Promise<IteratorResult<Uint8Array, undefined>> {
    this.#stream.destroy();
    return END;
  }
}
