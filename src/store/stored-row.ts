// Converts rows of databases to values of espalier. A value that does not fit was not written by
// espalier.

import { RunIdSchema } from "../protocol/ids.ts";
import type { Holding } from "./holding.ts";
import type { Mail, StoredRun, StoredStatus } from "./run-store.ts";
import { storeFailed } from "./store-errors.ts";

/** Returns the text in a column. Throws `store_failed`. */
export function textIn(row: unknown, column: string): string {
  const value = readValue(row, column);
  if (typeof value === "string") return value;
  throw createUnreadableError(column, "text");
}

/** Returns the whole number in a column. Throws `store_failed`. */
export function numberIn(row: unknown, column: string): number {
  const value = readValue(row, column);
  if (typeof value === "number" && Number.isSafeInteger(value)) return value;
  throw createUnreadableError(column, "a whole number");
}

/** Returns true if the column is not null. */
export function hasValue(row: unknown, column: string): boolean {
  return readValue(row, column) !== null;
}

/**
 * Returns the run of a row; its columns have the same names in every query. Throws `store_failed`.
 */
export function runIn(row: unknown): StoredRun {
  const owner = readOwner(row);
  return {
    runId: RunIdSchema().parse(textIn(row, "run_id")),
    status: statusIn(row),
    title: textIn(row, "title"),
    epoch: numberIn(row, "epoch"),
    recordCount: numberIn(row, "record_count"),
    createdAtMs: numberIn(row, "created_at_ms"),
    updatedAtMs: numberIn(row, "updated_at_ms"),
    owner,
    heartbeatAtMs: owner === null ? null : numberIn(row, "heartbeat_at_ms"),
    crashCount: numberIn(row, "crashes"),
    lastCrashAtMs: hasValue(row, "last_crash_at_ms") ? numberIn(row, "last_crash_at_ms") : null,
  };
}

/** Returns the mail of a row. Throws `store_failed`. */
export function postIn(row: unknown): Mail {
  return {
    number: numberIn(row, "number"),
    key: textIn(row, "key"),
    body: textIn(row, "body"),
    atMs: numberIn(row, "posted_at_ms"),
  };
}

/** Returns the ownership in a row, at the time of its column `now_ms`. Throws `store_failed`. */
export function holdingIn(row: unknown): Holding {
  const owner = readOwner(row);
  return {
    epoch: numberIn(row, "epoch"),
    token: textIn(row, "owner_token"),
    owner,
    silentMs: owner === null ? 0 : numberIn(row, "now_ms") - numberIn(row, "heartbeat_at_ms"),
  };
}

function readOwner(row: unknown): StoredRun["owner"] {
  if (!hasValue(row, "owner_hostname")) return null;
  return {
    token: textIn(row, "owner_token"),
    hostname: textIn(row, "owner_hostname"),
    processId: numberIn(row, "owner_process_id"),
  };
}

/** Returns the status in a row. Throws `store_failed`. */
export function statusIn(row: unknown): StoredStatus {
  const status = textIn(row, "status");
  if (status === "open" || status === "paused" || status === "ended") return status;
  throw createUnreadableError("status", "open, paused or ended");
}

function readValue(row: unknown, column: string): unknown {
  return typeof row === "object" && row !== null ? Reflect.get(row, column) : undefined;
}

function createUnreadableError(column: string, expected: string): Error {
  const message = `Expected ${column} to be ${expected}, got something else. Restore the store from a copy.`;
  return storeFailed("corrupt", message);
}
