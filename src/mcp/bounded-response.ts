// Bounds the bodies of HTTP responses. Counts decoded bytes, so that a compressed body cannot exceed the limit.

import { grouped } from "../kernel/check.ts";
import type { JsonMeter } from "./json-meter.ts";
import { McpFault } from "./mcp-fault.ts";

/** Counts the bytes of one body against its limit. */
export interface ByteMeter {
  /** Counts a chunk. Returns the number of bytes that the limit applies to. */
  count(chunk: Uint8Array): number;
}

export interface BodyBounds {
  readonly meter: ByteMeter;
  readonly json: JsonMeter;
  readonly maxBytes: number;
  /** The subject of the fault. For example, "its answer". */
  readonly what: string;
  /** Resolves when more may be read. */
  readonly waitForTurn: () => Promise<void> | undefined;
  /** Called once, before reading the body fails with the same fault. */
  readonly onExcess: (fault: McpFault) => void;
}

/** Creates the fault for an answer of more bytes than the limit. */
export function tooLarge(what: string, maxBytes: number): McpFault {
  return new McpFault("too_large", `${what} is longer than ${grouped(maxBytes)} bytes ${OPTION}`);
}

const OPTION = "(maxResponseBytes)";

/** True for a fault of `tooLarge`: no option raises the other limits of an answer. */
export function isSizeExcess({ message }: McpFault): boolean {
  return message.endsWith(OPTION);
}

/** Returns the response with a body that fails, and closes its connection, once it exceeds the limit. */
export function boundResponse(response: Response, bounds: BodyBounds): Response {
  const { body, status, statusText, headers, url } = response;
  if (body === null) return response;
  let reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  const bounded = new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        // `response.body` and not `body`: fetch cancels a body once its response is garbage-collected.
        reader ??= response.body?.getReader();
        await bounds.waitForTurn();
        const read = await reader?.read();
        if (read?.value === undefined) return controller.close();
        const fault = findExcess(read.value, bounds);
        if (fault === undefined) return controller.enqueue(read.value);
        bounds.onExcess(fault);
        controller.error(fault);
        await reader?.cancel(fault).catch(() => undefined);
      },
      cancel: (reason) => (reader ?? body).cancel(reason),
    },
    { highWaterMark: 0 },
  );
  const copy = new Response(bounded, { status, statusText, headers });
  Object.defineProperty(copy, "url", { value: url });
  return copy;
}

function findExcess(chunk: Uint8Array, bounds: BodyBounds): McpFault | undefined {
  const { meter, json, maxBytes, what } = bounds;
  return meter.count(chunk) > maxBytes ? tooLarge(what, maxBytes) : json.read(chunk, what);
}

/** Counts all bytes of one answer, over as many responses as it takes. */
export class AnswerMeter implements ByteMeter {
  #bytes = 0;

  count({ byteLength }: Uint8Array): number {
    this.#bytes += byteLength;
    return this.#bytes;
  }
}

const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;

/** Counts the bytes of each server-sent event. An event ends with an empty line. */
export class EventMeter implements ByteMeter {
  #eventBytes = 0;
  #isLineEmpty = true;
  #last = 0;

  count(chunk: Uint8Array): number {
    let longest = 0;
    for (const byte of chunk) {
      this.#eventBytes += 1;
      const isSecondHalf = byte === LINE_FEED && this.#last === CARRIAGE_RETURN;
      this.#last = byte;
      if (isSecondHalf) continue;
      const isLineEnd = byte === LINE_FEED || byte === CARRIAGE_RETURN;
      if (isLineEnd && this.#isLineEmpty) {
        longest = Math.max(longest, this.#eventBytes);
        this.#eventBytes = 0;
      }
      this.#isLineEmpty = isLineEnd;
    }
    return Math.max(longest, this.#eventBytes);
  }
}
