// Runs and their journals in a SQL database. Whatever changes a run is one statement that locks its row, or locks it first, so that of two
// changes one comes after the other (D4).

import type { RunId } from "../protocol/ids.ts";
import {
  checkFree,
  checkHeld,
  countsAsCrash,
  hasAlready,
  hasReleased,
  positionOf,
  type Claim,
  type Claimant,
} from "./holding.ts";
import type { JournalBatch, Ownership, RunOwner, StoredRun, StoredStatus } from "./run-store.ts";
import { NOW_MS, lockingSql, sql, type SqlPage, type SqlWork } from "./sql-driver.ts";
import { journalConflict, runExists, storeFailed, unknownRun } from "./store-errors.ts";
import { holdingIn, numberIn, runIn, statusIn, textIn } from "./stored-row.ts";

export function* createRun(runId: RunId, title: string, owner: RunOwner): SqlWork<Ownership> {
  const ownership = { runId, token: owner.token, epoch: 1 };
  const made = yield sql`
    insert into {schema}.run (run_id, title, status, epoch, record_count, owner_token, owner_hostname, owner_process_id,
      heartbeat_at_ms, created_at_ms, updated_at_ms)
    values (${runId}, ${title}, 'open', 1, 0, ${owner.token}, ${owner.hostname}, ${owner.processId}, ${NOW_MS}, ${NOW_MS}, ${NOW_MS})
    on conflict (run_id) do nothing returning epoch`;
  if (made.length > 0) return ownership;
  const found = yield* findRun(runId);
  const isFresh = found?.epoch === 1 && found.recordCount === 0;
  if (isFresh && found.owner?.token === owner.token) return ownership;
  throw runExists(runId);
}

export function* claimRun(runId: RunId, owner: RunOwner, claim: Claim): SqlWork<Ownership> {
  const { token, hostname, processId } = owner;
  const holding = holdingIn(yield* lockedRun(runId));
  if (hasAlready(holding, owner)) return { runId, token, epoch: holding.epoch };
  const isCrash = countsAsCrash(holding, claim);
  const epoch = holding.epoch + 1;
  yield sql`
    update {schema}.run set status = 'open', epoch = ${epoch}, owner_token = ${token}, owner_hostname = ${hostname},
      owner_process_id = ${processId}, heartbeat_at_ms = ${NOW_MS}, updated_at_ms = ${NOW_MS}
    where run_id = ${runId}`;
  if (isCrash)
    yield sql`
      update {schema}.run set crashes = crashes + 1, last_crash_at_ms = ${NOW_MS} where run_id = ${runId}`;
  return { runId, token, epoch };
}

/** Why a batch was not taken: nothing is wrong if it was taken before. */
export function* checkTaken(ownership: Ownership, batch: JournalBatch): SqlWork<void> {
  const row = yield* heldRun(ownership);
  const recordCount = numberIn(row, "record_count");
  const isTaken = positionOf(batch, recordCount) === "taken" && (yield* hasRecords(row, batch));
  if (!isTaken) throw journalConflict(ownership.runId, batch.firstNumber, recordCount);
  yield* beat(ownership.runId);
}

function* hasRecords(run: unknown, { firstNumber, records }: JournalBatch): SqlWork<boolean> {
  const rows = yield sql`
    select record from {schema}.journal where run = ${numberIn(run, "sequence")} and number >= ${firstNumber}
    order by number limit ${records.length}`;
  return records.every((record, index) => textIn(rows[index], "record") === record);
}

export function* beatRun(ownership: Ownership): SqlWork<void> {
  yield* heldRun(ownership);
  yield* beat(ownership.runId);
}

function* beat(runId: RunId): SqlWork<void> {
  yield sql`update {schema}.run set heartbeat_at_ms = ${NOW_MS} where run_id = ${runId}`;
}

/** `lastPost`: what was posted after it opens a run that is to be paused. */
export function* releaseRun(
  ownership: Ownership,
  given: StoredStatus,
  lastPost: number,
): SqlWork<void> {
  const { runId } = ownership;
  const row = yield* lockedRun(runId);
  const holding = holdingIn(row);
  if (hasReleased(ownership, holding, given, statusIn(row))) return;
  checkHeld(ownership, holding);
  const run = numberIn(row, "sequence");
  const unseen =
    yield sql`select 1 from {schema}.post where run = ${run} and number > ${lastPost} limit 1`;
  const status = given === "paused" && unseen.length > 0 ? "open" : given;
  yield sql`
    update {schema}.run set status = ${status}, owner_hostname = null, owner_process_id = null,
      crashes = crashes * ${given === "open" ? 1 : 0}, updated_at_ms = ${NOW_MS}
    where run_id = ${runId}`;
}

export function* removeRun(claimant: Claimant): SqlWork<boolean> {
  const row = yield* lockedRow(claimant.runId);
  if (row === undefined) return false;
  checkFree(holdingIn(row), claimant);
  const run = numberIn(row, "sequence");
  yield sql`delete from {schema}.journal where run = ${run}`;
  yield sql`delete from {schema}.post where run = ${run}`;
  yield sql`delete from {schema}.run where sequence = ${run}`;
  return true;
}

export function* findRun(runId: RunId): SqlWork<StoredRun | undefined> {
  const [row] = yield sql`select {run} from {schema}.run where run_id = ${runId}`;
  return row === undefined ? undefined : runIn(row);
}

/** `status` undefined: all of them. `before`: those that were made before this run. */
export function* listRuns(
  status: StoredStatus | undefined,
  limit: number,
  before: RunId | undefined,
): SqlWork<readonly StoredRun[]> {
  const end = before === undefined ? Number.MAX_SAFE_INTEGER : yield* sequenceOf(before);
  const rows =
    status === undefined
      ? yield sql`
          select {run} from {schema}.run where run.sequence < ${end} order by run.sequence desc limit ${limit}`
      : yield sql`
          select {run} from {schema}.run where status = ${status} and run.sequence < ${end}
          order by run.sequence desc limit ${limit}`;
  return rows.map(runIn);
}

function* sequenceOf(runId: RunId): SqlWork<number> {
  const [row] = yield sql`select {run} from {schema}.run where run_id = ${runId}`;
  if (row === undefined) throw unknownRun(runId);
  return numberIn(row, "sequence");
}

/** The records of a page that begins with number `first`. Throws `unknown_run`, and `store_failed` if some are missing. */
export function recordsOf(
  page: SqlPage | undefined,
  runId: RunId,
  first: number,
): readonly string[] {
  if (page === undefined) throw unknownRun(runId);
  const { recordCount, rows } = page;
  const records: string[] = [];
  for (const row of rows) {
    if (numberIn(row, "number") !== first + records.length) break;
    records.push(textIn(row, "record"));
  }
  const missing = first + records.length;
  if (missing > recordCount || (records.length > 0 && records.length === rows.length))
    return records;
  const message = `Expected run ${JSON.stringify(runId)} to have ${recordCount} records, got none of number ${missing}. Restore the store from a copy.`;
  throw storeFailed("corrupt", message);
}

function* heldRun(ownership: Ownership): SqlWork<unknown> {
  const row = yield* lockedRun(ownership.runId);
  checkHeld(ownership, holdingIn(row));
  return row;
}

/** The row of a run, kept from others until the transaction ends. Throws `unknown_run`. */
export function* lockedRun(runId: RunId): SqlWork<unknown> {
  const row = yield* lockedRow(runId);
  if (row === undefined) throw unknownRun(runId);
  return row;
}

function* lockedRow(runId: string): SqlWork<unknown> {
  const [row] = yield lockingSql`
    select {run}, ${NOW_MS} as now_ms from {schema}.run where run_id = ${runId} {for_update}`;
  return row;
}
