// What is done to a body for the way: the encodings that we ask for, undone as the pieces come. However little was sent, nothing is
// decoded before the next piece is asked for, so that a reader that counts what comes out is safe.

import { pipeline, type Readable, type Transform } from "node:stream";
import {
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createInflateRaw,
  createZstdDecompress,
} from "node:zlib";

import { messageOf } from "../../kernel/error.ts";
import { isRecord } from "../../kernel/json.ts";
import { StreamPieces } from "./stream-pieces.ts";

/** For the header `accept-encoding`. */
export const ACCEPTED_ENCODINGS = "gzip, br";

type Decode = (options: { readonly chunkSize: number }) => Transform;

const DECODERS: ReadonlyMap<string, Decode> = new Map<string, Decode>([
  ["gzip", createGunzip],
  ["x-gzip", createGunzip],
  ["br", createBrotliDecompress],
  // Not asked for: some servers send them all the same.
  ["deflate", createInflate],
  ["zstd", createZstdDecompress],
]);
const PIECE_BYTES = 64 * 1024;
/** No encoding makes a body longer by more than that. One that does would never come to an end by what comes out of it. */
const MOST_EXTRA_BYTES = 1024 * 1024;
/** How zlib says that there should have been more. */
const CUT = "Z_BUF_ERROR";

/** The server did not send what it said, or what was asked for; to ask again would not help. */
export class UndecodableBody extends Error {}

/**
 * The pieces of a body in this encoding, decoded. To stop reading them destroys it. They fail with an `UndecodableBody` if they are not
 * in their encoding, or if the request did not accept it.
 */
export function decoded(body: Readable, encoding: string | null): AsyncIterable<Uint8Array> {
  const name = encoding?.trim().toLowerCase() ?? "";
  if (name === "identity" || name === "") return new StreamPieces(body);
  return piecesThrough(body, name);
}

async function* piecesThrough(
  body: Readable,
  name: string,
): AsyncGenerator<Uint8Array, void, undefined> {
  const decode = DECODERS.get(name);
  if (decode === undefined) {
    body.destroy();
    throw new UndecodableBody(`a body in the encoding ${name}, which the request did not accept`);
  }
  const isRaw = name === "deflate" && (await isRawDeflate(body));
  const decoder = (isRaw ? createInflateRaw : decode)({ chunkSize: PIECE_BYTES });
  let taken = 0;
  let given = 0;
  async function* counted(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const piece of pieces) {
      taken += piece.length;
      if (taken - given > MOST_EXTRA_BYTES) throw undecodable(name, "it has no end");
      yield piece;
    }
  }
  const pieces: AsyncIterable<Uint8Array> = pipeline(body, counted, decoder, () => undefined);
  try {
    for await (const piece of pieces) {
      given += piece.length;
      yield piece;
    }
  } catch (thrown) {
    throw decoder.errored === thrown && isWrong(thrown)
      ? undecodable(name, messageOf(thrown))
      : thrown;
  }
}

/** True for a body that some servers send as `deflate`: one without the header of zlib. */
async function isRawDeflate(body: Readable): Promise<boolean> {
  const readable = new Promise((resolve) => body.once("readable", resolve).once("close", resolve));
  if (body.readableLength === 0) await readable;
  const first: unknown = body.read();
  if (!(first instanceof Uint8Array)) return false;
  body.unshift(first);
  return ((first[0] ?? 0) & 0x0f) !== 8;
}

/** zlib complains, and not only of what is missing. */
function isWrong(thrown: unknown): boolean {
  return isRecord(thrown) && "errno" in thrown && thrown["code"] !== CUT;
}

function undecodable(encoding: string, why: string): UndecodableBody {
  return new UndecodableBody(`a body that is not in its encoding ${encoding} (${why})`);
}
