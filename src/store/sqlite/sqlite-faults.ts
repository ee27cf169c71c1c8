import { statSync } from "node:fs";

import { EspalierError, getErrorMessage } from "../../kernel/error.ts";
import { createStoreError, type StoreFailure } from "../store-errors.ts";

interface SqliteFault {
  /** SQLite's primary result code, with its name. */
  readonly number: number;
  readonly name: string;
  readonly reason: StoreFailure;
  readonly advice: string;
}

const LOCKED = "Another program holds its lock for too long. Try again.";
const NOT_ALLOWED = "Allow this process to use the file.";
const READ_ONLY = "Allow this process to write to the file and to its folder.";
const NOT_THERE = "Check its path, and that its folder exists and is writable.";
const NO_STORE = "Restore it from a copy, or choose another path.";

const FAULTS: readonly SqliteFault[] = [
  { number: 3, name: "SQLITE_PERM", reason: "denied", advice: NOT_ALLOWED },
  { number: 5, name: "SQLITE_BUSY", reason: "busy", advice: LOCKED },
  { number: 6, name: "SQLITE_LOCKED", reason: "busy", advice: LOCKED },
  { number: 8, name: "SQLITE_READONLY", reason: "read_only", advice: READ_ONLY },
  { number: 10, name: "SQLITE_IOERR", reason: "input_output", advice: "Check the disk." },
  { number: 11, name: "SQLITE_CORRUPT", reason: "corrupt", advice: "Restore it from a copy." },
  { number: 13, name: "SQLITE_FULL", reason: "full", advice: "Free disk space." },
  { number: 14, name: "SQLITE_CANTOPEN", reason: "cannot_open", advice: NOT_THERE },
  { number: 18, name: "SQLITE_TOOBIG", reason: "too_large", advice: "Make the record smaller." },
  { number: 23, name: "SQLITE_AUTH", reason: "denied", advice: NOT_ALLOWED },
  { number: 26, name: "SQLITE_NOTADB", reason: "corrupt", advice: NO_STORE },
];

/** Returns a `store_failed` for an error of a driver. */
export function convertSqliteError(path: string, cause: unknown): EspalierError {
  if (EspalierError.is(cause)) return cause;
  if (isDirectoryPath(path)) {
    const message = `Expected the store ${JSON.stringify(path)} to be a file, got a folder. Name a file in it.`;
    return createStoreError("cannot_open", message, cause);
  }
  const { reason, advice } = findSqliteFault(cause) ?? {
    reason: "other",
    advice: "See the cause of this error.",
  };
  const message = `The store ${JSON.stringify(path)} failed with: ${getErrorMessage(cause)}. ${advice}`;
  return createStoreError(reason, message, cause);
}

/** Returns true if the path is a folder. False if that cannot be determined. */
function isDirectoryPath(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}

/**
 * Returns true if another process had locked the file: nothing was written, and the work can be
 * retried.
 */
export function isBusy(cause: unknown): boolean {
  return findSqliteFault(cause)?.reason === "busy";
}

/**
 * Finds the primary code, which extended codes contain: in their last byte, or before the second
 * underscore (`SQLITE_IOERR_WRITE`).
 */
function findSqliteFault(cause: unknown): SqliteFault | undefined {
  if (!(cause instanceof Error)) return undefined;
  const number: unknown = Reflect.get(cause, "errcode");
  if (typeof number === "number") return FAULTS.find((fault) => fault.number === (number & 0xff));
  const code: unknown = Reflect.get(cause, "code");
  if (typeof code !== "string") return undefined;
  const name = code.split("_").slice(0, 2).join("_");
  return FAULTS.find((fault) => fault.name === name);
}
