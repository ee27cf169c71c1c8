// Bounds the structure of the JSON texts of a server before anything parses them. A message within the
// limit of bytes can still block the event loop for 15 s by its keys, or exceed the call stack by its
// levels. Counts the bytes `{ [ , :` outside of strings, and the bytes of each text, in linear time.

import { grouped } from "../kernel/check.ts";
import { McpFault, tooLarge } from "./mcp-fault.ts";

/** The most names and values in one message. This many take up to 1 s to parse, check and store. */
export const MAX_PARTS = 200_000;
/** The most levels of one message, as of the data that a tool returns. */
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

  /** Reads a chunk. Returns a fault about `what` once a text exceeds a limit. */
  read(chunk: Uint8Array, what: string): McpFault | undefined {
    for (let index = 0; index < chunk.length; index += 1) {
      const byte = chunk[index] ?? 0;
      this.#bytes += 1;
      const isLineEnd = this.#end === "line" && byte === LINE_FEED;
      if (this.#bytes > this.#maxBytes && !isLineEnd) return tooLarge(what, this.#maxBytes);
      if (byte === LINE_FEED || byte === CARRIAGE_RETURN) this.#endLine(byte);
      else this.#readByte(byte);
      this.#last = byte;
      if (this.#parts > MAX_PARTS)
        return tooComplex(what, `more than ${grouped(MAX_PARTS)} names and values`);
      if (this.#level > MAX_LEVELS) return tooComplex(what, `more than ${MAX_LEVELS} levels`);
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
    else if (isOpening(byte)) {
      this.#parts += 1;
      this.#level += 1;
    } else if (isClosing(byte) && this.#level > 0) this.#level -= 1;
  }

  /** A string of JSON ends with its line at the latest: comments cannot hide what follows them. */
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

/** True for `[` and `{`. */
function isOpening(byte: number): boolean {
  return byte === 91 || byte === 123;
}

/** True for `]` and `}`. */
function isClosing(byte: number): boolean {
  return byte === 93 || byte === 125;
}

function tooComplex(what: string, limit: string): McpFault {
  return new McpFault("too_large", `${what} has ${limit}`);
}
