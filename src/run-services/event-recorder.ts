// EventRecorder: numbers, places and hands out the events of one run.
// Owns the sequence and the subscribers. E1: numbered without gaps. E2: a sink that throws is reported once and harms no other.
// A process that has given the run up emits nothing: its sinks may be those of the next owner.

import { callListener } from "../kernel/warn-once.ts";
import type { SteadyClock } from "../kernel/clock.ts";
import { deepFreeze } from "../kernel/json.ts";
import { inScope, type SpanSource } from "../protocol/correlation.ts";
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
import { isSpanEvent, newRunIds, RunIds, type RunOrigin, type StartFacts } from "./run-ids.ts";

/** Has the ids of the span of a run. They are made when they are first read. */
export interface RunIdSource {
  readonly runIds: TraceIds;
}

/** What has happened, and where. */
interface Happening extends Pick<EventDraft, "scope" | "body"> {
  readonly contents: EventDraft["contents"] | undefined;
}

const NO_IDS: TraceIds = { traceId: "", spanId: "" };

/** Persists the events of a run. */
export interface EventJournal extends EventSink {
  /** True if no event is persisted any more: the next owner of the run continues its numbers. */
  readonly hasGivenUp: boolean;
}

export class EventRecorder implements SpanSource {
  /** Records content of the span of a scope, which must be open. Undefined unless a trace shows it. */
  readonly recordContent: ((scope: EventScope, content: () => SpanContent) => void) | undefined;
  readonly #clock: SteadyClock;
  readonly #tracing: Tracing | undefined;
  /** The ids of a run without tracing. Undefined until something reads one. */
  #ids: RunIds | undefined;
  #activeScopes: (() => readonly EventScope[]) | undefined;
  readonly #journal: EventJournal | undefined;
  #sinks: readonly EventSink[];
  /** Something takes every event. */
  #isTaken: boolean;
  #seq: number;
  #lastIds: TraceIds | undefined;
  #origin: RunOrigin | undefined;
  #runIds: TraceIds | undefined;
  /** What the tracing shows nothing of, as it said when the run began here. */
  #ignored: Tracing["ignoredEvents"];

  /** No method of `tracing` throws. Without one, ids are random and made when something reads one. */
  constructor(options: {
    readonly clock: SteadyClock;
    readonly tracing?: Tracing | undefined;
    /** The scopes of the agents that are at work. Default: none. */
    readonly activeScopes?: () => readonly EventScope[];
    /** Takes each event before all sinks, as it is. */
    readonly journal?: EventJournal | undefined;
    /** Take each event frozen. */
    readonly sinks: readonly EventSink[];
    /** Events of the run before it was paused: the next one has the number after them. Default 0. */
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

  /** Returns true if something reads such an event. */
  isHeard(type: EventType): boolean {
    if (this.#isTaken) return true;
    if (this.#tracing !== undefined) return this.#ignored?.has(type) !== true;
    return this.#ids !== undefined && isSpanEvent(type);
  }

  /**
   * Records the event with which the run begins or continues here. `origin`: the parts from which
   * the ids of the run follow. `facts`: returns the other parts, and is called if it is heard.
   */
  begin(scope: EventScope, origin: RunOrigin, facts: () => StartFacts): void {
    this.#origin = origin;
    if (!this.countUnheard(origin.type)) this.record(scope, { ...origin, ...facts() });
  }

  /**
   * Records an event. `contents`: what was said within a span that begins and ends with the event.
   * It is made only if a trace shows it.
   */
  record(scope: EventScope, body: EventBody, contents?: EventDraft["contents"]): void {
    if (this.#journal?.hasGivenUp === true) return;
    this.#seq += 1;
    const isOpening = body.type === "run.started" || body.type === "run.resumed";
    if (!this.isHeard(body.type)) return;
    this.#emit({ scope, body, contents });
    if (!isOpening) return;
    this.#runIds = this.#lastIds;
    this.#ignored = this.#tracing?.ignoredEvents;
  }

  /**
   * Counts an event that nothing hears, and returns true: it need not be made. Returns false if something
   * hears it: then `record` it, which counts it.
   */
  countUnheard(type: EventType): boolean {
    const mayBeHeard = this.#isTaken || this.#tracing !== undefined || this.#ids !== undefined;
    if (mayBeHeard && this.isHeard(type)) return false;
    this.#seq += 1;
    return true;
  }

  /** Builds the event, and gives it to all listeners. */
  #emit({ scope, body, contents }: Happening): void {
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
    inScope(scope, { getIds: () => ids }, () => {
      for (const sink of this.#sinks) deliverEvent(sink, event);
    });
  }

  /** Returns the ids of a run without tracing. Its events and code get ids from now on. */
  #openIds(): RunIds {
    return (this.#ids ??= new RunIds(this.runIds, this.#activeScopes?.() ?? []));
  }

  /** How many events the run has. */
  get eventCount(): number {
    return this.#seq;
  }

  /** The ids of the span of the run. */
  get runIds(): TraceIds {
    return (this.#runIds ??= this.#origin === undefined ? NO_IDS : newRunIds(this.#origin));
  }

  /** Lets go of the agents: the run has ended. Returns an object that has its ids, and not the run. */
  close(): RunIdSource {
    this.#activeScopes = undefined;
    return this.#runIds === undefined ? this : { runIds: this.#runIds };
  }

  /**
   * Runs foreign code that has a span inside that span. `getCorrelationIds()` gives its ids to all that it
   * begins.
   */
  runInSpan<T>(scope: EventScope, work: () => Promise<T>): Promise<T> {
    const tracing = this.#tracing;
    return tracing === undefined
      ? inScope(scope, this, work, true)
      : tracing.runInSpan(scope, () => inScope(scope, this, work));
  }

  /** What was left behind at the end of a run may still write a line: that has the ids of the last event. */
  getIds(scope: EventScope, isInCall = false): TraceIds | undefined {
    const tracing = this.#tracing;
    const ids =
      tracing === undefined ? this.#openIds().getIds(scope, isInCall) : tracing.getIds(scope);
    return ids ?? this.#lastIds;
  }

  /** Ends spans that a dead process left open; see `Tracing.endLostSpans`. */
  endLost(lost: readonly LostSpan[], atUs: number): void {
    if (lost.length > 0) this.#tracing?.endLostSpans?.(lost, atUs);
  }

  /** Events up to this number are kept; see `Tracing.onPersisted`. */
  kept(runId: RunId, seq: number): void {
    this.#tracing?.onPersisted?.(runId, seq);
  }

  /** Gives the run up where it is; see `Tracing.release`. */
  leave(scope: EventScope): void {
    const moment = { seq: this.#seq, atMs: this.#clock.stampMs(), scope };
    this.#tracing?.release?.(moment, "released");
    this.#ids?.leave();
  }

  /** Adds a sink; the returned function takes it away again. */
  subscribe(sink: EventSink): () => void {
    if (!this.#sinks.includes(sink)) this.#setSinks([...this.#sinks, sink]);
    return () => this.#setSinks(this.#sinks.filter((one) => one !== sink));
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
