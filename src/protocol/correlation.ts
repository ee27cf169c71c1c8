// Where the code that is running stands: which run, agent, step and call it works for. For loggers.
// Owns the place that follows each call of user code across `await`. Knows no tracing and no event.
// 1. What is nested overlays what is around it; two calls beside each other never see one another.
// 2. Asking never throws: it happens within a logger.

import { AsyncLocalStorage } from "node:async_hooks";

import type { Correlation, TraceIds } from "./event.ts";

/** A place in a run, and how to find the span that shows it. */
export interface Standpoint {
  readonly correlation: Correlation;
  /** The ids of the innermost span that is open there now. Must not throw. */
  traceIds(): TraceIds | undefined;
}

/** The ids of a place in a run: those that its events have. */
export type CorrelationIds = Correlation & TraceIds;

const standpoints = new AsyncLocalStorage<Standpoint>();

/** Runs `work` so that `correlation()` gives the ids of this place, in all that it begins, too. */
export function standingAt<T>(standpoint: Standpoint, work: () => T): T {
  return standpoints.run(standpoint, work);
}

/** Runs `work` outside of all places: for what is done for several of them at once, such as writing to a store. */
export function standingNowhere<T>(work: () => T): T {
  return standpoints.exit(work);
}

/**
 * The ids of the step at which the calling code runs, under the names that events have: `runId`, `agentId`, `parentAgentId`, `agentPath`,
 * `depth`, `executionId`, `stepId`, `callId`, `traceId`, `spanId`. An id is null where an event has null: `callId` outside tool calls.
 *
 * Gives ids in tool bodies, model clients, hooks, guards, approvers, stop conditions, sections, tool filters, token counters and event
 * sinks, also after an `await`. Anywhere else it gives an empty object. It is a new object each time, as loggers want it, and never undefined: spread it, or hand the
 * function to pino as its `mixin`. Works with OpenTelemetry and without. Never throws.
 */
export function correlation(): Partial<CorrelationIds> {
  const standpoint = standpoints.getStore();
  if (standpoint === undefined) return {};
  const { runId, agentId, parentAgentId, agentPath, depth, executionId, stepId, callId } =
    standpoint.correlation;
  const place = { runId, agentId, parentAgentId, agentPath, depth, executionId, stepId, callId };
  const ids = standpoint.traceIds();
  return ids === undefined ? place : { ...place, traceId: ids.traceId, spanId: ids.spanId };
}
