// Bounds the lines that a server writes to its standard output. Holds back chunks without a line end,
// because the SDK's buffer copies the whole line for each chunk.

import { ReadBuffer } from "@modelcontextprotocol/client";

import { tooLarge } from "./bounded-response.ts";
import { JsonMeter } from "./json-meter.ts";

const WHAT = "its answer";

/** The buffer of the SDK's transport, which closes the connection when `append` throws. */
export class BoundedLines extends ReadBuffer {
  readonly #maxBytes: number;
  readonly #json = new JsonMeter("line");
  #heldBack: Buffer[] = [];
  #lineBytes = 0;

  constructor(maxBytes: number) {
    super({ maxBufferSize: Infinity });
    this.#maxBytes = maxBytes;
  }

  /** Throws a fault `too_large` if a line exceeds a limit. */
  override append(chunk: Buffer): void {
    const excess = this.#json.read(chunk, WHAT);
    if (excess !== undefined) throw excess;
    const end = chunk.indexOf("\n");
    const bytes = this.#lineBytes + (end < 0 ? chunk.length : end);
    if (bytes > this.#maxBytes) throw tooLarge(WHAT, this.#maxBytes);
    this.#heldBack.push(chunk);
    this.#lineBytes = end < 0 ? bytes : chunk.length - chunk.lastIndexOf("\n") - 1;
    if (end < 0) return;
    super.append(Buffer.concat(this.#heldBack));
    this.#heldBack = [];
  }

  override clear(): void {
    this.#heldBack = [];
    super.clear();
  }
}
