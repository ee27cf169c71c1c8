// Tracing: the port through which telemetry follows a run, and the data that it receives besides
// events.

import type { EventDraft, EventScope, EventType, TraceIds } from "./event.ts";
import type { RunId } from "./ids.ts";
import type { SpanContent } from "./message.ts";
import type { SpanClosing, SpanMoment, SpanNote, SpanOpening } from "./span-tree.ts";

/**
 * Key under which espalier stores its baggage in an OpenTelemetry context, for code that sends the
 * context to another process.
 */
export const OWN_BAGGAGE = "espalier.baggage";

/**
 * Tracing backend: assigns events to spans and runs code inside its span. `espalier/otel`
 * implements it.
 *
 * No method may block or throw.
 *
 * @example
 * ```ts
 * const tracing: Tracing = {
 *   traceEvent: ({ seq }) => ({ traceId: "0".repeat(31) + "1", spanId: `${seq}`.padStart(16, "0") }),
 *   runInSpan: (_scope, work) => work(),
 *   getIds: () => undefined,
 * };
 * const traced = new Orchestrator({ tracing });
 * ```
 */
export interface Tracing {
  /**
   * Opens, closes or finds the span of an event, and returns its ids.
   *
   * Called once for each event, in order, before all sinks.
   */
  traceEvent(draft: EventDraft): TraceIds;
  /**
   * Event types that the backend does not need. They are not passed to it unless a sink receives
   * the events of the run.
   *
   * Read when a run begins or continues.
   *
   * @default none
   */
  readonly ignoredEvents?: ReadonlySet<EventType> | undefined;
  /**
   * Runs a model call or a tool with its span active, so that instrumented libraries create child
   * spans.
   */
  runInSpan<T>(scope: EventScope, work: () => Promise<T>): Promise<T>;
  /**
   * Returns the ids of the innermost open span of a scope. `undefined` if the run has no open span.
   */
  getIds(scope: EventScope): TraceIds | undefined;
  /** Records content of the open span of a scope. If it is absent, no content is created. */
  readonly recordContent?: ((scope: EventScope, content: SpanContent) => void) | undefined;
  /**
   * Ends the spans that were open when the previous process of the run died, before the run
   * continues.
   *
   * The spans are ordered from the outermost, that of the run, which continues with `run.resumed`.
   * `atUs` is the time of the last event of the dead process, in microseconds since the epoch. If
   * it is absent, no span is ended.
   */
  readonly endLostSpans?: ((lost: readonly LostSpan[], atUs: number) => void) | undefined;
  /**
   * Reports that the events of a run up to `seq` are persisted. Called with 0 before the first
   * event, if the run has a store.
   *
   * Hold back a span that ended with a later event: another process may have to end it. If it is
   * absent, spans are exported when they end.
   */
  readonly onPersisted?: ((runId: RunId, seq: number) => void) | undefined;
  /**
   * Reports that no event of a run follows, so that the backend can free its memory.
   *
   * `released` means that another process continues the run and its open spans; `abandoned` means
   * that they end here.
   */
  readonly release?:
    | ((moment: Omit<EventDraft, "body">, reason: "released" | "abandoned") => void)
    | undefined;
}

/** Span that was open when the process of its run died, restored from the events of the run. */
export interface LostSpan extends SpanMoment {
  /** Event that began the span. */
  readonly body: SpanOpening;
  /** Ids of the span. */
  readonly ids: TraceIds;
  /** Ids of the parent span, which may have ended. `undefined` for the span of the run. */
  readonly parent: TraceIds | undefined;
  /** Session of the run. `undefined` if the run has no session. */
  readonly conversationId: string | undefined;
  /** Latest events within the span. */
  readonly notes: readonly (SpanMoment & { readonly body: SpanNote })[];
  /** Number of spans in the trace. */
  readonly spansInTrace: number;
  /** Other traces in which the run or the agent continued. */
  readonly furtherTraces: readonly {
    /** Id of the trace. */
    readonly traceId: string;
    /** Time of its first event, in microseconds since the epoch. */
    readonly sinceUs: number;
    /** Number of spans in the trace. */
    readonly spansInTrace: number;
  }[];
  /** Event that ended the span's own work, while spans within it were still open. */
  readonly closing?: (SpanMoment & { readonly body: SpanClosing }) | undefined;
}
