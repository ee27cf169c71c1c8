// The events of a run that were recorded before a reader came: from its journal, then live. Nothing is left out in between, and nothing comes
// twice.

import { EspalierError } from "../../kernel/error.ts";
import { deepFreeze } from "../../kernel/json.ts";
import type { EspalierEvent } from "../../protocol/event.ts";
import type { AgentId, RunId } from "../../protocol/ids.ts";
import type { RunStore } from "../../store/run-store.ts";
import { recordFrom } from "../durability/journal-record.ts";
import { RecordCodec } from "../durability/record-codec.ts";
import { keptEvent } from "../durability/open-spans.ts";
import type { RunJournal } from "../durability/run-journal.ts";
import type { RunRuntime } from "../tree/run-runtime.ts";

/** Which events of the past are read. */
export interface PastRange {
  /** The numbers of the first and the last. */
  readonly from: number;
  readonly to: number;
  readonly agentId: AgentId | undefined;
}

/**
 * The events of a range, in order. Throws `events_not_kept` at once if the run is kept nowhere; the iteration rejects with it if its journal
 * begins later, and with `store_failed`.
 */
export function pastEvents(
  run: RunRuntime,
  range: PastRange,
): AsyncIterator<EspalierEvent, undefined> {
  const { journal, runId } = run;
  const { store } = run.settings;
  if (journal === undefined || store === undefined) throw notKept(range.from, undefined);
  return eventsIn(linesOf(journal, store, runId), range);
}

/** The lines of a journal, once what was recorded so far is in it. */
async function* linesOf(
  { writer }: RunJournal,
  store: RunStore,
  runId: RunId,
): AsyncGenerator<string> {
  await Promise.race([writer.kept(), writer.broken]);
  yield* store.read(runId);
}

async function* eventsIn(
  lines: AsyncIterable<string>,
  { from, to, agentId }: PastRange,
): AsyncGenerator<EspalierEvent, undefined> {
  const reader = new RecordCodec();
  let due = from;
  for await (const line of lines) {
    for (const record of reader.read(line).map(recordFrom)) {
      if (record.type !== "event" || record.event.seq < due) continue;
      const { seq } = record.event;
      if (seq !== due) throw notKept(due, seq);
      const event = keptEvent(record.event);
      const isWanted = agentId === undefined || event?.agentId === agentId;
      if (event !== undefined && isWanted) yield deepFreeze(event);
      if (due === to) return undefined;
      due += 1;
    }
  }
  throw notKept(due, undefined);
}

function notKept(from: number, keptFrom: number | undefined): EspalierError {
  const got =
    keptFrom === undefined
      ? "it is past and kept nowhere. Give the orchestrator a store, or subscribe in the tick in which the run is started."
      : `what is kept begins with event ${keptFrom}: the run was led without this store before.`;
  return new EspalierError({
    code: "events_not_kept",
    message: `Expected event ${from} of the run to be kept, but ${got}`,
    data: { from, ...(keptFrom === undefined ? {} : { keptFrom }) },
  });
}
