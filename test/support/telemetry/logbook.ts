// A log for correlation tests: lines with the ids that a logger finds, and ids of events to compare
// them with.

import type { EventScope, TraceIds } from "../../../src/extend.ts";
import { getCorrelationIds, type EspalierEvent } from "../../../src/index.ts";

/** All ids of a place. */
export type Ids = EventScope & TraceIds;

/** The lines of a log, and a function that adds one. */
export interface Logbook {
  readonly lines: [at: string, ids: Partial<Ids>][];
  write(at: string): void;
}

/** Creates an empty log. */
export function logbook(): Logbook {
  const lines: Logbook["lines"] = [];
  return { lines, write: (at) => void lines.push([at, getCorrelationIds()]) };
}

/** Returns the ids of an event, as a logger should find them. */
export function idsOf(event: EspalierEvent | undefined): Ids {
  if (event === undefined) throw new Error("Expected such an event.");
  const { runId, agentId, parentAgentId, agentPath, depth } = event;
  const { executionId, stepId, callId, traceId, spanId } = event;
  const agent = { runId, agentId, parentAgentId, agentPath, depth };
  return { ...agent, executionId, stepId, callId, traceId, spanId };
}

/** Returns the ids of the nth event of a type, by default of the first. */
export function firstIds(
  events: readonly EspalierEvent[],
  type: EspalierEvent["type"],
  nth = 0,
): Ids {
  return idsOf(events.filter((event) => event.type === type)[nth]);
}
