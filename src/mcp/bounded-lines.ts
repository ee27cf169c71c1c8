// Bounds the lines that a server writes to its standard output. Holds back chunks without a line end,
// because the SDK's buffer copies the whole line for each chunk.

import { ReadBuffer } from "@modelcontextprotocol/client";

import { JsonMeter } from "./json-meter.ts";

/** The buffer of the SDK's transport, which closes the connection when `append` throws. */
export class BoundedLines extends ReadBuffer {
  readonly #json: JsonMeter;
  #heldBack: Buffer[] = [];

  constructor(maxBytes: number) {
    super({ maxBufferSize: Infinity });
    this.#json = new JsonMeter("line", maxBytes);
  }

  /** Throws a fault `too_large` if a line exceeds a limit. */
  override append(chunk: Buffer): void {
    const excess = this.#json.read(chunk, "its answer");
    if (excess !== undefined) throw excess;
    this.#heldBack.push(chunk);
    if (!chunk.includes("\n")) return;
    super.append(Buffer.concat(this.#heldBack));
    this.#heldBack = [];
  }

  override clear(): void {
    this.#heldBack = [];
    super.clear();
  }
}
