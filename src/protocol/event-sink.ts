import type { EspalierEvent } from "./event.ts";

/** Takes events: a log, a metric, a live view. */
export interface EventSink {
  /** Called once for each event, in order, at once. Must not block; if it throws, the run continues and a warning is given once (E2). */
  take(event: EspalierEvent): void;
}
