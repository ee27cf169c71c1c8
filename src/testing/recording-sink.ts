import type { EventSink, EspalierEvent, EventType } from "../protocol/event.ts";

/**
 * Event sink for tests that stores every event.
 *
 * @example
 * ```ts
 * const sink = new RecordingSink();
 * await new Orchestrator({ sinks: [sink] }).start(role, "What do pears cost?").result;
 * console.log(sink.ofType("tool.started").map(({ toolName }) => toolName));
 * ```
 */
export class RecordingSink implements EventSink {
  /** Events in the order in which they were emitted. */
  readonly events: EspalierEvent[] = [];

  /** Stores an event. The orchestrator calls it. */
  emit(event: EspalierEvent): void {
    this.events.push(event);
  }

  /** Returns the events of one type, in order. */
  ofType<T extends EventType>(type: T): readonly Extract<EspalierEvent, { readonly type: T }>[] {
    return this.events.filter(
      (event): event is Extract<EspalierEvent, { readonly type: T }> => event.type === type,
    );
  }
}
