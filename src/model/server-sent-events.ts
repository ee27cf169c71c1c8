// EventSplitter: splits a stream of server-sent events into the data of each. Owns the incomplete
// line and event. Skips names, ids and comments, which have no use here. Takes linear time, however
// small the pieces are: buffered bytes are not searched again.

import { tryParseJson } from "../kernel/json.ts";

// GrowingBytes: one buffer for bytes that come in pieces of any size. Owns a copy, which grows by
// doubling up to its maximum, so that single bytes cost no object each, and each byte is copied a
// few times at most. A first piece is not copied until a second one follows.

const FIRST_BYTES = 4096;
const NOTHING = Buffer.alloc(0);

export class GrowingBytes {
  #bytes: Buffer = NOTHING;
  #length = 0;
  readonly #mostBytes: number;

  /** `mostBytes`: upper limit of the buffer. The caller must not push more. */
  constructor(mostBytes = Infinity) {
    this.#mostBytes = mostBytes;
  }

  get length(): number {
    return this.#length;
  }

  push(piece: Uint8Array): void {
    const length = this.#length + piece.length;
    if (this.#length === 0) {
      this.#bytes = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength);
      this.#length = length;
      return;
    }
    if (length > this.#bytes.length) {
      const doubled = Math.min(Math.max(this.#bytes.length * 2, FIRST_BYTES), this.#mostBytes);
      const grown = Buffer.allocUnsafe(Math.max(length, doubled));
      this.#bytes.copy(grown, 0, 0, this.#length);
      this.#bytes = grown;
    }
    this.#bytes.set(piece, this.#length);
    this.#length = length;
  }

  /** All bytes, valid until the next `push`. */
  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }

  clear(): void {
    this.#bytes = NOTHING;
    this.#length = 0;
  }
}

const DATA_FIELD = "data:";
/** Name of the field in which llama.cpp reports an error. */
const ERROR_FIELD = "error:";
const BYTE_ORDER_MARK = "\uFEFF";
const LINE_FEED = 10;
const END_MARK = "[DONE]";
const FIELD_NAMES = ["data", "event", "id", "retry", "error"] as const;

/**
 * Returns true for the beginning of a stream of events, false for that of another body, and
 * `undefined` as long as it contains only comments and a part of a name.
 *
 * @example detectEventStream(": hello\n\n<html>") // false
 */
export function detectEventStream(text: string): boolean | undefined {
  // A truncated byte order mark is decoded as a replacement character.
  const lines = text.replace(/^[\uFEFF\uFFFD]/, "").split(/\r?\n/);
  const first = lines.find((line) => line.trim() !== "" && !line.startsWith(":"));
  if (first === undefined) return undefined;
  if (FIELD_NAMES.some((name) => first.startsWith(`${name}:`))) return true;
  return FIELD_NAMES.some((name) => name.startsWith(first)) ? undefined : false;
}

/** Returns false if the last data of a stream was cut. All model servers send JSON. */
export function isWholeData(data: string): boolean {
  return data === END_MARK || tryParseJson(data) !== undefined;
}

export class EventSplitter {
  readonly #line = new GrowingBytes();
  /** The first line of the event's data. */
  #data: string | undefined;
  /**
   * All data of an event with several lines. As bytes: texts joined line by line use many times
   * their size.
   */
  readonly #joined = new GrowingBytes();
  #isBegun = false;

  /** Bytes of the incomplete line and event. */
  get heldBytes(): number {
    const dataBytes = Math.max(this.#joined.length, this.#data?.length ?? 0);
    return this.#line.length + dataBytes;
  }

  /** Processes the next piece of the stream. Calls `take` with the data of each completed event. */
  push(piece: Uint8Array, take: (data: string) => void): void {
    const bytes = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength);
    const last = bytes.lastIndexOf(LINE_FEED);
    if (last >= 0)
      for (const line of this.#textWith(bytes.subarray(0, last)).split("\n"))
        this.#endLine(line, take);
    if (last + 1 < bytes.length) this.#line.push(bytes.subarray(last + 1));
  }

  /** Processes the last event of a stream that ended without an empty line. */
  end(take: (data: string) => void): void {
    this.push(Buffer.from("\n\n"), take);
  }

  /**
   * Returns the text of the buffered bytes and these bytes. They end with a line, and so not within
   * a character.
   */
  #textWith(bytes: Buffer): string {
    if (this.#line.length > 0) this.#line.push(bytes);
    const text = (this.#line.length === 0 ? bytes : this.#line.bytes).toString();
    this.#line.clear();
    const isMarked = !this.#isBegun && text.startsWith(BYTE_ORDER_MARK);
    this.#isBegun = true;
    return isMarked ? text.slice(1) : text;
  }

  #endLine(ended: string, take: (data: string) => void): void {
    const line = ended.endsWith("\r") ? ended.slice(0, -1) : ended;
    if (line.startsWith(DATA_FIELD)) {
      const space = line.charAt(DATA_FIELD.length) === " " ? 1 : 0;
      this.#addData(line.slice(DATA_FIELD.length + space));
    } else if (line.startsWith(ERROR_FIELD) && this.#data === undefined) {
      const report = line.slice(ERROR_FIELD.length).trim();
      this.#addData(`{"error":${report.startsWith("{") ? report : JSON.stringify(report)}}`);
    } else if (line === "" && this.#data !== undefined) {
      const data = this.#joined.length === 0 ? this.#data : this.#joined.bytes.toString();
      this.#data = undefined;
      this.#joined.clear();
      take(data);
    }
  }

  #addData(value: string): void {
    if (this.#data === undefined) {
      this.#data = value;
      return;
    }
    if (this.#joined.length === 0) this.#joined.push(Buffer.from(this.#data));
    this.#joined.push(Buffer.from(`\n${value}`));
  }
}
