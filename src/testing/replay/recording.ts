// A recording: the journal of a run as lines of text, read from a store and replayed by tests.

import { checkMethods, mismatch } from "../../kernel/argument-checks.ts";
import { EspalierError } from "../../kernel/error.ts";
import { CallEndSchema, InferOutcomeSchema } from "../../agent/effect-outcomes.ts";
import { RecordCodec } from "../../orchestrator/durability/record-codec.ts";
import {
  describeInvalidRecord,
  parseRecord,
  type JournalRecord,
} from "../../orchestrator/durability/journal-record.ts";
import { checkRunId } from "../../orchestrator/run/run-options.ts";
import type { RunId } from "../../protocol/ids.ts";
import type { RunStore } from "../../store/run-store.ts";

/** Journal of a run as JSON Lines. Save it as a test fixture. */
export type Recording = string;

/**
 * Returns the recording of a run from a store, for `replay`.
 *
 * @throws EspalierError `unknown_run` if the store has no run with this id.
 * @throws EspalierError `store_failed` if the store cannot be read.
 * @throws EspalierError `invalid_journal` or `unsupported_version` if the journal cannot be read.
 * @throws EspalierError `invalid_argument` if `store` or `runId` is invalid.
 *
 * @example
 * ```ts
 * import { writeFile } from "node:fs/promises";
 *
 * const recording = await loadRecording(store, run.runId);
 * await writeFile("test/fixtures/pears.jsonl", recording);
 * ```
 */
export async function loadRecording(store: RunStore, runId: string): Promise<Recording> {
  checkMethods("store", store, ["read"]);
  checkRunId("runId", runId);
  const reader = new RecordCodec();
  const lines: string[] = [];
  let number = 0;
  for await (const line of store.read(runId)) {
    number += 1;
    for (const record of readLine(line, number, reader)) lines.push(`${JSON.stringify(record)}\n`);
  }
  return lines.join("");
}

/** The part of a recording that one process wrote. A pause or a crash ends it. */
export interface Segment {
  readonly runId: RunId;
  readonly records: readonly JournalRecord[];
  /** The records before it. */
  readonly before: readonly JournalRecord[];
}

/**
 * Parses a recording. Throws `invalid_journal` with the number of the line, or
 * `unsupported_version`.
 */
export function readSegments(recording: unknown): readonly Segment[] {
  if (typeof recording !== "string")
    throw mismatch("recording", "text", recording, "Pass the result of loadRecording.");
  const reader = new RecordCodec();
  const before: JournalRecord[] = [];
  const segments: (Segment & { readonly records: JournalRecord[] })[] = [];
  // Editors may add a byte order mark at the beginning of a file.
  for (const [index, line] of recording
    .replace(/^\uFEFF/u, "")
    .split("\n")
    .entries())
    for (const record of readLine(line, index + 1, reader)) {
      const { runId } = record.type === "run" ? record : (segments.at(-1) ?? {});
      if (runId === undefined) throw createLineError(index + 1);
      if (record.type === "run" || record.type === "recovered")
        segments.push({ runId, before: [...before], records: [] });
      segments.at(-1)?.records.push(record);
      before.push(record);
    }
  if (segments.length === 0) throw createLineError(1);
  return segments;
}

function readLine(line: string, number: number, reader: RecordCodec): readonly JournalRecord[] {
  if (line.trim() === "") return [];
  try {
    const records = reader.read(line).map(parseRecord);
    for (const record of records) {
      const { name, outcome } = record.type === "effect" ? record : { name: "", outcome: null };
      if (name.startsWith("model.")) InferOutcomeSchema().parse(outcome);
      if (name.startsWith("tool.")) CallEndSchema().parse(outcome);
    }
    return records;
  } catch (cause) {
    if (EspalierError.is(cause)) throw cause;
    throw createLineError(number, `cannot be read: ${describeInvalidRecord(cause)}`, cause);
  }
}

/** Creates the error for an invalid line of a recording. */
export function createLineError(number: number, problem = "is out of place", cause?: unknown) {
  return new EspalierError({
    code: "invalid_journal",
    message: `Expected a recording of a run from its start, got one whose line ${number} ${problem}. Record a run that was started with a store.`,
    data: { record: number },
    cause,
  });
}
