// EventSplitter: cuts a stream of server-sent events into the data of each.
// Owns the line and the event that have not ended yet. Names, ids and comments are skipped: nothing here uses them.
// E1. No byte is looked at twice, however small the pieces are.

import { GrowingBytes } from "./growing-bytes.ts";

const DATA_FIELD = "data:";
const BYTE_ORDER_MARK = "\uFEFF";
const LINE_FEED = 10;
const FIRST_OF_DATA = DATA_FIELD.charCodeAt(0);

export class EventSplitter {
  readonly #line = new GrowingBytes();
  #data: string | undefined;
  #isBegun = false;

  /** How much is kept of what has not ended yet. */
  get heldBytes(): number {
    return this.#line.length + (this.#data?.length ?? 0);
  }

  /** Takes the next piece of the stream and hands over the data of each event that it completes. */
  push(piece: Uint8Array, take: (data: string) => void): void {
    const bytes = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength);
    let start = 0;
    for (let end = bytes.indexOf(LINE_FEED); end !== -1; end = bytes.indexOf(LINE_FEED, start)) {
      this.#endLine(bytes.subarray(start, end), take);
      start = end + 1;
    }
    if (start < bytes.length) this.#line.push(bytes.subarray(start));
  }

  /** Hands over the last event of a stream that ended without the empty line behind it. */
  end(take: (data: string) => void): void {
    this.push(Buffer.from("\n\n"), take);
  }

  #endLine(rest: Buffer, take: (data: string) => void): void {
    const line = this.#lineWith(rest);
    if (line.startsWith(DATA_FIELD)) {
      const value = line.slice(
        line.charAt(DATA_FIELD.length) === " " ? DATA_FIELD.length + 1 : DATA_FIELD.length,
      );
      this.#data = this.#data === undefined ? value : `${this.#data}\n${value}`;
    } else if (line === "" && this.#data !== undefined) {
      const data = this.#data;
      this.#data = undefined;
      take(data);
    }
  }

  /** The line that ends with `rest`. Lines that hold no data are not made text of, only told apart from empty ones. */
  #lineWith(rest: Buffer): string {
    if (this.#line.length > 0) {
      this.#line.push(rest);
      const line = this.#line.bytes.toString();
      this.#line.clear();
      return this.#trimmed(line);
    }
    const isOther = this.#isBegun && rest.length > 1 && rest[0] !== FIRST_OF_DATA;
    return isOther ? ":" : this.#trimmed(rest.toString());
  }

  #trimmed(line: string): string {
    const from = !this.#isBegun && line.startsWith(BYTE_ORDER_MARK) ? 1 : 0;
    this.#isBegun = true;
    return line.slice(from, line.endsWith("\r") ? -1 : undefined);
  }
}
