import { EspalierError } from "../kernel/error.ts";
import type { RunId, SessionId } from "../protocol/ids.ts";
import type { Ownership } from "./run-store.ts";

/**
 * Cause of a store failure, as `data.reason` of a `store_failed`.
 *
 * - `busy`: other processes kept the store locked for too long.
 * - `connection`: the store is unreachable, or the connection broke and the outcome of the last
 *   request is unknown.
 * - `denied`: the store rejects the credentials or the permissions.
 * - `missing`: the store is opened for reading, and does not exist yet.
 * - `unsuitable`: the value cannot be stored.
 * - `not_a_store`: the file or schema contains something else.
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

/** Causes that may go away by themselves. */
const TRANSIENT: ReadonlySet<StoreFailure> = new Set(["busy", "connection"]);

/**
 * Returns a `store_failed`. `message` names the expected value, the actual value and the remedy.
 */
export function createStoreError(
  reason: StoreFailure,
  message: string,
  cause?: unknown,
): EspalierError {
  const data = { reason, isTransient: TRANSIENT.has(reason) };
  return new EspalierError({ code: "store_failed", message, data, cause });
}

/** Returns the error for a request to a closed store. */
export function createStoreClosedError(): EspalierError {
  return createStoreError(
    "closed",
    "Cannot use the store: it was closed. Close it after everything that uses it.",
  );
}

/**
 * Returns the error for a store that is opened for reading and does not exist yet. `where`: the
 * file or schema.
 */
export function createStoreMissingError(where: string, got: string): EspalierError {
  return createStoreError(
    "missing",
    `Expected ${where} to hold a store, got ${got}. Check its name. Opening it without access: "read" creates the store.`,
  );
}

/** Returns the error for a write to a store that only reads. */
export function createReadOnlyError(): EspalierError {
  return createStoreError(
    "read_only",
    'Cannot write to the store: it was opened with access: "read". Open it without that option.',
  );
}

/** Returns the error for tables of another version. `where`: the file or schema. */
export function createSchemaVersionError(
  where: string,
  expected: number,
  got: number,
): EspalierError {
  const message = `Expected ${where} to have version ${expected}, got ${got}. Use the version of espalier that wrote it, or another location.`;
  return new EspalierError({ code: "unsupported_version", message, data: { expected, got } });
}

/** Returns the error for a run id that is taken. */
export function createRunExistsError(runId: RunId): EspalierError {
  const message = `Cannot create run ${JSON.stringify(runId)}: the store already has a run of this id. Leave the option ids out, or share one id source among all orchestrators of the store, for example one sequentialIds() per test.`;
  return new EspalierError({ code: "run_exists", message, data: { runId } });
}

/** Returns the error for a run that is not in the store. */
export function createUnknownRunError(runId: RunId): EspalierError {
  const message = `The store has no run ${JSON.stringify(runId)}. Check the id and the store.`;
  return new EspalierError({ code: "unknown_run", message, data: { runId } });
}

/** Returns the error for a request to a run that has ended. */
export function createRunEndedError(runId: RunId): EspalierError {
  const message = `Cannot continue run ${JSON.stringify(runId)}: it has ended. Read its result with orchestrator.getResult, or start another run. If a limit stopped it, resume it with grants.`;
  return new EspalierError({ code: "run_ended", message, data: { runId } });
}

/** Returns the error for a process that writes a run which another process has claimed. */
export function createRunFencedError(
  { runId, epoch }: Ownership,
  foundEpoch: number,
): EspalierError {
  const got =
    foundEpoch === epoch
      ? "this process has released it"
      : `another process took it over (epoch ${foundEpoch})`;
  const message = `Cannot write run ${JSON.stringify(runId)} in epoch ${epoch}: ${got}. Leave the run to its owner.`;
  return new EspalierError({ code: "run_fenced", message, data: { runId, epoch, foundEpoch } });
}

/** Returns the error for a batch with wrong record numbers. */
export function conflictError(
  runId: RunId,
  firstNumber: number,
  recordCount: number,
): EspalierError {
  const message = `Expected a batch for run ${JSON.stringify(runId)} to begin with record ${recordCount + 1}, got ${firstNumber}. Read the journal again.`;
  const data = { runId, firstNumber, recordCount };
  return new EspalierError({ code: "journal_conflict", message, data });
}

/** Returns the error for a session that another process has written in between. */
export function createSessionConflictError(
  sessionId: SessionId,
  expected: number,
  found: number,
): EspalierError {
  const message = `Expected session ${JSON.stringify(sessionId)} to have version ${expected}, got ${found}. Read it again, then write.`;
  const data = { sessionId, expected, found };
  return new EspalierError({ code: "session_conflict", message, data });
}
