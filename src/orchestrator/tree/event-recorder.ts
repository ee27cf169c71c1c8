// EventRecorder: numbers, places and hands out the events of one run.
// Owns the sequence and the subscribers. E1: numbered without gaps. E2: a sink that throws is reported once and harms nobody.

import type { SteadyClock } from "../../kernel/clock.ts";
import { messageOf } from "../../kernel/error.ts";
import { deepFreeze } from "../../kernel/json.ts";
import { mintTraceIds, randomHex } from "../../kernel/trace-ids.ts";
import { warnOnce } from "../../kernel/warn-once.ts";
import type { Recorder } from "../../agent/run-ports.ts";
import { standingAt } from "../../protocol/correlation.ts";
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

export class EventRecorder implements Recorder {
  recordContent: Recorder["recordContent"];
  readonly #clock: SteadyClock;
  #tracing: Tracing;
  readonly #sinks: Set<EventSink>;
  #seq: number;
  #lastIds: TraceIds | undefined;
  #lastScope: Correlation | undefined;

  constructor(options: {
    readonly clock: SteadyClock;
    readonly tracing: Tracing;
    readonly sinks: readonly EventSink[];
    /** Events of the run before it was paused: the next one has the number after them. Default 0. */
    readonly eventCount?: number;
  }) {
    this.#seq = options.eventCount ?? 0;
    this.#clock = options.clock;
    this.#tracing = options.tracing;
    this.#sinks = new Set(options.sinks);
    if (this.#tracing.recordContent !== undefined)
      this.recordContent = (scope, content) => this.#recordContent(scope, content);
  }

  record(scope: Correlation, body: EventBody, contents?: EventDraft["contents"]): TraceIds {
    this.#seq += 1;
    this.#lastScope = scope;
    const tracing = this.#tracing;
    if (this.#sinks.size > 0 || tracing.follow === undefined)
      return this.#emit(scope, body, contents);
    try {
      return (this.#lastIds = tracing.follow(scope, body));
    } catch (cause) {
      return this.#withoutTracing(cause);
    }
  }

  /** How many events the run has. */
  get eventCount(): number {
    return this.#seq;
  }

  /** Builds the event, and gives it to all who listen. */
  #emit(scope: Correlation, body: EventBody, contents: EventDraft["contents"]): TraceIds {
    const seq = this.#seq;
    const atMs = this.#clock.stampMs();
    const draft = { seq, atMs, correlation: scope, body };
    const ids = this.#place(contents === undefined ? draft : { ...draft, contents });
    if (this.#sinks.size === 0) return ids;
    const event: EspalierEvent = deepFreeze({ seq, atMs, ...scope, ...ids, ...body });
    standingAt({ correlation: scope, traceIds: () => ids }, () => {
      for (const sink of this.#sinks) hand(sink, event);
    });
    return ids;
  }

  within<T>(scope: Correlation, work: () => Promise<T>): Promise<T> {
    // Once, whatever the tracing does.
    let begun: Promise<T> | undefined;
    const begin = (): Promise<T> => (begun ??= this.at(scope, work));
    try {
      const given = this.#tracing.within(scope, begin);
      if (given !== begun) given.catch(() => undefined);
      if (begun === undefined) throw new Error("within() did not run what it was given");
    } catch (cause) {
      this.#withoutTracing(cause);
    }
    return begin();
  }

  at<T>(scope: Correlation, work: () => T): T {
    return standingAt({ correlation: scope, traceIds: () => this.#idsOf(scope) }, work);
  }

  /** Ends spans that a dead process left open; see `Tracing.endLost`. */
  endLost(lost: readonly LostSpan[], atUs: number): void {
    try {
      if (lost.length > 0) this.#tracing.endLost?.(lost, atUs);
    } catch (cause) {
      this.#withoutTracing(cause);
    }
  }

  /** Gives the run up where it is; see `Tracing.leave`. */
  leave(scope: Correlation): void {
    try {
      this.#tracing.leave?.(this.#momentAt(scope), "left");
    } catch (cause) {
      this.#withoutTracing(cause);
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
      return this.#withoutTracing(cause);
    }
  }

  #recordContent(scope: Correlation, content: () => SpanContent): void {
    try {
      this.#tracing.recordContent?.(scope, content());
    } catch (cause) {
      this.#withoutTracing(cause);
    }
  }

  /** After the end of a run these are the ids of its last event: what was left behind may still write a line. */
  #idsOf(scope: Correlation): TraceIds | undefined {
    try {
      return this.#tracing.idsOf(scope) ?? this.#lastIds;
    } catch (cause) {
      return this.#withoutTracing(cause);
    }
  }

  /**
   * A tracing that throws is left out from then on, and forgets the run; the events stay in the trace that they began. Gives the ids that they
   * have from now on.
   */
  #withoutTracing(cause: unknown): TraceIds {
    const tracing = this.#tracing;
    warnOnce(tracing, `The tracing threw (${messageOf(cause)}); the run goes on without it.`);
    const { traceId, spanId } = this.#lastIds ?? mintTraceIds(randomHex, undefined);
    const ids = { traceId, spanId };
    this.#lastIds = ids;
    this.#tracing = { place: () => ids, within: (_scope, work) => work(), idsOf: () => ids };
    this.recordContent = undefined;
    if (this.#lastScope === undefined) return ids;
    try {
      tracing.leave?.(this.#momentAt(this.#lastScope), "abandoned");
    } catch {
      // It was complained of already.
    }
    return ids;
  }
}

function hand(sink: EventSink, event: EspalierEvent): void {
  const complain = (cause: unknown): void => {
    warnOnce(sink, `An event sink threw at ${event.type} (${messageOf(cause)}); the run goes on.`);
  };
  try {
    const given: unknown = sink.take(event);
    if (given instanceof Promise) given.catch(complain);
  } catch (cause) {
    complain(cause);
  }
}
