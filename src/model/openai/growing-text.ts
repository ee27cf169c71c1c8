// GrowingText: text that comes in many small pieces, kept as one.
// Owns what came. A text that grows piece by piece holds each piece, and what joins it to the others, for as long as it lives: many times
// what it says. Here pieces are joined for good by the thousand.

const PIECES = 1_024;

export class GrowingText {
  #joined = "";
  readonly #pieces: string[] = [];
  #length = 0;

  push(piece: string): void {
    if (piece === "") return;
    this.#pieces.push(piece);
    this.#length += piece.length;
    if (this.#pieces.length === PIECES) this.#join();
  }

  get length(): number {
    return this.#length;
  }

  get isEmpty(): boolean {
    return this.#length === 0;
  }

  toString(): string {
    if (this.#pieces.length > 0) this.#join();
    return this.#joined;
  }

  #join(): void {
    this.#joined += this.#pieces.join("");
    this.#pieces.length = 0;
  }
}
