// Converts rows of databases to values of espalier. A value that does not fit was not written by
// espalier.

import { RunIdSchema } from "../protocol/ids.ts";
import type { Holding } from "./ownership-rules.ts";
import type { Mail, StoredRun, StoredStatus } from "./run-store.ts";
import { createStoreError } from "./store-errors.ts";

/** Returns the text in a column. Throws `store_failed`. */
export function readTextColumn(row: unknown, column: string): string {
  const value = readValue(row, column);
  if (typeof value === "string") return value;
  throw createUnreadableError(column, "text");
}

/** Returns the whole number in a column. Throws `store_failed`. */
export function readNumberColumn(row: unknown, column: string): number {
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
export function readRunRow(row: unknown): StoredRun {
  const owner = readOwner(row);
  return {
    runId: RunIdSchema().parse(readTextColumn(row, "run_id")),
    status: readStatus(row),
    title: readTextColumn(row, "title"),
    epoch: readNumberColumn(row, "epoch"),
    recordCount: readNumberColumn(row, "record_count"),
    createdAtMs: readNumberColumn(row, "created_at_ms"),
    updatedAtMs: readNumberColumn(row, "updated_at_ms"),
    owner,
    heartbeatAtMs: owner === null ? null : readNumberColumn(row, "heartbeat_at_ms"),
    crashCount: readNumberColumn(row, "crashes"),
    lastCrashAtMs: hasValue(row, "last_crash_at_ms")
      ? readNumberColumn(row, "last_crash_at_ms")
      : null,
    isQueued: readNumberColumn(row, "queued") === 1,
  };
}

/** Returns the mail of a row. Throws `store_failed`. */
export function readMailRow(row: unknown): Mail {
  return {
    number: readNumberColumn(row, "number"),
    key: readTextColumn(row, "key"),
    body: readTextColumn(row, "body"),
    atMs: readNumberColumn(row, "posted_at_ms"),
  };
}

/** Returns the ownership in a row, at the time of its column `now_ms`. Throws `store_failed`. */
export function readHolding(row: unknown): Holding {
  const owner = readOwner(row);
  return {
    epoch: readNumberColumn(row, "epoch"),
    token: readTextColumn(row, "owner_token"),
    owner,
    silentMs:
      owner === null
        ? 0
        : readNumberColumn(row, "now_ms") - readNumberColumn(row, "heartbeat_at_ms"),
    isQueued: readNumberColumn(row, "queued") === 1,
  };
}

function readOwner(row: unknown): StoredRun["owner"] {
  if (!hasValue(row, "owner_hostname")) return null;
  return {
    token: readTextColumn(row, "owner_token"),
    hostname: readTextColumn(row, "owner_hostname"),
    processId: readNumberColumn(row, "owner_process_id"),
  };
}

/** Returns the status in a row. Throws `store_failed`. */
export function readStatus(row: unknown): StoredStatus {
  const status = readTextColumn(row, "status");
  if (status === "open" || status === "paused" || status === "ended") return status;
  throw createUnreadableError("status", "open, paused or ended");
}

function readValue(row: unknown, column: string): unknown {
  return typeof row === "object" && row !== null ? Reflect.get(row, column) : undefined;
}

function createUnreadableError(column: string, expected: string): Error {
  const message = `Expected ${column} to be ${expected}, got something else. Restore the store from a copy.`;
  return createStoreError("corrupt", message);
}
