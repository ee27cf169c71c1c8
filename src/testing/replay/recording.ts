// A recording: the journal of a run, as lines of text. Made from a store, kept in a file, replayed by tests.

import { checkMethods, mismatch } from "../../kernel/check.ts";
import { EspalierError } from "../../kernel/error.ts";
import { isRecord } from "../../kernel/json.ts";
import { CallEndSchema, InferOutcomeSchema } from "../../agent/effect-outcomes.ts";
import { invalidJournal } from "../../orchestrator/durability/fold-journal.ts";
import { JournalReader } from "../../orchestrator/durability/journal-reader.ts";
import { problemOf, type JournalRecord } from "../../orchestrator/durability/journal-record.ts";
import { TextTable } from "../../orchestrator/durability/text-table.ts";
import { wholeLines } from "../../orchestrator/durability/whole-record.ts";
import { checkRunId } from "../../orchestrator/run/start-options.ts";
import type { RunId } from "../../protocol/ids.ts";
import type { RunStore } from "../../store/run-store.ts";
import { headless, segmentsIn, type ReadRecord, type Segment } from "./segment.ts";

/** The journal of one run: lines of JSON, with a line break after each. Good to keep in a file and to look at in a review. */
export type Recording = string;

/**
 * The recording of a run that is kept in a store.
 *
 * @throws EspalierError `unknown_run`, `store_failed`, `invalid_journal`, `unsupported_version`; `invalid_option` for what is no store or no id.
 */
export async function recordingOf(store: RunStore, runId: string): Promise<Recording> {
  checkMethods("store", store, ["read"]);
  checkRunId("runId", runId);
  const id: RunId = runId;
  const reader = new JournalReader();
  let texts = new TextTable();
  const lines: string[] = [];
  let number = 0;
  for await (const line of store.read(id)) {
    number += 1;
    for (const value of valuesIn(line)) {
      if (isRecord(value) && value["type"] === "run") texts = new TextTable();
      for (const whole of wholeLines(value, texts)) lines.push(`${whole}\n`);
    }
  }
  return lines.join("");

  function valuesIn(line: string): readonly unknown[] {
    try {
      return reader.values(line);
    } catch (cause) {
      throw EspalierError.is(cause) ? cause : invalidJournal(id, number, cause);
    }
  }
}

/** What a recording holds, segment by segment. Throws `invalid_journal`, naming the line, or `unsupported_version`. */
export function segmentsOf(recording: unknown): readonly Segment[] {
  if (typeof recording !== "string")
    throw mismatch("recording", "text", recording, "Hand in what recordingOf gave.");
  const reader = new JournalReader();
  const records: ReadRecord[] = [];
  for (const [index, line] of recording.replace(BYTE_ORDER_MARK, "").split("\n").entries()) {
    if (line.trim() === "") continue;
    const number = index + 1;
    for (const record of recordsIn(line, number, reader)) records.push({ record, number });
  }
  if (records.length === 0) throw headless(1);
  return segmentsIn(records);
}

/** Editors put it at the beginning of a file. */
const BYTE_ORDER_MARK = /^\uFEFF/u;

function recordsIn(line: string, number: number, reader: JournalReader): readonly JournalRecord[] {
  try {
    const records = reader.read(line);
    for (const record of records) {
      if (record.type !== "effect") continue;
      if (record.name.startsWith("model.")) InferOutcomeSchema.parse(record.outcome);
      if (record.name.startsWith("tool.")) CallEndSchema.parse(record.outcome);
    }
    return records;
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
