// Tables of functions by event type. Without schemas, for readers that load few files.

import type { EspalierEvent, EventType } from "./event.ts";

/** A function for each of some event types. */
export type EventHandlers<Args extends readonly unknown[] = [], Result = void> = {
  readonly [T in EventType]?: (event: EspalierEvent<T>, ...args: Args) => Result;
};

/** Calls the handler for an event. Returns its result, and `undefined` without a handler. */
export function handleEvent<T extends EventType, Args extends readonly unknown[], Result>(
  handlers: EventHandlers<Args, Result>,
  event: EspalierEvent<T>,
  ...args: Args
): Result | undefined {
  return handlers[event.type]?.(event, ...args);
}
