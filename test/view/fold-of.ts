// A fold of events that were recorded, as far as they go.

import type { EspalierEvent } from "../../src/protocol/event.ts";
import { RunFold } from "../../src/view/run-fold.ts";

/** The number of a record is that of its event. */
export function foldOf(events: readonly EspalierEvent[]): RunFold {
  const [first] = events;
  if (first === undefined) throw new Error("Expected events of a run.");
  const fold = new RunFold(first.runId);
  for (const event of events) fold.take(event, event.seq);
  return fold;
}
