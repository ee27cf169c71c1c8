import { EspalierError } from "../kernel/error.ts";
import type { RunId, SessionId } from "../protocol/ids.ts";
import type { Ownership } from "./run-store.ts";

/**
 * Why a store could not do what it was asked to; `data.reason` of a `store_failed`. `busy`: others kept it locked for too long;
 * `connection`: it could not be reached, or the connection broke, and it is unknown whether the last thing asked of it was done; `denied`:
 * it does not let us in; `missing`: it is to be read only, and is not there yet; `unsuitable`: what it was handed is nothing that it keeps;
 * `not_a_store`: something else is kept there.
 */
export type StoreFailure =
  | "busy"
  | "full"
  | "read_only"
  | "corrupt"
  | "cannot_open"
  | "connection"
  | "denied"
  | "input_output"
  | "too_large"
  | "unsuitable"
  | "not_a_store"
  | "missing"
  | "closed"
  | "other";

/** The reasons that may go away by themselves. */
const TRANSIENT: ReadonlySet<StoreFailure> = new Set(["busy", "connection"]);

/** A `store_failed`. `message` says what was expected, what came, what to do. */
export function storeFailed(reason: StoreFailure, message: string, cause?: unknown): EspalierError {
  const data = { reason, isTransient: TRANSIENT.has(reason) };
  return new EspalierError({ code: "store_failed", message, data, cause });
}

/** A store of which something is asked after its end. */
export function storeClosed(): EspalierError {
  return storeFailed(
    "closed",
    "Cannot use the store: it was closed. Close it after everything that uses it.",
  );
}

/** A store that is opened for reading, and does not exist yet. `where` says what it would be in. */
export function storeMissing(where: string, got: string): EspalierError {
  return storeFailed(
    "missing",
    `Expected ${where} to hold a store, got ${got}. Check its name. Opening it without access: "read" creates the store.`,
  );
}

/** Something is to be written to a store that only reads. */
export function storeOnlyReads(): EspalierError {
  return storeFailed(
    "read_only",
    'Cannot write to the store: it was opened with access: "read". Open it without that option.',
  );
}

/** The tables of a store have another version. `where` names the file or the schema. */
export function unsupportedSchema(where: string, expected: number, got: number): EspalierError {
  const message = `Expected ${where} to have version ${expected}, got ${got}. Use the version of espalier that wrote it, or another location.`;
  return new EspalierError({ code: "unsupported_version", message, data: { expected, got } });
}

/** A run that is stored already. */
export function runExists(runId: RunId): EspalierError {
  const message = `Cannot create run ${JSON.stringify(runId)}: the store already has a run of this id. Leave the option ids out, or share one id source among all orchestrators of the store, for example one sequentialIds() per test.`;
  return new EspalierError({ code: "run_exists", message, data: { runId } });
}

/** A run that is not stored. */
export function unknownRun(runId: RunId): EspalierError {
  const message = `The store has no run ${JSON.stringify(runId)}. Check the id and the store.`;
  return new EspalierError({ code: "unknown_run", message, data: { runId } });
}

/** A request for something further of a run that has ended. */
export function runEnded(runId: RunId): EspalierError {
  const message = `Cannot continue run ${JSON.stringify(runId)}: it has ended. Read its result with orchestrator.getResult, start another run, or fork a snapshot of it.`;
  return new EspalierError({ code: "run_ended", message, data: { runId } });
}

/** A process writes a run that is not its own any more. */
export function runFenced({ runId, epoch }: Ownership, foundEpoch: number): EspalierError {
  const got =
    foundEpoch === epoch
      ? "this process has released it"
      : `another process took it over (epoch ${foundEpoch})`;
  const message = `Cannot write run ${JSON.stringify(runId)} in epoch ${epoch}: ${got}. Leave the run to its owner.`;
  return new EspalierError({ code: "run_fenced", message, data: { runId, epoch, foundEpoch } });
}

/** A batch that does not belong where it says. */
export function journalConflict(
  runId: RunId,
  firstNumber: number,
  recordCount: number,
): EspalierError {
  const message = `Expected a batch for run ${JSON.stringify(runId)} to begin with record ${recordCount + 1}, got ${firstNumber}. Read the journal again.`;
  const data = { runId, firstNumber, recordCount };
  return new EspalierError({ code: "journal_conflict", message, data });
}

/** A session was written by another process in between. */
export function sessionConflict(
  sessionId: SessionId,
  expected: number,
  found: number,
): EspalierError {
  const message = `Expected session ${JSON.stringify(sessionId)} to have version ${expected}, got ${found}. Read it again, then write.`;
  const data = { sessionId, expected, found };
  return new EspalierError({ code: "session_conflict", message, data });
}
