// Tracing: the port by which telemetry follows a run, and what it is given besides events.

import type { EventDraft, EventScope, EventType, TraceIds } from "./event.ts";
import type { RunId } from "./ids.ts";
import type { SpanContent } from "./message.ts";
import type { SpanClosing, SpanMoment, SpanNote, SpanOpening } from "./span-tree.ts";

/** The name under which a context keeps what we put into its baggage: for code that takes it to another process. */
export const OWN_BAGGAGE = "espalier.baggage";

/**
 * Places events in a trace and runs user code inside the span it belongs to. The only way in which telemetry touches a run.
 * None of its methods may block, or throw of itself.
 */
export interface Tracing {
  /** Opens, closes or finds the span of an event and gives its ids. Called once for each event, in order, before all sinks. */
  traceEvent(draft: EventDraft): TraceIds;
  /**
   * Events that it shows nothing of. While no sink takes the events of a run they are not handed to it, and need not be made. Read when a
   * run has begun, or continues, with `place` of that event. Left out: none.
   */
  readonly ignoredEvents?: ReadonlySet<EventType> | undefined;
  /** Runs a model call or a tool body with the span of its scope active, so that instrumented libraries nest below it. */
  runInSpan<T>(scope: EventScope, work: () => Promise<T>): Promise<T>;
  /** The ids of the innermost open span of a scope; undefined if its run is not open. */
  getIds(scope: EventScope): TraceIds | undefined;
  /** Takes content of the span of a scope, while that is open. Left out: no content is made. */
  readonly recordContent?: ((scope: EventScope, content: SpanContent) => void) | undefined;
  /**
   * Ends spans that had not ended when their process died, before the run continues in this one. The outermost first: that of the run,
   * which continues with `run.resumed`. `atUs`: when the last event of the dead process happened, on the time line of spans. Left out: nothing
   * is ended.
   */
  readonly endLostSpans?: ((lost: readonly LostSpan[], atUs: number) => void) | undefined;
  /**
   * Events of the run up to this number are kept where another process finds them. Called with 0 before the first event of a run that is kept,
   * and whenever more are. A span that came to its end with a later event should not leave the process: another one may have to end it. Left
   * out: spans leave when they end.
   */
  readonly onPersisted?: ((runId: RunId, seq: number) => void) | undefined;
  /**
   * No event of a run follows. `left`: it is given up where it is, as if its process had died, and its spans stay open for the process that
   * continues it; `abandoned`: they end here. Nothing of the run stays in memory. Left out: nothing is forgotten.
   */
  readonly release?:
    | ((moment: Omit<EventDraft, "body">, why: "left" | "abandoned") => void)
    | undefined;
}

/** A span that had not ended when its process died, as it follows from the events of its run. */
export interface LostSpan extends SpanMoment {
  /** The event with which it began. */
  readonly body: SpanOpening;
  readonly ids: TraceIds;
  /** The span around it, which may have ended; undefined for that of the run. */
  readonly parent: TraceIds | undefined;
  /** The session of its run. */
  readonly conversationId: string | undefined;
  /** What happened within it, the latest of it. */
  readonly notes: readonly (SpanMoment & { readonly body: SpanNote })[];
  /** How many spans its trace had. */
  readonly spansInTrace: number;
  /** Further traces in which the run, or the agent, continued, and when. */
  readonly furtherTraces: readonly {
    /** The id of the trace. */
    readonly traceId: string;
    /** When the first of it began, in microseconds since the epoch. */
    readonly sinceUs: number;
    /** How many spans it has. */
    readonly spansInTrace: number;
  }[];
  /** What it shows was over, but not all that is within it. */
  readonly closing?: (SpanMoment & { readonly body: SpanClosing }) | undefined;
}
