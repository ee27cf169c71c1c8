// GrowingBytes: bytes that come in pieces of any size, kept as one.
// Owns a copy, which grows by doubling up to the most that is kept: pieces of a single byte cost no object each, and each byte is copied a
// few times at most.

const FIRST_BYTES = 4096;

export class GrowingBytes {
  #bytes = Buffer.alloc(0);
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
    this.#bytes = Buffer.alloc(0);
    this.#length = 0;
  }
}
