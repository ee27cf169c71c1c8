// Bounds the structure of the JSON texts of a server before anything parses them. A message within
// the limit of bytes can still block the event loop for 15 s by its keys, or exceed the call stack
// by its levels. Counts the bytes `{ [ , :` outside of strings, and the bytes of each text, in
// linear time.

import { groupDigits } from "../kernel/argument-checks.ts";
import { McpFault, createTooLargeFault } from "./mcp-fault.ts";

/**
 * Maximum number of names and values in a message. This many take up to 1 s to parse, check and
 * store.
 */
export const MAX_PARTS = 200_000;
/** Maximum depth of a message, as for the data that a tool returns. */
export const MAX_LEVELS = 500;

/** Ends a JSON text: its body, a line (stdio), or an empty line (server-sent events). */
export type JsonEnd = "body" | "line" | "event";

const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;
const QUOTE = 34;
const COMMA = 44;
const COLON = 58;
const BACKSLASH = 92;

/** Counts the bytes, names, values and levels of each JSON text in a stream of bytes. */
export class JsonMeter {
  readonly #end: JsonEnd;
  readonly #maxBytes: number;
  #bytes = 0;
  #parts = 0;
  #level = 0;
  #isInString = false;
  #isEscaped = false;
  #isLineEmpty = true;
  #last = 0;

  constructor(end: JsonEnd, maxBytes = Infinity) {
    this.#end = end;
    this.#maxBytes = maxBytes;
  }

  /** Reads a chunk. Returns a fault about `subject` once a text exceeds a limit. */
  read(chunk: Uint8Array, subject: string): McpFault | undefined {
    for (let index = 0; index < chunk.length; index += 1) {
      const byte = chunk[index] ?? 0;
      this.#bytes += 1;
      const isLineEnd = this.#end === "line" && byte === LINE_FEED;
      if (this.#bytes > this.#maxBytes && !isLineEnd)
        return createTooLargeFault(subject, this.#maxBytes);
      if (byte === LINE_FEED || byte === CARRIAGE_RETURN) this.#endLine(byte);
      else this.#readByte(byte);
      this.#last = byte;
      if (this.#parts > MAX_PARTS || this.#level > MAX_LEVELS) {
        const isLong = this.#parts > MAX_PARTS;
        const most = isLong ? `${groupDigits(MAX_PARTS)} names and values` : `${MAX_LEVELS} levels`;
        return new McpFault("too_large", `${subject} has more than ${most}`);
      }
    }
    return undefined;
  }

  #readByte(byte: number): void {
    this.#isLineEmpty = false;
    if (this.#isInString) {
      if (this.#isEscaped) this.#isEscaped = false;
      else if (byte === BACKSLASH) this.#isEscaped = true;
      else if (byte === QUOTE) this.#isInString = false;
    } else if (byte === QUOTE) this.#isInString = true;
    else if (byte === COMMA || byte === COLON) this.#parts += 1;
    else if (byte === 91 || byte === 123) {
      // "[" and "{"
      this.#parts += 1;
      this.#level += 1;
    } else if ((byte === 93 || byte === 125) && this.#level > 0) this.#level -= 1;
  }

  /** A string of JSON ends with its line at the latest: comments cannot hide later lines. */
  #endLine(byte: number): void {
    this.#isInString = false;
    this.#isEscaped = false;
    if (this.#end === "line" && byte === LINE_FEED) this.#startText();
    if (byte === LINE_FEED && this.#last === CARRIAGE_RETURN) return;
    if (this.#end === "event" && this.#isLineEmpty) this.#startText();
    this.#isLineEmpty = true;
  }

  #startText(): void {
    this.#bytes = 0;
    this.#parts = 0;
    this.#level = 0;
  }
}

// Bounds the bodies of HTTP responses. Counts decoded bytes, so that a compressed body cannot
// exceed the limit.

/** Size of an answer, over all its responses. */
export interface AnswerSize {
  bytes: number;
}

interface BodyBounds {
  /** Counts the body. `undefined` for a body without an end, whose texts alone are bounded. */
  readonly size: AnswerSize | undefined;
  readonly json: JsonMeter;
  readonly maxBytes: number;
  /** The subject of the fault. For example, "its answer". */
  readonly subject: string;
  /** Resolves when more may be read. */
  readonly waitForTurn: () => Promise<void> | undefined;
  /** Called once, before reading the body fails with the same fault. */
  readonly onExcess: (fault: McpFault) => void;
}

/**
 * Returns the response with a body that fails, and closes its connection, once it exceeds the
 * limit.
 */
export function boundResponse(response: Response, bounds: BodyBounds): Response {
  const { body, status, statusText, headers, url } = response;
  if (body === null) return response;
  let reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  const bounded = new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        // `response.body` and not `body`: fetch cancels a body once its response is
        // garbage-collected.
        reader ??= response.body?.getReader();
        await bounds.waitForTurn();
        const read = await reader?.read();
        if (read?.value === undefined) return controller.close();
        const { size, json, maxBytes, subject } = bounds;
        if (size !== undefined) size.bytes += read.value.byteLength;
        const isTooLong = size !== undefined && size.bytes > maxBytes;
        const fault = isTooLong
          ? createTooLargeFault(subject, maxBytes)
          : json.read(read.value, subject);
        if (fault === undefined) return controller.enqueue(read.value);
        bounds.onExcess(fault);
        controller.error(fault);
        await reader?.cancel(fault).catch(() => undefined);
      },
      cancel: (reason) => (reader ?? body).cancel(reason),
    },
    { highWaterMark: 0 },
  );
  const copy = new Response(bounded, { status, statusText, headers });
  Object.defineProperty(copy, "url", { value: url });
  return copy;
}
