// Parses an event stream (`text/event-stream`) from a response body. `EventSource` cannot send the
// token.

export interface StreamEvent {
  readonly id: string;
  readonly data: string;
}

/**
 * Yields the events of a stream in order, until the stream ends. An incomplete last event is
 * dropped.
 */
export async function* parseEvents(
  body: ReadableStream<Uint8Array>,
): AsyncGenerator<StreamEvent, void> {
  // Text without an end of an event is not searched again, because a long event arrives in many
  // chunks.
  let pieces: string[] = [];
  let tail = "";
  const decoder = new TextDecoder();
  for await (const bytes of readChunks(body)) {
    const text = decoder.decode(bytes, { stream: true });
    pieces.push(text);
    tail += text;
    const blocks = BLANK_LINE.test(tail) ? pieces.join("").split(BLANK_LINE) : [];
    const rest = blocks.pop();
    if (rest !== undefined) pieces = [rest];
    tail = (rest ?? tail).slice(-MAX_BLANK_LINE_PREFIX);
    for (const block of blocks) {
      const event = parseEvent(block);
      if (event !== undefined) yield event;
    }
  }
}

const BLANK_LINE = /\r?\n\r?\n/;
const MAX_BLANK_LINE_PREFIX = "\r\n\r\n".length - 1;

/** Yields the chunks of a stream. Not every browser can iterate a stream. */
async function* readChunks(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/** Parses an event. `undefined` for a comment, which the server sends as a keep-alive. */
function parseEvent(block: string): StreamEvent | undefined {
  const data: string[] = [];
  let id = "";
  for (const line of block.split(/\r?\n/)) {
    const [, field, value = ""] = /^([a-z]+): ?(.*)$/s.exec(line) ?? [];
    if (field === "data") data.push(value);
    if (field === "id") id = value;
  }
  return data.length === 0 ? undefined : { id, data: data.join("\n") };
}
