// EventRecorder: numbers the events of a run, adds their ids and delivers them. Owns the sequence
// number and the subscribers.
//
// E1. Events are numbered without gaps.
// E2. A sink that throws is reported once and does not affect other sinks or the run.
//
// A process that has given up the run emits nothing, because its sinks may already serve the next
// owner.

import { callListener } from "../kernel/warn-once.ts";
import type { SteadyClock } from "../kernel/clock.ts";
import { deepFreeze } from "../kernel/json.ts";
import { runInScope, type SpanSource } from "../protocol/correlation.ts";
import type {
  EventSink,
  EventScope,
  EspalierEvent,
  EventBody,
  EventDraft,
  EventType,
  TraceIds,
} from "../protocol/event.ts";
import type { RunId } from "../protocol/ids.ts";
import type { SpanContent } from "../protocol/message.ts";
import type { LostSpan, Tracing } from "../protocol/tracing.ts";
import { isSpanEvent, createRunIds, RunIds, type RunOrigin, type StartFacts } from "./run-ids.ts";

/** Provides the ids of the span of a run, created on first read. */
export interface RunIdSource {
  readonly runIds: TraceIds;
}

const NO_IDS: TraceIds = { traceId: "", spanId: "" };

/** Persists the events of a run. */
export interface EventJournal extends EventSink {
  /** True if no further event is persisted. The next owner of the run continues the numbers. */
  readonly hasGivenUp: boolean;
}

export class EventRecorder implements SpanSource {
  /**
   * Records content of the span of a scope, which must be open. `undefined` unless a trace records
   * content.
   */
  readonly recordContent: ((scope: EventScope, content: () => SpanContent) => void) | undefined;
  readonly #clock: SteadyClock;
  readonly #tracing: Tracing | undefined;
  /** The ids of a run without tracing. `undefined` until the first read. */
  #ids: RunIds | undefined;
  #activeScopes: (() => readonly EventScope[]) | undefined;
  readonly #journal: EventJournal | undefined;
  #sinks: readonly EventSink[];
  /** True if a sink or the journal receives every event. */
  #isTaken: boolean;
  #seq: number;
  #lastIds: TraceIds | undefined;
  #origin: RunOrigin | undefined;
  #runIds: TraceIds | undefined;
  /** Types of events that the tracing ignores, as read when the run began here. */
  #ignored: Tracing["ignoredEvents"];

  /**
   * Methods of `tracing` must not throw. Without tracing, ids are random and created on first read.
   */
  constructor(options: {
    readonly clock: SteadyClock;
    readonly tracing?: Tracing | undefined;
    /** Returns the scopes of the active agents. Default: none. */
    readonly activeScopes?: () => readonly EventScope[];
    /** Receives each event before all sinks, not frozen. */
    readonly journal?: EventJournal | undefined;
    /** Receive each event frozen. */
    readonly sinks: readonly EventSink[];
    /**
     * Number of events of the run before it was paused. Numbering continues from there. Default 0.
     */
    readonly eventCount?: number;
  }) {
    const { tracing } = options;
    this.#seq = options.eventCount ?? 0;
    this.#clock = options.clock;
    this.#tracing = tracing;
    this.#activeScopes = options.activeScopes;
    this.#journal = options.journal;
    this.#sinks = options.sinks;
    this.#isTaken = options.sinks.length > 0 || options.journal !== undefined;
    if (tracing?.recordContent !== undefined)
      this.recordContent = (scope, content) => tracing.recordContent?.(scope, content());
  }

  /** Returns true if something reads events of this type. */
  hasReader(type: EventType): boolean {
    if (this.#isTaken) return true;
    if (this.#tracing !== undefined) return this.#ignored?.has(type) !== true;
    return this.#ids !== undefined && isSpanEvent(type);
  }

  /**
   * Records the event with which the run begins or continues here. `origin` contains the fields
   * from which the ids of the run follow. `facts` returns the other fields, and is called only if
   * something reads the event.
   */
  begin(scope: EventScope, origin: RunOrigin, facts: () => StartFacts): void {
    this.#origin = origin;
    if (!this.countUnread(origin.type)) this.record(scope, { ...origin, ...facts() });
  }

  /**
   * Records an event. `contents` returns the content of a span that begins and ends with the event,
   * and is called only if a trace records content.
   */
  record(scope: EventScope, body: EventBody, contents?: EventDraft["contents"]): void {
    if (this.#journal?.hasGivenUp === true) return;
    this.#seq += 1;
    const isOpening = body.type === "run.started" || body.type === "run.resumed";
    if (!this.hasReader(body.type)) return;
    this.#emit(scope, body, contents);
    if (!isOpening) return;
    this.#runIds = this.#lastIds;
    this.#ignored = this.#tracing?.ignoredEvents;
  }

  /**
   * Counts an event that nothing reads, and returns true: it need not be created. Returns false if
   * something reads the event: then call `record`, which counts it.
   */
  countUnread(type: EventType): boolean {
    const mayBeHeard = this.#isTaken || this.#tracing !== undefined || this.#ids !== undefined;
    if (mayBeHeard && this.hasReader(type)) return false;
    this.#seq += 1;
    return true;
  }

  /** Creates the event, and delivers it to the journal and all sinks. */
  #emit(scope: EventScope, body: EventBody, contents: EventDraft["contents"]): void {
    const seq = this.#seq;
    const atMs = this.#clock.stampMs();
    const draft = { seq, atMs, scope, body };
    const source = this.#tracing ?? this.#openIds();
    const ids = source.traceEvent(contents === undefined ? draft : { ...draft, contents });
    this.#lastIds = ids;
    const journal = this.#journal;
    if (this.#sinks.length === 0 && journal === undefined) return;
    const event: EspalierEvent = { seq, atMs, ...scope, ...ids, ...body };
    if (journal !== undefined) deliverEvent(journal, event);
    if (this.#sinks.length === 0) return;
    deepFreeze(event);
    runInScope(scope, { getIds: () => ids }, () => {
      for (const sink of this.#sinks) deliverEvent(sink, event);
    });
  }

  /**
   * Returns the ids of a run without tracing, and assigns ids to its events and code from now on.
   */
  #openIds(): RunIds {
    this.#ids ??= new RunIds(this.runIds, this.#activeScopes?.() ?? []);
    return this.#ids;
  }

  /** Number of events of the run. */
  get eventCount(): number {
    return this.#seq;
  }

  /** The ids of the span of the run. */
  get runIds(): TraceIds {
    this.#runIds ??= this.#origin === undefined ? NO_IDS : createRunIds(this.#origin);
    return this.#runIds;
  }

  /**
   * Releases the agents, because the run has ended. Returns an object that has the ids of the run
   * but does not retain it.
   */
  close(): RunIdSource {
    this.#activeScopes = undefined;
    return this.#runIds === undefined ? this : { runIds: this.#runIds };
  }

  /**
   * Runs foreign code inside the span of the scope. `getCorrelationIds()` returns the ids of the
   * span to this code and its async calls.
   */
  runInSpan<T>(scope: EventScope, work: () => Promise<T>): Promise<T> {
    const tracing = this.#tracing;
    return tracing === undefined
      ? runInScope(scope, this, work, true)
      : tracing.runInSpan(scope, () => runInScope(scope, this, work));
  }

  /**
   * Returns the ids of the innermost open span. Code that is still active after the end of a run
   * gets the ids of the last event.
   */
  getIds(scope: EventScope, isInCall = false): TraceIds | undefined {
    const tracing = this.#tracing;
    const ids =
      tracing === undefined ? this.#openIds().getIds(scope, isInCall) : tracing.getIds(scope);
    return ids ?? this.#lastIds;
  }

  /** Ends spans that a crashed process left open; see `Tracing.endLostSpans`. */
  endLost(lost: readonly LostSpan[], atUs: number): void {
    if (lost.length > 0) this.#tracing?.endLostSpans?.(lost, atUs);
  }

  /** Reports that events up to this number are persisted; see `Tracing.onPersisted`. */
  reportPersisted(runId: RunId, seq: number): void {
    this.#tracing?.onPersisted?.(runId, seq);
  }

  /** Releases the run in its current state; see `Tracing.release`. */
  release(scope: EventScope): void {
    const moment = { seq: this.#seq, atMs: this.#clock.stampMs(), scope };
    this.#tracing?.release?.(moment, "released");
    this.#ids?.release();
  }

  /** Adds a sink. Returns a function that removes the sink. */
  subscribe(sink: EventSink): () => void {
    if (!this.#sinks.includes(sink)) this.#setSinks([...this.#sinks, sink]);
    return () => this.#setSinks(this.#sinks.filter((candidate) => candidate !== sink));
  }

  #setSinks(sinks: readonly EventSink[]): void {
    this.#sinks = sinks;
    this.#isTaken = sinks.length > 0 || this.#journal !== undefined;
  }
}

function deliverEvent(sink: EventSink, event: EspalierEvent): void {
  callListener(
    sink,
    () => sink.emit(event),
    (why) => `An event sink threw at ${event.type} (${why}); the run continues.`,
  );
}
