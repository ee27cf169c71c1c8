import type { EspalierEvent, EventBody, Correlation, TraceIds } from "./event.ts";

/** Takes events: a log, a metric, a live view. */
export interface EventSink {
  /** Called once for each event, in order, at once. Must not block; if it throws, the run goes on and a warning is given once (E2). */
  take(event: EspalierEvent): void;
}

/** An event that has no trace ids yet: what a trace needs to place it. */
export interface EventDraft {
  readonly seq: number;
  readonly atMs: number;
  readonly correlation: Correlation;
  readonly body: EventBody;
}

/**
 * Places events in a trace and runs user code inside the span it belongs to. The only way in which telemetry touches a run.
 * Neither method may block or throw of itself.
 */
export interface Tracing {
  /** Opens, closes or finds the span of an event and gives its ids. Called once for each event, in order, before all sinks. */
  place(draft: EventDraft): TraceIds;
  /** Runs a model call or a tool body with the span of its scope active, so that instrumented libraries nest below it. */
  within<T>(scope: Correlation, work: () => T): T;
}
