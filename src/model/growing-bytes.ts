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
