// A recording: the journal of a run, as lines of text. Made from a store, kept in a file, replayed by tests.

import { checkText, mismatch } from "../../kernel/check.ts";
import { EspalierError } from "../../kernel/error.ts";
import { CallEndSchema, InferOutcomeSchema } from "../../agent/effect-outcomes.ts";
import { checkVersion } from "../../orchestrator/durability/fold-journal.ts";
import {
  JournalRecordSchema,
  problemOf,
  type JournalRecord,
} from "../../orchestrator/durability/journal-record.ts";
import { readRecord } from "../../orchestrator/durability/text-table.ts";
import { RunIdSchema } from "../../protocol/ids.ts";
import type { RunStore } from "../../store/run-store.ts";
import { headless, segmentsIn, type ReadLine, type Segment } from "./segment.ts";

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

/** What a recording holds, segment by segment. Throws `invalid_journal`, naming the line, or `unsupported_version`. */
export function segmentsOf(recording: unknown): readonly Segment[] {
  if (typeof recording !== "string")
    throw mismatch("recording", "text", recording, "Hand in what recordingOf gave.");
  const texts: string[] = [];
  const lines: ReadLine[] = [];
  for (const [index, line] of recording.replace(BYTE_ORDER_MARK, "").split("\n").entries()) {
    if (line.trim() === "") continue;
    const number = index + 1;
    const record = recordIn(line, { number, texts, isFirst: lines.length === 0 });
    if (record.type === "run") texts.length = 0;
    if (record.type === "text") texts.push(record.text);
    lines.push({ line, record, number });
  }
  if (lines.length === 0) throw headless(1);
  return segmentsIn(lines);
}

/** Editors put it at the beginning of a file. */
const BYTE_ORDER_MARK = /^\uFEFF/u;

interface LinePlace {
  /** From 1. */
  readonly number: number;
  readonly texts: readonly string[];
  /** None but blank lines stand before it. */
  readonly isFirst: boolean;
}

function recordIn(line: string, { number, texts, isFirst }: LinePlace): JournalRecord {
  try {
    const value = readRecord(line, texts);
    checkVersion(value, isFirst);
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
