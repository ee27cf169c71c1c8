// A response as its head has come, whatever sent the request: what is read of the head, and the pieces of the body.

import { Readable } from "node:stream";

import { GrowingBytes } from "../growing-bytes.ts";
import { StreamPieces } from "./stream-pieces.ts";

export interface WireResponse {
  readonly status: number;
  /** The pieces of the body as they arrive, decoded. To stop reading them closes the socket. */
  readonly pieces: AsyncIterable<Uint8Array>;
  /** The value of a header, by its name in small letters; null: there is none. */
  header(name: string): string | null;
  /** All of them. */
  headers(): Headers;
}

/** The response of a `fetch`. */
export function fetchedResponse({ status, headers, body }: Response): WireResponse {
  return {
    status,
    pieces: new StreamPieces(body === null ? Readable.from([]) : Readable.fromWeb(body)),
    header: (name) => headers.get(name),
    headers: () => headers,
  };
}

/** Of names and values in turn. */
export function headersOf(fields: readonly string[]): Headers {
  const headers = new Headers();
  for (let at = 0; at + 1 < fields.length; at += 2)
    headers.append(fields[at] ?? "", fields[at + 1] ?? "");
  return headers;
}

const [LEAST_STATUS, MOST_STATUS] = [200, 599];

/** Throws a `RangeError` for what is no status of a response. */
export function checkStatus(status: number): void {
  if (status >= LEAST_STATUS && status <= MOST_STATUS) return;
  throw new RangeError(`The server answered with the status ${status}.`);
}

/** True for a status of success. */
export function isSuccess({ status }: WireResponse): boolean {
  return status >= 200 && status < 300;
}

/** Errors and redirects say what matters at once. */
const OPENING_BYTES = 64 * 1024;

/** The beginning of a body, or as much of it as came before it broke. */
export async function openingOf({ pieces }: WireResponse): Promise<string> {
  const bytes = new GrowingBytes();
  try {
    for await (const piece of pieces) {
      bytes.push(piece);
      if (bytes.length >= OPENING_BYTES) break;
    }
  } catch {
    // An answer that was no success is known by its status; what it says besides is a courtesy.
  }
  return bytes.bytes.toString("utf8", 0, OPENING_BYTES);
}
