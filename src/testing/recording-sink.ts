import type { EventSink, EspalierEvent, EventType } from "../protocol/event.ts";

/** Keeps every event it is given. */
export class RecordingSink implements EventSink {
  readonly events: EspalierEvent[] = [];

  emit(event: EspalierEvent): void {
    this.events.push(event);
  }

  /** The events of one type, in order. */
  ofType<T extends EventType>(type: T): readonly Extract<EspalierEvent, { readonly type: T }>[] {
    return this.events.filter(
      (event): event is Extract<EspalierEvent, { readonly type: T }> => event.type === type,
    );
  }
}
