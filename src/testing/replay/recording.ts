// A recording: the journal of a run, as lines of text. Made from a store, kept in a file, replayed by tests.

import { checkText, mismatch } from "../../kernel/check.ts";
import { EspalierError } from "../../kernel/error.ts";
import { CallEndSchema, InferOutcomeSchema } from "../../agent/effect-outcomes.ts";
import { checkVersion } from "../../orchestrator/journal/fold-journal.ts";
import {
  JournalRecordSchema,
  problemOf,
  type JournalRecord,
} from "../../orchestrator/journal/journal-record.ts";
import { readRecord } from "../../orchestrator/journal/text-table.ts";
import { RunIdSchema } from "../../protocol/ids.ts";
import type { RunStore } from "../../store/run-store.ts";

/** The journal of one run: lines of JSON, with a line break after each. Good to keep in a file and to look at in a review. */
export type Recording = string;

/**
 * The recording of a run that is kept in a store.
 *
 * @throws EspalierError `unknown_run`, `store_failed`; `invalid_option` for what is no id.
 */
export async function recordingOf(store: RunStore, runId: string): Promise<Recording> {
  checkText("runId", runId);
  const lines: string[] = [];
  for await (const line of store.read(RunIdSchema.parse(runId))) lines.push(`${line}\n`);
  return lines.join("");
}

/**
 * The records of a recording up to its first pause or crash, with their texts. Throws `invalid_journal`, naming the line, or
 * `unsupported_version`.
 */
export function recordsOf(recording: unknown): readonly JournalRecord[] {
  if (typeof recording !== "string")
    throw mismatch("recording", "text", recording, "Hand in what recordingOf gave.");
  const texts: string[] = [];
  const records: JournalRecord[] = [];
  for (const [index, line] of recording.split("\n").entries()) {
    if (line.trim() === "") continue;
    const record = recordIn(line, { number: index + 1, texts });
    if (record.type === "text") texts.push(record.text);
    const isFirst = records.length === 0;
    if (!isFirst && isNextLife(record)) break;
    if (isFirst !== (record.type === "run")) throw headless(index + 1);
    records.push(record);
  }
  if (records.length === 0) throw headless(1);
  if (records[1]?.type === "restored") throw headless(2);
  return records;
}

/** A run that goes on after a pause opens its journal anew, or says that it goes on. */
function isNextLife(record: JournalRecord): boolean {
  return record.type === "run" || (record.type === "event" && record.event.type === "run.resumed");
}

function recordIn(
  line: string,
  { number, texts }: { readonly number: number; readonly texts: readonly string[] },
): JournalRecord {
  try {
    const value = readRecord(line, texts);
    checkVersion(value, number);
    const record = JournalRecordSchema.parse(value);
    if (record.type === "effect" && record.name.startsWith("model."))
      InferOutcomeSchema.parse(record.outcome);
    if (record.type === "effect" && record.name.startsWith("tool."))
      CallEndSchema.parse(record.outcome);
    return record;
  } catch (cause) {
    if (EspalierError.is(cause) && cause.code === "unsupported_version") throw cause;
    throw new EspalierError({
      code: "invalid_journal",
      message: `Expected a recording that espalier wrote, got one whose line ${number} cannot be read: ${problemOf(cause)}. Record it anew.`,
      data: { record: number },
      cause,
    });
  }
}

function headless(number: number): EspalierError {
  return new EspalierError({
    code: "invalid_journal",
    message: `Expected the recording of a run from its start, got one of which line ${number} is not what stands there. Record a run that was started with a store.`,
    data: { record: number },
  });
}
