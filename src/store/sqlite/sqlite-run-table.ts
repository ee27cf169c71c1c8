// Runs and their journals in SQLite. Everything here happens within a transaction that the caller begins and commits.

import type { RunId } from "../../protocol/ids.ts";
import {
  checkFree,
  checkHeld,
  hasAlready,
  isLastOwner,
  positionOf,
  type Claimant,
} from "../holding.ts";
import type { JournalBatch, Ownership, RunOwner, StoredRun, StoredStatus } from "../run-store.ts";
import { journalConflict, runExists, storeFailed, unknownRun } from "../store-errors.ts";
import { holdingIn, numberIn, runIn, textIn } from "../stored-row.ts";
import type { SqliteDatabase } from "./sqlite-driver.ts";

export interface NewRunRow {
  readonly runId: RunId;
  readonly title: string;
  readonly owner: RunOwner;
}

export function createRun(database: SqliteDatabase, run: NewRunRow, nowMs: number): Ownership {
  const { runId, title, owner } = run;
  const found = rowOf(database, runId);
  const ownership = { runId, token: owner.token, epoch: 1 };
  if (found !== undefined) {
    const isFresh = numberIn(found, "epoch") === 1 && numberIn(found, "record_count") === 0;
    if (isFresh && hasAlready(holdingIn(found, nowMs), owner)) return ownership;
    throw runExists(runId);
  }
  database
    .prepare(
      `insert into run (run_id, title, status, epoch, record_count, owner_token, owner_hostname, owner_process_id,
         heartbeat_at_ms, created_at_ms, updated_at_ms)
       values (?, ?, 'open', 1, 0, ?, ?, ?, ?, ?, ?)`,
    )
    .run(runId, title, owner.token, owner.hostname, owner.processId, nowMs, nowMs, nowMs);
  return ownership;
}

export interface Claim {
  readonly runId: RunId;
  readonly owner: RunOwner;
  /** Undefined: any owner. */
  readonly claimant: Claimant | undefined;
}

export function claimRun(database: SqliteDatabase, claim: Claim, nowMs: number): Ownership {
  const { runId, owner, claimant } = claim;
  const holding = holdingIn(knownRow(database, runId), nowMs);
  if (hasAlready(holding, owner)) return { runId, token: owner.token, epoch: holding.epoch };
  if (claimant !== undefined) checkFree(holding, claimant);
  const epoch = holding.epoch + 1;
  database
    .prepare(
      `update run set status = 'open', epoch = ?, owner_token = ?, owner_hostname = ?, owner_process_id = ?,
         heartbeat_at_ms = ?, updated_at_ms = ? where run_id = ?`,
    )
    .run(epoch, owner.token, owner.hostname, owner.processId, nowMs, nowMs, runId);
  return { runId, token: owner.token, epoch };
}

export interface Append {
  readonly ownership: Ownership;
  readonly batch: JournalBatch;
}

export function appendRecords(
  database: SqliteDatabase,
  { ownership, batch }: Append,
  nowMs: number,
): void {
  const { runId, token, epoch } = ownership;
  const { firstNumber, records } = batch;
  // Lock, fence and count in one.
  const held = database
    .prepare(
      `update run set record_count = record_count + ?, heartbeat_at_ms = ?, updated_at_ms = ?
       where run_id = ? and epoch = ? and owner_token = ? and owner_hostname is not null and record_count = ?
       returning sequence`,
    )
    .get(records.length, nowMs, nowMs, runId, epoch, token, firstNumber - 1);
  if (held === undefined) return checkTaken(database, { ownership, batch }, nowMs);
  const run = numberIn(held, "sequence");
  const insert = database.prepare("insert into journal (run, number, record) values (?, ?, ?)");
  records.forEach((record, index) => insert.run(run, firstNumber + index, record));
}

/** Why a batch was not taken: nothing is wrong if it was taken before. */
function checkTaken(database: SqliteDatabase, { ownership, batch }: Append, nowMs: number): void {
  const row = heldRow(database, ownership, nowMs);
  const recordCount = numberIn(row, "record_count");
  const isTaken = positionOf(batch, recordCount) === "taken" && hasRecords(database, row, batch);
  if (!isTaken) throw journalConflict(ownership.runId, batch.firstNumber, recordCount);
  beatRun(database, ownership, nowMs);
}

function hasRecords(database: SqliteDatabase, row: unknown, batch: JournalBatch): boolean {
  const select = database.prepare("select record from journal where run = ? and number = ?");
  const run = numberIn(row, "sequence");
  return batch.records.every(
    (record, index) => textIn(select.get(run, batch.firstNumber + index), "record") === record,
  );
}

export function beatRun(database: SqliteDatabase, ownership: Ownership, nowMs: number): void {
  heldRow(database, ownership, nowMs);
  database
    .prepare("update run set heartbeat_at_ms = ? where run_id = ?")
    .run(nowMs, ownership.runId);
}

export interface Release {
  readonly ownership: Ownership;
  readonly status: "paused" | "ended";
}

export function releaseRun(
  database: SqliteDatabase,
  { ownership, status }: Release,
  nowMs: number,
): void {
  const row = knownRow(database, ownership.runId);
  const holding = holdingIn(row, nowMs);
  const wasDone = holding.owner === null && textIn(row, "status") === status;
  if (wasDone && isLastOwner(ownership, holding)) return;
  checkHeld(ownership, holding);
  database
    .prepare(
      `update run set status = ?, owner_hostname = null, owner_process_id = null, updated_at_ms = ?
       where run_id = ?`,
    )
    .run(status, nowMs, ownership.runId);
}

export function removeRun(database: SqliteDatabase, claimant: Claimant, nowMs: number): boolean {
  const row = rowOf(database, claimant.runId);
  if (row === undefined) return false;
  checkFree(holdingIn(row, nowMs), claimant);
  const run = numberIn(row, "sequence");
  database.prepare("delete from journal where run = ?").run(run);
  database.prepare("delete from run where sequence = ?").run(run);
  return true;
}

export function findRun(database: SqliteDatabase, runId: RunId): StoredRun | undefined {
  const row = rowOf(database, runId);
  return row === undefined ? undefined : runIn(row);
}

export interface RunFilter {
  /** Undefined: all. */
  readonly status: StoredStatus | undefined;
  readonly limit: number;
}

export function listRuns(
  database: SqliteDatabase,
  { status, limit }: RunFilter,
): readonly StoredRun[] {
  const order = "order by sequence desc limit ?";
  const rows =
    status === undefined
      ? database.prepare(`select * from run ${order}`).all(limit)
      : database.prepare(`select * from run where status = ? ${order}`).all(status, limit);
  return rows.map(runIn);
}

/** Characters after which a page is full: what is read at once blocks the event loop, and is held in memory. */
const PAGE_LENGTH = 1_000_000;

/** Some records from number `first` on; none: there are no more. Throws `unknown_run`, and `store_failed` if some are missing. */
export function readPage(database: SqliteDatabase, runId: RunId, first: number): readonly string[] {
  const row = knownRow(database, runId);
  const select = database.prepare(
    "select number, record from journal where run = ? and number >= ? order by number",
  );
  const page: string[] = [];
  let length = 0;
  for (const found of select.iterate(numberIn(row, "sequence"), first)) {
    if (numberIn(found, "number") !== first + page.length) break;
    const record = textIn(found, "record");
    page.push(record);
    length += record.length;
    if (length >= PAGE_LENGTH) return page;
  }
  const recordCount = numberIn(row, "record_count");
  const missing = first + page.length;
  if (missing > recordCount) return page;
  const message = `Expected run ${JSON.stringify(runId)} to have ${recordCount} records, got none of number ${missing}. Restore the store from a copy.`;
  throw storeFailed("corrupt", message);
}

function rowOf(database: SqliteDatabase, runId: string): unknown {
  return database.prepare("select * from run where run_id = ?").get(runId);
}

function knownRow(database: SqliteDatabase, runId: RunId): unknown {
  const row = rowOf(database, runId);
  if (row === undefined) throw unknownRun(runId);
  return row;
}

function heldRow(database: SqliteDatabase, ownership: Ownership, nowMs: number): unknown {
  const row = knownRow(database, ownership.runId);
  checkHeld(ownership, holdingIn(row, nowMs));
  return row;
}
