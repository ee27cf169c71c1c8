// Reads the records of a run back from a store.

import { RecordCodec } from "../../../src/orchestrator/durability/record-codec.ts";
import {
  parseRecord,
  type JournalRecord,
} from "../../../src/orchestrator/durability/journal-record.ts";
import { assertEvent, type EspalierEvent } from "../../../src/protocol/event.ts";
import type { RunId } from "../../../src/protocol/ids.ts";
import type { RunStore } from "../../../src/store/run-store.ts";

/** Returns the records of a journal, with their texts. */
export async function storedRecords(
  store: Pick<RunStore, "read">,
  runId: RunId,
): Promise<readonly JournalRecord[]> {
  const reader = new RecordCodec();
  const records: JournalRecord[] = [];
  for await (const line of store.read(runId)) records.push(...reader.read(line).map(parseRecord));
  return records;
}

/** Returns the events of a journal, validated. */
export async function storedEvents(
  store: Pick<RunStore, "read">,
  runId: RunId,
): Promise<readonly EspalierEvent[]> {
  const records = await storedRecords(store, runId);
  return records.flatMap((record) => {
    if (record.type !== "event") return [];
    const { event }: { readonly event: unknown } = record;
    assertEvent(event);
    return [event];
  });
}
