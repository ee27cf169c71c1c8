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

// AlikeChunks: the text in chunks of a stream that differ in nothing else, as most of them do: it is read without parsing the rest again,
// which is most of what a stream costs.
// Owns what stands around the text in the last chunk that was parsed. The reader of the chunks says which one may be such a frame.

const PROBE = "probe";
/** For a chunk whose text is the first: in its own place it proves nothing. */
const OTHER_PROBE = "other";
/** How often a frame is looked for in one stream: where each chunk has something of its own there is none. */
const MOST_PROBES = 8;
/** JSON between two quotation marks that stands for itself. */
// oxlint-disable-next-line no-control-regex
const PLAIN = /^[^"\\\u0000-\u001f]*$/;

export class AlikeChunks {
  readonly #textIn: (chunk: string) => string | undefined;
  #before = "";
  #after = "";
  #length = Infinity;
  #probes = 0;

  /** `textIn` parses a chunk: its text, if it adds that alone to the chunks before it; undefined otherwise. */
  constructor(textIn: (chunk: string) => string | undefined) {
    this.#textIn = textIn;
  }

  /** The text of a chunk that differs from the last frame in nothing else; undefined if it has to be parsed. */
  textOf(chunk: string): string | undefined {
    if (chunk.length < this.#length) return undefined;
    const [from, to] = [this.#before.length, chunk.length - this.#after.length];
    // Not by `startsWith` and `endsWith`, which take three times as long over texts that are parts of longer ones.
    if (chunk.slice(0, from) !== this.#before || chunk.slice(to) !== this.#after) return undefined;
    const text = chunk.slice(from, to);
    return PLAIN.test(text) ? text : undefined;
  }

  /** Takes what is around the text of a chunk, if another one in its place would be found in the same way. */
  learn(chunk: string, text: string): void {
    const at = this.#probes === MOST_PROBES ? -1 : chunk.lastIndexOf(`"${text}"`);
    if (at < 0) return;
    this.#probes += 1;
    const before = chunk.slice(0, at + 1);
    const after = chunk.slice(at + 1 + text.length);
    const probe = text === PROBE ? OTHER_PROBE : PROBE;
    if (this.#textIn(before + probe + after) !== probe) return;
    this.#before = before;
    this.#after = after;
    this.#length = before.length + after.length;
  }
}
