// GrowingText: a text that arrives in many small pieces. Owns the pieces. A string that grows by
// concatenation retains all of its pieces and their tree, which is many times its size. This class
// joins the pieces, a thousand at a time.

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

// TextDeltaFastPath: fast path for chunks that differ from the last one in their text alone, as
// most do. Extracts the text without parsing the rest, which is most of the cost of a stream. Owns
// the frame: the characters around the text in the last parsed chunk. The caller decides which
// chunk may be a frame.

const PROBE = "probe";
/** Used for a chunk whose text equals the first probe. */
const OTHER_PROBE = "other";
/** Maximum attempts to find a frame in a stream, whose chunks may all be different. */
const MAX_PROBES = 8;
/** Text without escapes in JSON: no quote, backslash or control character. */
const UNESCAPED_TEXT = /^[ !#-[\]-\uffff]*$/;

export class TextDeltaFastPath {
  readonly #parseText: (chunk: string) => string | undefined;
  #before = "";
  #after = "";
  #length = Infinity;
  #probes = 0;

  /**
   * `parseText` parses a chunk. It returns the text if the chunk adds nothing else, or else
   * `undefined`.
   */
  constructor(parseText: (chunk: string) => string | undefined) {
    this.#parseText = parseText;
  }

  /** Returns the text of a chunk in the frame, or `undefined` if the chunk has to be parsed. */
  extractText(chunk: string): string | undefined {
    if (chunk.length < this.#length) return undefined;
    const [from, to] = [this.#before.length, chunk.length - this.#after.length];
    // `startsWith` and `endsWith` take three times as long for slices of longer texts.
    if (chunk.slice(0, from) !== this.#before || chunk.slice(to) !== this.#after) return undefined;
    const text = chunk.slice(from, to);
    return UNESCAPED_TEXT.test(text) ? text : undefined;
  }

  /** Uses the chunk as the frame, if a probe in place of its text would be found. */
  learn(chunk: string, text: string): void {
    const at = this.#probes === MAX_PROBES ? -1 : chunk.lastIndexOf(`"${text}"`);
    if (at < 0) return;
    this.#probes += 1;
    const before = chunk.slice(0, at + 1);
    const after = chunk.slice(at + 1 + text.length);
    const probe = text === PROBE ? OTHER_PROBE : PROBE;
    if (this.#parseText(before + probe + after) !== probe) return;
    this.#before = before;
    this.#after = after;
    this.#length = before.length + after.length;
  }
}
