// A `fetch` for providers of the AI SDK that sends the prompt and the key to one server only.

import { failures } from "./ai-sdk-errors.ts";
import { readFields, findErrorInBody } from "../wire-json.ts";
import { followRedirect, isRedirect } from "../http-errors.ts";
import { waitForTurnEnd } from "../../kernel/throttle.ts";
import { tryParseJson } from "../../kernel/json.ts";
import {
  GrowingBytes,
  detectEventStream,
  EventSplitter,
  isWholeData,
} from "../server-sent-events.ts";
import { findLostTokens } from "./raw-events.ts";

const BASE_URL = "Set baseURL of the provider to the address of the server";

/**
 * Sends a request like `fetch`, but follows redirects only within the origin of the request.
 * `fetch` itself sends the body, and headers such as `x-api-key`, to any server that a redirect
 * names.
 *
 * Pass the function to the provider of the AI SDK. It follows at most five redirects of status 307
 * or 308.
 *
 * It also repairs bodies for the provider. An event stream ends with a blank line even if the
 * server omitted it. A bare `error:` line becomes an event. A page or an error with status 200, for
 * example `{"error": {"message": "Busy."}}`, fails with a `ModelError` that quotes it.
 *
 * @throws ModelError `model_invalid_request` if the server redirects otherwise.
 * @throws ModelError `model_protocol_error` if `fetch` does not decode the encoding of the
 * response.
 *
 * @example
 * ```ts
 * import { createAnthropic } from "@ai-sdk/anthropic";
 *
 * const anthropic = createAnthropic({ fetch: sameOriginFetch });
 * const claude = aiSdkModel(anthropic("claude-sonnet-5"));
 * ```
 */
export async function sameOriginFetch(
  input: string | URL | Request,
  init?: RequestInit,
): Promise<Response> {
  const { url, method, headers, signal, body } = new Request(input, init);
  const sent = body === null ? undefined : await new Response(body).arrayBuffer();
  let target = url;
  for (let count = 0; ; count += 1) {
    const request = { ...init, method, headers, signal, redirect: "manual" as const };
    const response = await fetch(target, sent === undefined ? request : { ...request, body: sent });
    const { status } = response;
    const location = response.headers.get("location");
    if (location === null || !isRedirect(status))
      return createBodyReadable(response, () => isEventRequest(url, sent));
    await response.body?.cancel();
    const redirect = { status, location, from: target, count };
    target = followRedirect(redirect, failures, BASE_URL).href;
  }
}

/** Returns true if the request asks for a stream of events, in the form of any provider. */
function isEventRequest(url: string, body = new ArrayBuffer()): boolean {
  const { stream } = readFields(tryParseJson(Buffer.from(body).toString()));
  return stream === true || url.includes(":streamGenerateContent");
}

// Rewrites the response of a server so that providers of the AI SDK read it completely. They skip
// an event without a blank line after it, a bare `error:` line, a page, and a JSON error with
// status 200. They read the bytes of an unknown encoding as text.

const EVENT_STREAM = /event-stream/i;
const EVENTS_OR_PAGE = /event-stream|html/i;
/** Content types of an answer that may be a stream of events, a page or an error. */
const READ_TYPES = /event-stream|^text\/|json|^$/i;
/** Encodings that `fetch` decodes. Before Node 24 it does not decode zstd. */
const ENCODINGS: ReadonlySet<string> = new Set(",identity,gzip,x-gzip,deflate,br,zstd".split(","));
const ZSTD_MAGIC = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);
/** Only bodies up to this length are checked for an error. */
const BEGINNING_BYTES = 64 * 1024;
/** A longer body of nothing but comments counts as a stream of events. */
const UNDECIDED_BYTES = 1_000;
const MAX_EVENT_BYTES = 64 * 1024 * 1024;
const BLANK = /^\s*$/;

/**
 * Returns the response with a body that can be read. Events end with a blank line, also if the
 * connection breaks. If the body consists of an error, reading fails with that error. Calls
 * `requestsEvents` if the body is not a stream of events.
 *
 * @throws ModelError `model_protocol_error` for an encoding that `fetch` does not decode. A refusal
 * is returned without its body: its status is sufficient.
 */
function createBodyReadable(response: Response, requestsEvents: () => boolean): Response {
  const { body, headers, ok } = response;
  const encoding = headers.get("content-encoding")?.toLowerCase() ?? "";
  if (!encoding.split(",").every((name) => ENCODINGS.has(name.trim()))) {
    void body?.cancel();
    if (!ok) return new Response(null, response);
    throw createEncodingError(encoding);
  }
  const type = headers.get("content-type") ?? "";
  if (body === null || !ok || !READ_TYPES.test(type)) return response;
  const rewriter = new BodyRewriter(body.getReader(), type, requestsEvents);
  const pull = (controller: Controller): Promise<void> => rewriter.pull(controller);
  const cancel = (reason: unknown): Promise<void> => rewriter.reader.cancel(reason);
  const readable = new ReadableStream<Uint8Array>({ pull, cancel }, { highWaterMark: 0 });
  return new Response(readable, response);
}

type Controller = ReadableStreamDefaultController<Uint8Array>;

class BodyRewriter {
  readonly reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #type: string;
  readonly #requestsEvents: () => boolean;
  /** `undefined` until enough of the body has been received. */
  #isEvents: boolean | undefined;
  readonly #bufferedPieces: Uint8Array[] = [];
  readonly #events = new EventSplitter();
  readonly #encoder = new TextEncoder();
  readonly #beginning = new GrowingBytes();
  #hasEvents = false;
  /** Bytes since the last event: comments, or part of an event. */
  #silentBytes = 0;
  #broken: { readonly thrown: unknown } | undefined;

  constructor(
    reader: ReadableStreamDefaultReader<Uint8Array>,
    type: string,
    requestsEvents: () => boolean,
  ) {
    this.reader = reader;
    this.#type = type;
    this.#requestsEvents = requestsEvents;
    this.#isEvents = EVENT_STREAM.test(type) ? true : undefined;
  }

  /** Enqueues at least one piece, or ends the stream. */
  async pull(controller: Controller): Promise<void> {
    for (;;) {
      if (this.#broken !== undefined) {
        // Piped streams drop their buffered events once they fail.
        await waitForTurnEnd();
        throw this.#broken.thrown;
      }
      // A broken connection ends the events. The next pull fails.
      const { value: piece } = await this.reader.read().catch((thrown: unknown) => {
        this.#broken = { thrown };
        return { value: undefined };
      });
      let rewritten: readonly Uint8Array[];
      if (piece === undefined) {
        // The last event unless it is truncated, or the buffered body.
        const last: Uint8Array[] = this.#bufferedPieces.splice(0);
        if (this.#isEvents === true)
          this.#events.end(
            (data) => void (isWholeData(data) && last.push(this.#encodeEvent(data))),
          );
        rewritten = last;
      } else rewritten = this.#take(piece);
      for (const bytes of rewritten) controller.enqueue(bytes);
      if (piece === undefined && this.#broken === undefined) {
        this.#checkBeginning();
        return controller.close();
      }
      if (rewritten.length > 0) return;
    }
  }

  /** Buffers the beginning of a body until it shows whether the body is a stream of events. */
  #take(piece: Uint8Array): readonly Uint8Array[] {
    if (!this.#hasEvents && this.#beginning.length <= BEGINNING_BYTES) {
      this.#beginning.push(piece.subarray(0, BEGINNING_BYTES + 1));
      if (ZSTD_MAGIC.equals(this.#beginning.bytes.subarray(0, ZSTD_MAGIC.length)))
        throw this.#cancelWith(createEncodingError("zstd"));
    }
    if (this.#isEvents !== undefined) return this.#rewrite(piece);
    this.#bufferedPieces.push(piece);
    const isLong = this.#beginning.length > UNDECIDED_BYTES;
    this.#isEvents = detectEventStream(this.#opening) ?? (isLong ? true : undefined);
    return this.#isEvents === undefined
      ? []
      : this.#rewrite(Buffer.concat(this.#bufferedPieces.splice(0)));
  }

  #rewrite(piece: Uint8Array): readonly Uint8Array[] {
    if (this.#isEvents === false) return [piece];
    const events: Uint8Array[] = [];
    this.#events.push(piece, (data) => void events.push(this.#encodeEvent(data)));
    this.#silentBytes =
      events.length > 0 ? this.#events.heldBytes : this.#silentBytes + piece.length;
    if (this.#silentBytes > MAX_EVENT_BYTES)
      throw this.#cancelWith(failures.excess(EXCESS_DESCRIPTION, 0));
    return events;
  }

  #encodeEvent(data: string): Uint8Array {
    if (!this.#hasEvents) {
      const event = tryParseJson(data);
      const error = readFields(event)["type"] === undefined ? findErrorInBody(event) : undefined;
      // Anthropic's provider would hide a bare error in the first event.
      if (error !== undefined) throw this.#cancelWith(failures.reported(error, undefined));
    }
    this.#hasEvents = true;
    return this.#encoder.encode(`data: ${data.replaceAll("\n", "\ndata: ")}\n\n`);
  }

  /** Throws if the body is an error, or is not the requested stream of events. */
  #checkBeginning(): void {
    const text = this.#opening;
    if (this.#hasEvents || BLANK.test(text)) return;
    const body = tryParseJson(text);
    const error = findErrorInBody(body);
    if (error !== undefined) throw failures.reported(error, undefined);
    if (this.#isEvents === true && detectEventStream(text) !== false) return;
    if (!EVENTS_OR_PAGE.test(this.#type) && !this.#requestsEvents()) return;
    const got = `a body that is not a stream of events: ${text.trim()}`;
    throw failures.failure({ code: "model_protocol_error", got, ...findLostTokens(body) });
  }

  get #opening(): string {
    return Buffer.from(this.#beginning.bytes).toString();
  }

  #cancelWith(error: Error): Error {
    void this.reader.cancel().catch(() => undefined);
    return error;
  }
}

const EXCESS_DESCRIPTION = `more than ${MAX_EVENT_BYTES} bytes without an event`;

function createEncodingError(encoding: string): Error {
  const got = `a body in the encoding ${encoding}, which the request did not accept`;
  return failures.failure({ code: "model_protocol_error", got });
}
