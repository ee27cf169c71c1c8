// What is read of a response: a body in its pieces, whole up to a bound, or its beginning.

import { GrowingBytes } from "./growing-bytes.ts";
import { LeanResponse } from "./lean-fetch.ts";

/** Errors and redirects say what matters at once. */
const OPENING_BYTES = 64 * 1024;
/** Then everything else has its turn. */
const PIECES_AT_ONCE = 512;

/** The pieces of a body as they arrive. To stop reading them closes the socket. Many at once do not hold up the process. */
export async function* piecesOf(response: Response): AsyncGenerator<Uint8Array, void, undefined> {
  const pieces = response instanceof LeanResponse ? response.chunks : response.body;
  let count = 0;
  for await (const piece of pieces ?? []) {
    yield piece;
    count += 1;
    if (count % PIECES_AT_ONCE === 0) await new Promise((resolve) => setImmediate(resolve));
  }
}

/** The beginning of a body, or as much of it as came before it broke. */
export async function openingOf(response: Response): Promise<string> {
  const bytes = new GrowingBytes();
  try {
    for await (const piece of piecesOf(response)) {
      bytes.push(piece);
      if (bytes.length >= OPENING_BYTES) break;
    }
  } catch {
    // An answer that was no success is known by its status; what it says besides is a courtesy.
  }
  return bytes.bytes.toString("utf8", 0, OPENING_BYTES);
}
