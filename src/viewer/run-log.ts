// The events of a run as its journal has them, for a reader that trusts nothing else.

import type { EspalierEvent } from "../protocol/event.ts";
import type { LogEntry, LogPage } from "../view/viewer-data.ts";
import type { HeldRun } from "./held-run.ts";

/** Which events to list. */
export interface LogQuery {
  /** Those of records after this one. */
  readonly after: number;
  readonly agentId?: string;
  readonly type?: string;
  readonly limit?: number;
}

const DEFAULT_LIMIT = 200;
const MOST_ENTRIES = 1_000;

/** Whole records: a part may have some entries more than its limit. Rejects like `HeldRun.look`. */
export async function logOf({ recorded, content }: HeldRun, query: LogQuery): Promise<LogPage> {
  const limit = Math.min(query.limit ?? DEFAULT_LIMIT, MOST_ENTRIES);
  const entries: LogEntry[] = [];
  for await (const { event, line } of recorded.eventsAfter(query.after)) {
    const next = entries.at(-1)?.record ?? query.after;
    if (entries.length >= limit && line > next) return { entries, next };
    if (isWanted(event, query)) entries.push({ record: line, event: { ...content.event(event) } });
  }
  return { entries };
}

function isWanted(event: EspalierEvent, { agentId, type }: LogQuery): boolean {
  return (
    (agentId === undefined || event.agentId === agentId) &&
    (type === undefined || event.type === type)
  );
}
