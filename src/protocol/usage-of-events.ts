// What was consumed, by events: the one place that knows which of them add up.

import type { EspalierEvent } from "./event.ts";
import { addUsage, NO_USAGE, type Usage } from "./usage.ts";

/**
 * What was consumed by these events, in all: by the steps, which include their tool calls and the summaries of their results, and by
 * the model calls that belong to no step: summaries of a history, and calls that a dead process left behind.
 *
 * All events of a run give `result.usage.total`; those of one agent, its `usage.own`. Events of a run that is under way are still incomplete by
 * the steps that are open.
 */
export function usageOf(events: Iterable<EspalierEvent>): Usage {
  let sum = NO_USAGE;
  for (const event of events) {
    const usage = countedUsage(event);
    if (usage !== undefined) sum = addUsage(sum, usage);
  }
  return sum;
}

/** Left out: what repeats a part of another event. */
function countedUsage(event: EspalierEvent): Usage | undefined {
  switch (event.type) {
    case "step.completed":
    case "conversation.compacted":
      return event.usage;
    case "budget.settled":
      return event.lostCall === undefined ? undefined : event.usage;
    default:
      return undefined;
  }
}
