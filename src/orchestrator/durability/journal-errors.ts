// The errors of a journal that cannot be read. Readers of events need them without the fold.

import { EspalierError } from "../../kernel/error.ts";
import type { RunId } from "../../protocol/ids.ts";
import { describeInvalidRecord } from "./journal-record.ts";

/** Returns the error for an empty journal. */
export function createEmptyJournalError(runId: RunId): EspalierError {
  return createInvalidJournalError(runId, 0, new Error("it has no records"));
}

/**
 * Parses a line with `read`. Throws `unsupported_version`, or `invalid_journal` if the line is
 * invalid.
 */
export function readJournalLine<Value>(runId: RunId, number: number, read: () => Value): Value {
  try {
    return read();
  } catch (cause) {
    const isOfOtherVersion = EspalierError.is(cause) && cause.code === "unsupported_version";
    throw isOfOtherVersion ? cause : createInvalidJournalError(runId, number, cause);
  }
}

/**
 * Returns the error for a journal that cannot be read from this record on, or that misses an
 * earlier record.
 */
export function createInvalidJournalError(
  runId: RunId,
  number: number,
  cause: unknown,
): EspalierError {
  return new EspalierError({
    code: "invalid_journal",
    message: `Cannot read the journal: record ${number} is invalid: ${describeInvalidRecord(cause)}. Restore the store from a copy; nothing was changed.`,
    data: { runId, record: number },
    cause,
  });
}
