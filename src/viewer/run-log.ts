// The events of a run as its journal has them, for whoever trusts nothing else. Read from the beginning each time: a line of a journal says
// what differs from those before it.

import { isRecord } from "../kernel/json.ts";
import { endOfTurn } from "../kernel/throttle.ts";
import { invalidJournal } from "../orchestrator/durability/fold-journal.ts";
import { JournalReader } from "../orchestrator/durability/journal-reader.ts";
import { keptEvent } from "../orchestrator/durability/open-spans.ts";
import type { EspalierEvent } from "../protocol/event.ts";
import type { RunId } from "../protocol/ids.ts";
import type { LogEntry } from "../view/viewer-data.ts";
import type { ReadingMeans } from "./held-run.ts";

/** Which events are wanted. */
export interface LogQuery {
  /** Those of records after this one. */
  readonly after: number;
  readonly agentId?: string;
  readonly type?: string;
  readonly limit?: number;
}

/** A part of a log. */
export interface LogPage {
  readonly entries: readonly LogEntry[];
  /** What `after` is for what follows; left out: nothing does, for now. */
  readonly next?: number;
}

const DEFAULT_LIMIT = 200;
const MOST_ENTRIES = 1_000;
const RECORDS_PER_TURN = 200;

/** Whole records: a part may have some entries more than its limit. Rejects like `HeldRun.look`. */
export async function logOf(
  { store, content }: ReadingMeans,
  runId: RunId,
  query: LogQuery,
): Promise<LogPage> {
  const limit = Math.min(query.limit ?? DEFAULT_LIMIT, MOST_ENTRIES);
  const reader = new JournalReader();
  const entries: LogEntry[] = [];
  let record = 0;
  let read = 0;
  for await (const line of store.read(runId)) {
    record += 1;
    const values = valuesIn(reader, line, { runId, record });
    if (entries.length >= limit) return { entries, next: entries.at(-1)?.record ?? query.after };
    const events = record > query.after ? values.flatMap(eventIn) : [];
    for (const event of events)
      if (isWanted(event, query)) entries.push({ record, event: { ...content.event(event) } });
    read += values.length;
    if (read < RECORDS_PER_TURN) continue;
    await endOfTurn();
    read = 0;
  }
  return { entries };
}

function valuesIn(
  reader: JournalReader,
  line: string,
  { runId, record }: { readonly runId: RunId; readonly record: number },
): readonly unknown[] {
  try {
    return reader.values(line);
  } catch (cause) {
    throw invalidJournal(runId, record, cause);
  }
}

function eventIn(record: unknown): EspalierEvent | [] {
  const isEvent = isRecord(record) && record["type"] === "event";
  return isEvent ? (keptEvent(record["event"]) ?? []) : [];
}

function isWanted(event: EspalierEvent, { agentId, type }: LogQuery): boolean {
  return (
    (agentId === undefined || event.agentId === agentId) &&
    (type === undefined || event.type === type)
  );
}
