// EventSplitter: cuts a stream of server-sent events into the data of each.
// Owns the line and the event that have not ended yet. Names, ids and comments are skipped: nothing here uses them.
//
// The work grows with the bytes, however small the pieces are: what is held is not looked through again.

import { tryParseJson } from "../kernel/json.ts";

// GrowingBytes: bytes that come in pieces of any size, kept as one.
// Owns a copy, which grows by doubling up to the most that is kept: pieces of a single byte cost no object each, and each byte is copied a
// few times at most. A piece that stays alone, as most do, is not copied.

const FIRST_BYTES = 4096;
const NOTHING = Buffer.alloc(0);

export class GrowingBytes {
  #bytes: Buffer = NOTHING;
  #length = 0;
  readonly #mostBytes: number;

  /** `mostBytes`: the caller makes sure that there are no more; then no room is held for them. */
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

  /** All of it; good until the next piece. */
  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }

  clear(): void {
    this.#bytes = NOTHING;
    this.#length = 0;
  }
}

const DATA_FIELD = "data:";
/** llama.cpp reports an error in a field with this name. */
const ERROR_FIELD = "error:";
const BYTE_ORDER_MARK = "\uFEFF";
const LINE_FEED = 10;
const END_MARK = "[DONE]";
const FIELD_NAMES = ["data", "event", "id", "retry", "error"] as const;

/**
 * Returns true for the beginning of a stream of events, false for that of another body, and
 * `undefined` as long as it contains only comments and a part of a name.
 *
 * @example beginsWithEvent(": hello\n\n<html>") // false
 */
export function detectEventStream(text: string): boolean | undefined {
  // A byte order mark that was cut is decoded as a replacement character.
  const lines = text.replace(/^[\uFEFF\uFFFD]/, "").split(/\r?\n/);
  const first = lines.find((line) => line.trim() !== "" && !line.startsWith(":"));
  if (first === undefined) return undefined;
  if (FIELD_NAMES.some((name) => first.startsWith(`${name}:`))) return true;
  return FIELD_NAMES.some((name) => name.startsWith(first)) ? undefined : false;
}

/** Returns true unless the last data of a stream was cut. All servers of models send JSON. */
export function isWholeData(data: string): boolean {
  return data === END_MARK || tryParseJson(data) !== undefined;
}

export class EventSplitter {
  readonly #line = new GrowingBytes();
  /** The first line of data of the event. */
  #data: string | undefined;
  /** All of its data, if there is more than one line: as bytes, since texts that are joined line by line cost many times what they say. */
  readonly #joined = new GrowingBytes();
  #isBegun = false;

  /** How much is kept of what has not ended yet. */
  get heldBytes(): number {
    const dataBytes = Math.max(this.#joined.length, this.#data?.length ?? 0);
    return this.#line.length + dataBytes;
  }

  /** Takes the next piece of the stream and hands over the data of each event that it completes. */
  push(piece: Uint8Array, take: (data: string) => void): void {
    const bytes = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength);
    const last = bytes.lastIndexOf(LINE_FEED);
    if (last >= 0)
      for (const line of this.#textWith(bytes.subarray(0, last)).split("\n"))
        this.#endLine(line, take);
    if (last + 1 < bytes.length) this.#line.push(bytes.subarray(last + 1));
  }

  /** Hands over the last event of a stream that ended without the empty line behind it. */
  end(take: (data: string) => void): void {
    this.push(Buffer.from("\n\n"), take);
  }

  /** What was held and these bytes, which end where a line does, and so within no character. */
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
