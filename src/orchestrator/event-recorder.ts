// EventRecorder: numbers, places and hands out the events of one run.
// Owns the sequence and the subscribers. E1: numbered without gaps. E2: a sink that throws is reported once and harms nobody.

import type { Clock } from "../kernel/clock.ts";
import { messageOf } from "../kernel/error.ts";
import { deepFreeze } from "../kernel/json.ts";
import type { EventDraft, EventSink, Tracing } from "../protocol/event-sink.ts";
import type { Correlation, EspalierEvent, EventBody, TraceIds } from "../protocol/event.ts";
import { localTracing } from "./local-tracing.ts";

export class EventRecorder {
  readonly #clock: Clock;
  #tracing: Tracing;
  readonly #sinks: Set<EventSink>;
  readonly #reported = new WeakSet<EventSink>();
  #seq = 0;

  constructor(options: { readonly clock: Clock; readonly tracing: Tracing; readonly sinks: readonly EventSink[] }) {
    this.#clock = options.clock;
    this.#tracing = options.tracing;
    this.#sinks = new Set(options.sinks);
  }

  /** Records one event and gives it to everyone who listens. */
  record(correlation: Correlation, body: EventBody): EspalierEvent {
    const atMs = this.#clock.nowMs();
    const { traceId, spanId } = this.#place({ atMs, correlation, body });
    this.#seq += 1;
    const event: EspalierEvent = { seq: this.#seq, atMs, ...correlation, traceId, spanId, ...body };
    deepFreeze(event);
    for (const sink of this.#sinks) this.#hand(sink, event);
    return event;
  }

  /** Runs a model call or a tool body inside the span of its place. */
  within<T>(correlation: Correlation, work: () => T): T {
    return this.#tracing.within(correlation, work);
  }

  /** Adds a sink; the returned function takes it away again. */
  subscribe(sink: EventSink): () => void {
    this.#sinks.add(sink);
    return () => this.#sinks.delete(sink);
  }

  #place(draft: EventDraft): TraceIds {
    try {
      return this.#tracing.place(draft);
    } catch (cause) {
      warn(`The tracing threw at ${draft.body.type} (${messageOf(cause)}); the run goes on without it.`);
      this.#tracing = localTracing();
      return this.#tracing.place(draft);
    }
  }

  #hand(sink: EventSink, event: EspalierEvent): void {
    try {
      sink.take(event);
    } catch (cause) {
      if (this.#reported.has(sink)) return;
      this.#reported.add(sink);
      warn(`An event sink threw at ${event.type} (${messageOf(cause)}); the run goes on.`);
    }
  }
}

function warn(message: string): void {
  process.emitWarning(message, "EspalierWarning");
}
