// Ends the last event of a stream whose server left out the blank line after it: without it the
// providers of the AI SDK drop the event.

const BLANK_LINE = new TextEncoder().encode("\n\n");

/** Returns the response; a stream of events ends with a blank line, even if its connection breaks. */
export function withLastEvent(response: Response): Response {
  const { body, headers } = response;
  if (body === null || headers.get("content-type")?.includes("text/event-stream") !== true)
    return response;
  const reader: ReadableStreamDefaultReader<Uint8Array> = body.getReader();
  let broken: { readonly thrown: unknown } | undefined;
  const pull = async (controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> => {
    if (broken !== undefined) throw broken.thrown;
    try {
      const { done, value } = await reader.read();
      if (!done) return controller.enqueue(value);
      controller.enqueue(BLANK_LINE);
      controller.close();
    } catch (thrown) {
      // The next pull fails: until then the last event can be read.
      broken = { thrown };
      controller.enqueue(BLANK_LINE);
    }
  };
  const cancel = (reason: unknown): Promise<void> => reader.cancel(reason);
  const ended = new ReadableStream<Uint8Array>({ pull, cancel }, { highWaterMark: 0 });
  return new Response(ended, response);
}
