// Bounds the bodies of HTTP responses. Counts decoded bytes, so that a compressed body cannot exceed the limit.

import type { JsonMeter } from "./json-meter.ts";
import { tooLarge, type McpFault } from "./mcp-fault.ts";

/** The bytes of one answer, over as many responses as it takes. */
export interface AnswerSize {
  bytes: number;
}

export interface BodyBounds {
  /** Counts the body. `undefined` for a body without an end, whose texts alone are bounded. */
  readonly size: AnswerSize | undefined;
  readonly json: JsonMeter;
  readonly maxBytes: number;
  /** The subject of the fault. For example, "its answer". */
  readonly what: string;
  /** Resolves when more may be read. */
  readonly waitForTurn: () => Promise<void> | undefined;
  /** Called once, before reading the body fails with the same fault. */
  readonly onExcess: (fault: McpFault) => void;
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
  const { size, json, maxBytes, what } = bounds;
  if (size !== undefined) size.bytes += chunk.byteLength;
  return size !== undefined && size.bytes > maxBytes
    ? tooLarge(what, maxBytes)
    : json.read(chunk, what);
}
