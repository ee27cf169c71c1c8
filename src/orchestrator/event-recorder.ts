// EventRecorder: numbers, places and hands out the events of one run.
// Owns the sequence and the subscribers. E1: numbered without gaps. E2: a sink that throws is reported once and harms nobody.

import type { Clock } from "../kernel/clock.ts";
import { messageOf } from "../kernel/error.ts";
import { deepFreeze } from "../kernel/json.ts";
import { mintTraceIds, randomHex } from "../kernel/trace-ids.ts";
import { warnOnce } from "../kernel/warn-once.ts";
import type { EventDraft, EventSink, Tracing } from "../protocol/event-sink.ts";
import type { Correlation, EspalierEvent, EventBody, TraceIds } from "../protocol/event.ts";

export class EventRecorder {
  readonly #clock: Clock;
  #tracing: Tracing;
  readonly #sinks: Set<EventSink>;
  #seq = 0;
  #lastIds: TraceIds | undefined;

  constructor(options: {
    readonly clock: Clock;
    readonly tracing: Tracing;
    readonly sinks: readonly EventSink[];
    /** Events of the run before it was paused; numbering goes on from there. Default 0. */
    readonly eventCount?: number;
  }) {
    this.#seq = options.eventCount ?? 0;
    this.#clock = options.clock;
    this.#tracing = options.tracing;
    this.#sinks = new Set(options.sinks);
  }

  /** Records one event and gives it to everyone who listens. */
  record(correlation: Correlation, body: EventBody): EspalierEvent {
    const atMs = this.#clock.nowMs();
    this.#seq += 1;
    const { traceId, spanId } = this.#place({ seq: this.#seq, atMs, correlation, body });
    const event: EspalierEvent = { seq: this.#seq, atMs, ...correlation, traceId, spanId, ...body };
    deepFreeze(event);
    for (const sink of this.#sinks) this.#hand(sink, event);
    return event;
  }

  /** How many events the run has. */
  get eventCount(): number {
    return this.#seq;
  }

  /** Runs a model call or a tool body inside the span of its place: once, whatever the tracing does. */
  within<T>(correlation: Correlation, work: () => Promise<T>): Promise<T> {
    const begun: Promise<T>[] = [];
    const begin = (): Promise<T> => {
      const under = work();
      begun.push(under);
      return under;
    };
    try {
      const given = this.#tracing.within(correlation, begin);
      if (begun[0] !== undefined && given !== begun[0]) given.catch(() => undefined);
      return begun[0] ?? given;
    } catch (cause) {
      this.#doWithoutTracing(cause);
      return begun[0] ?? work();
    }
  }

  /** Adds a sink; the returned function takes it away again. */
  subscribe(sink: EventSink): () => void {
    this.#sinks.add(sink);
    return () => this.#sinks.delete(sink);
  }

  #place(draft: EventDraft): TraceIds {
    try {
      this.#lastIds = this.#tracing.place(draft);
      return this.#lastIds;
    } catch (cause) {
      this.#doWithoutTracing(cause);
      return this.#tracing.place(draft);
    }
  }

  /** A tracing that throws is left out from then on; the events stay in the trace that they began. */
  #doWithoutTracing(cause: unknown): void {
    warnOnce(this.#tracing, `The tracing threw (${messageOf(cause)}); the run goes on without it.`);
    const ids = this.#lastIds ?? mintTraceIds(randomHex, undefined);
    this.#tracing = { place: () => ids, within: (_scope, work) => work() };
  }

  #hand(sink: EventSink, event: EspalierEvent): void {
    const complain = (cause: unknown): void => {
      warnOnce(
        sink,
        `An event sink threw at ${event.type} (${messageOf(cause)}); the run goes on.`,
      );
    };
    try {
      const given: unknown = sink.take(event);
      if (given instanceof Promise) given.catch(complain);
    } catch (cause) {
      complain(cause);
    }
  }
}
