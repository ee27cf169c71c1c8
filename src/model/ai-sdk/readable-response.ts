// Rewrites the response of a server so that providers of the AI SDK read all of it.
// They skip an event without a blank line after it, a bare `error:` line, a page, and a JSON error
// with status 200. They take the bytes of an unknown encoding for text.

import { failures, isReport } from "./ai-sdk-errors.ts";
import { GrowingBytes } from "../growing-bytes.ts";
import { EventSplitter } from "../server-sent-events.ts";
import { fieldsOf, parseWireJson } from "../wire-json.ts";

const REWRITTEN = /event-stream|html|json\b/;
/** Encodings that `fetch` decodes; before Node 24 it leaves zstd as it is. */
const ENCODINGS: ReadonlySet<string> = new Set(",identity,gzip,x-gzip,deflate,br,zstd".split(","));
const ZSTD_MAGIC = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);
/** An error is read from a body of at most this length. */
const BEGINNING_BYTES = 64 * 1024;
const MAX_EVENT_BYTES = 64 * 1024 * 1024;
const BLANK = /^\s*$/;
const EVENTS = /^\uFEFF?(:|(data|event|id|retry|error)\b)/;

/**
 * Returns the response with a body that can be read. Events end with a blank line, also if the
 * connection breaks. The body fails with the error that it consists of.
 *
 * @throws ModelError `model_protocol_error` for an encoding that `fetch` does not decode.
 */
export function withReadableBody(response: Response): Response {
  const { body, headers, ok } = response;
  const encoding = headers.get("content-encoding")?.toLowerCase() ?? "";
  if (!encoding.split(",").every((name) => ENCODINGS.has(name.trim()))) {
    void body?.cancel();
    throw encodingError(encoding);
  }
  const type = headers.get("content-type") ?? "";
  if (body === null || !ok || !REWRITTEN.test(type)) return response;
  const rewriter = new BodyRewriter(body.getReader(), type.includes("json"));
  const pull = (controller: Controller): Promise<void> => rewriter.pull(controller);
  const cancel = (reason: unknown): Promise<void> => rewriter.reader.cancel(reason);
  const readable = new ReadableStream<Uint8Array>({ pull, cancel }, { highWaterMark: 0 });
  return new Response(readable, response);
}

type Controller = ReadableStreamDefaultController<Uint8Array>;

class BodyRewriter {
  readonly reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #isJson: boolean;
  readonly #events = new EventSplitter();
  readonly #encoder = new TextEncoder();
  readonly #beginning = new GrowingBytes();
  #hasEvents = false;
  /** Since the last event: comments, or a part of an event. */
  #silentBytes = 0;
  #broken: { readonly thrown: unknown } | undefined;

  constructor(reader: ReadableStreamDefaultReader<Uint8Array>, isJson: boolean) {
    this.reader = reader;
    this.#isJson = isJson;
  }

  /** Enqueues at least one piece, or ends the stream. */
  async pull(controller: Controller): Promise<void> {
    for (;;) {
      if (this.#broken !== undefined) throw this.#broken.thrown;
      const piece = await this.#read();
      const rewritten = piece === undefined ? this.#lastEvent() : this.#rewrite(piece);
      for (const one of rewritten) controller.enqueue(one);
      if (piece === undefined && this.#broken === undefined) {
        this.#checkBeginning();
        return controller.close();
      }
      if (rewritten.length > 0) return;
    }
  }

  #rewrite(piece: Uint8Array): readonly Uint8Array[] {
    this.#keepBeginning(piece);
    if (this.#isJson) return [piece];
    const events: Uint8Array[] = [];
    this.#events.push(piece, (data) => void events.push(this.#eventOf(data)));
    this.#silentBytes =
      events.length > 0 ? this.#events.heldBytes : this.#silentBytes + piece.length;
    if (this.#silentBytes > MAX_EVENT_BYTES) throw this.#refused(failures.excess(TOO_LONG, 0));
    return events;
  }

  #lastEvent(): readonly Uint8Array[] {
    const events: Uint8Array[] = [];
    if (this.#isJson) return events;
    this.#events.end((data) => {
      if (!isHalf(data)) events.push(this.#eventOf(data));
    });
    return events;
  }

  #eventOf(data: string): Uint8Array {
    if (!this.#hasEvents) this.#checkFirst(data);
    this.#hasEvents = true;
    return this.#encoder.encode(`data: ${data.replaceAll("\n", "\ndata: ")}\n\n`);
  }

  /** Returns `undefined` at the end. A broken connection ends the events; the next pull fails. */
  async #read(): Promise<Uint8Array | undefined> {
    try {
      return (await this.reader.read()).value;
    } catch (thrown) {
      this.#broken = { thrown };
      return undefined;
    }
  }

  #keepBeginning(piece: Uint8Array): void {
    if (this.#hasEvents || this.#beginning.length > BEGINNING_BYTES) return;
    this.#beginning.push(piece.subarray(0, BEGINNING_BYTES + 1));
    if (ZSTD_MAGIC.equals(this.#beginning.bytes.subarray(0, ZSTD_MAGIC.length)))
      throw this.#refused(encodingError("zstd"));
  }

  /** Throws for a bare error. Anthropic's provider would hide it if it came first. */
  #checkFirst(data: string): void {
    const { type, error } = fieldsOf(parseWireJson(data));
    if (type === undefined && isReport(error))
      throw this.#refused(failures.reported(error, undefined));
  }

  /** Throws for a body that is an error, or that is not the stream of events that it claims to be. */
  #checkBeginning(): void {
    const text = Buffer.from(this.#beginning.bytes).toString();
    if (this.#hasEvents || BLANK.test(text)) return;
    const { error } = fieldsOf(parseWireJson(text));
    if (isReport(error)) throw failures.reported(error, undefined);
    if (this.#isJson || EVENTS.test(text)) return;
    const got = `a body that is not a stream of events: ${text.trim()}`;
    throw failures.failure({ code: "model_protocol_error", got });
  }

  #refused(error: Error): Error {
    void this.reader.cancel().catch(() => undefined);
    return error;
  }
}

const TOO_LONG = `more than ${MAX_EVENT_BYTES} bytes without an event`;

function encodingError(encoding: string): Error {
  const got = `a body in the encoding ${encoding}, which the request did not accept`;
  return failures.failure({ code: "model_protocol_error", got });
}

/** True for the beginning of a JSON object: the last event of a stream that was cut. */
function isHalf(text: string): boolean {
  const json = text.trim();
  return json.startsWith("{") && !json.endsWith("}");
}
