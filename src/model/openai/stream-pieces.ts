// StreamPieces: what comes out of a stream of bytes, piece by piece, at less cost than the iterator of the stream itself.
// Owns the stream: to stop reading destroys it, and what it was read from. What has arrived at once, megabytes maybe, does not hold up the
// process: everything else has its turn in between.

import type { Readable } from "node:stream";

import { endOfTurn } from "../../kernel/throttle.ts";

/** The most that is handed over as one piece, and in one turn of the event loop; a piece counts for so many bytes at least. */
const PIECE_BYTES = 64 * 1024;
const BYTES_AT_ONCE = 256 * 1024;
const LEAST_PIECE_BYTES = 512;
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
      await endOfTurn();
      this.#bytesOfTurn = 0;
    }
    for (;;) {
      const here = Math.min(this.#stream.readableLength, PIECE_BYTES);
      const piece: unknown = here === 0 ? this.#stream.read() : this.#stream.read(here);
      if (piece instanceof Uint8Array) {
        this.#bytesOfTurn += Math.max(piece.length, LEAST_PIECE_BYTES);
        return { value: piece, done: false };
      }
      if (this.#stream.readableEnded) return END;
      if (this.#fault !== undefined) throw this.#fault.thrown;
      if (this.#stream.closed)
        throw this.#stream.errored ?? new Error("The server closed the connection.");
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  async return(): Promise<IteratorResult<Uint8Array, undefined>> {
    this.#stream.destroy();
    return END;
  }
}
