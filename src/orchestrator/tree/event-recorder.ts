// EventRecorder: numbers, places and hands out the events of one run.
// Owns the sequence and the subscribers. E1: numbered without gaps. E2: a sink that throws is reported once and harms nobody.

import type { SteadyClock } from "../../kernel/clock.ts";
import { messageOf } from "../../kernel/error.ts";
import { deepFreeze } from "../../kernel/json.ts";
import { mintTraceIds, randomHex } from "../../kernel/trace-ids.ts";
import { warnOnce } from "../../kernel/warn-once.ts";
import { standingAt, type Standpoint } from "../../protocol/correlation.ts";
import type { EventSink, LostSpan, Tracing } from "../../protocol/event-sink.ts";
import type {
  Correlation,
  EspalierEvent,
  EventBody,
  EventDraft,
  TraceIds,
} from "../../protocol/event.ts";
import type { SpanContent } from "../../protocol/span-content.ts";
import type { EventMoment } from "../../protocol/span-scope.ts";

export class EventRecorder {
  readonly #clock: SteadyClock;
  #tracing: Tracing;
  readonly #sinks: Set<EventSink>;
  #seq = 0;
  #lastIds: TraceIds | undefined;
  #lastPlace: Correlation | undefined;

  constructor(options: {
    readonly clock: SteadyClock;
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

  /** Records one event and gives it to everyone who listens. `contents`: see `EventDraft`. */
  record(
    correlation: Correlation,
    body: EventBody,
    contents?: EventDraft["contents"],
  ): EspalierEvent {
    const atMs = this.#clock.stampMs();
    this.#seq += 1;
    this.#lastPlace = correlation;
    const said = contents === undefined ? {} : { contents };
    const ids = this.#place({ seq: this.#seq, atMs, correlation, body, ...said });
    const event: EspalierEvent = { seq: this.#seq, atMs, ...correlation, ...ids, ...body };
    deepFreeze(event);
    if (this.#sinks.size > 0) {
      const standpoint = { correlation, traceIds: () => event };
      standingAt(standpoint, () => this.#sinks.forEach((sink) => this.#hand(sink, event)));
    }
    return event;
  }

  /** How many events the run has. */
  get eventCount(): number {
    return this.#seq;
  }

  /** Runs a model call or a tool body inside the span of its place: once, whatever the tracing does. */
  within<T>(correlation: Correlation, work: () => Promise<T>): Promise<T> {
    let begun: Promise<T> | undefined;
    const begin = (): Promise<T> => (begun ??= this.at(correlation, work));
    try {
      const given = this.#tracing.within(correlation, begin);
      if (given !== begun) given.catch(() => undefined);
      if (begun === undefined) throw new Error("within() did not run what it was given");
    } catch (cause) {
      this.#doWithoutTracing(cause);
    }
    return begin();
  }

  /** Gives the tracing what is said within the span of a place; nothing is made for one that does not show it. */
  tell(correlation: Correlation, content: () => SpanContent): void {
    if (this.#tracing.told === undefined) return;
    try {
      this.#tracing.told(correlation, content());
    } catch (cause) {
      this.#doWithoutTracing(cause);
    }
  }

  /** Runs what belongs to a place: `correlation()` gives its ids to all that it begins. */
  at<T>(correlation: Correlation, work: () => T): T {
    const standpoint: Standpoint = {
      correlation,
      traceIds: () => this.#idsOf(correlation),
    };
    return standingAt(standpoint, work);
  }

  /** Ends spans that a dead process left open; see `Tracing.endLost`. */
  endLost(lost: readonly LostSpan[], atUs: number): void {
    try {
      if (lost.length > 0) this.#tracing.endLost?.(lost, atUs);
    } catch (cause) {
      this.#doWithoutTracing(cause);
    }
  }

  /** Gives the run up where it is; see `Tracing.leave`. */
  leave(correlation: Correlation): void {
    try {
      this.#tracing.leave?.(this.#momentAt(correlation), "left");
    } catch (cause) {
      this.#doWithoutTracing(cause);
    }
  }

  #momentAt(correlation: Correlation): EventMoment {
    return { seq: this.#seq, atMs: this.#clock.stampMs(), correlation };
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

  /** After the end of a run these are the ids of its last event: whoever was left behind may still write a line. */
  #idsOf(correlation: Correlation): TraceIds | undefined {
    try {
      return this.#tracing.idsOf(correlation) ?? this.#lastIds;
    } catch (cause) {
      this.#doWithoutTracing(cause);
      return this.#lastIds;
    }
  }

  /** A tracing that throws is left out from then on, and forgets the run; the events stay in the trace that they began. */
  #doWithoutTracing(cause: unknown): void {
    const tracing = this.#tracing;
    warnOnce(tracing, `The tracing threw (${messageOf(cause)}); the run goes on without it.`);
    const { traceId, spanId } = this.#lastIds ?? mintTraceIds(randomHex, undefined);
    const ids = { traceId, spanId };
    this.#tracing = { place: () => ids, within: (_scope, work) => work(), idsOf: () => ids };
    if (this.#lastPlace === undefined) return;
    try {
      tracing.leave?.(this.#momentAt(this.#lastPlace), "abandoned");
    } catch {
      // It was complained of already.
    }
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
