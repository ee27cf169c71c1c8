// Store in an SQL database: checks its arguments, and describes the work in the database. Owns
// whether the store is open.
//
// The acknowledgement of a driver may be lost, so every request is idempotent: a batch and mail are
// accepted once (D5), a token owns a run once, and a run is released once. Every change of a run is
// one statement that locks its row, or locks the row first, so that two changes are serialised
// (D4). Mail locks the row, too, so that each number is given once.

import { SessionIdSchema, type RunId, type SessionId } from "../protocol/ids.ts";
import {
  checkFree,
  checkHeld,
  countsAsCrash,
  hasAlready,
  hasReleased,
  classifyBatchPosition,
  getHostname,
} from "./ownership-rules.ts";
import type {
  ClaimOptions,
  JournalBatch,
  Ownership,
  Mail,
  RunFilter,
  RunOwner,
  StoredRun,
  StoredStatus,
} from "./run-store.ts";
import type { StoredSession } from "./session-store.ts";
import {
  lockingSql,
  NOW_MS,
  sql,
  type SqlDriver,
  type SqlPage,
  type SqlWork,
} from "./sql-driver.ts";
import {
  copyBatch,
  checkExpectedVersion,
  checkFilter,
  checkId,
  copyOwner,
  copyMail,
  checkStaleAfterMs,
  checkStoredText,
  resolveFirstNumber,
  resolveLastMail,
  resolveListLimit,
  readLimit,
  sanitizeTitle,
} from "./store-arguments.ts";
import {
  conflictError,
  createRunEndedError,
  createRunExistsError,
  createSessionConflictError,
  createStoreClosedError,
  createStoreError,
  createUnknownRunError,
} from "./store-errors.ts";
import type { Store } from "./store.ts";
import {
  hasValue,
  readHolding,
  readNumberColumn,
  readMailRow,
  readRunRow,
  readStatus,
  readTextColumn,
} from "./stored-row.ts";

export class SqlStore implements Store {
  readonly #driver: SqlDriver;
  readonly #isProcessGone: (processId: number) => boolean;
  #closing: Promise<void> | undefined;

  constructor(driver: SqlDriver, isProcessGone: (processId: number) => boolean) {
    this.#driver = driver;
    this.#isProcessGone = isProcessGone;
  }

  async create(runId: RunId, givenTitle: string, givenOwner: RunOwner): Promise<Ownership> {
    this.#check("runId", runId);
    const title = sanitizeTitle(givenTitle);
    const { token, hostname, processId } = copyOwner(givenOwner);
    const ownership = { runId, token, epoch: 1 };
    return await this.#write(function* () {
      const inserted = yield sql`
        insert into {schema}.run (run_id, title, status, epoch, record_count, owner_token, owner_hostname, owner_process_id,
          heartbeat_at_ms, created_at_ms, updated_at_ms)
        select ${runId}, ${title}, 'open', 1, 0, ${token}, ${hostname}, ${processId}, at_ms, at_ms, at_ms
        from (select ${NOW_MS} as at_ms) as moment where true
        on conflict (run_id) do nothing returning epoch`;
      if (inserted.length > 0) return ownership;
      const stored = yield* findRun(runId);
      const isFresh = stored?.epoch === 1 && stored.recordCount === 0;
      if (isFresh && stored.owner?.token === token) return ownership;
      throw createRunExistsError(runId);
    });
  }

  async claim(runId: RunId, options: ClaimOptions): Promise<Ownership> {
    this.#check("runId", runId);
    const { staleAfterMs, takeOver = false, ownerLost = false } = options;
    const owner = copyOwner(options.owner);
    checkStaleAfterMs(staleAfterMs);
    const { token, hostname, processId } = owner;
    const claimant = { runId, hostname, staleAfterMs, isProcessGone: this.#isProcessGone };
    return await this.#write(function* () {
      const holding = readHolding(yield* lockRun(runId));
      if (hasAlready(holding, owner)) return { runId, token, epoch: holding.epoch };
      const isCrash = countsAsCrash(holding, { claimant, takeOver, ownerLost });
      const epoch = holding.epoch + 1;
      yield sql`
        update {schema}.run set status = 'open', epoch = ${epoch}, owner_token = ${token}, owner_hostname = ${hostname},
          owner_process_id = ${processId}, heartbeat_at_ms = ${NOW_MS}, updated_at_ms = ${NOW_MS}, queued = 0
        where run_id = ${runId}`;
      if (isCrash)
        yield sql`
          update {schema}.run set crashes = crashes + 1, last_crash_at_ms = ${NOW_MS} where run_id = ${runId}`;
      return { runId, token, epoch };
    });
  }

  async append(ownership: Ownership, submitted: JournalBatch): Promise<void> {
    this.#check("runId", ownership.runId);
    const batch = copyBatch(submitted);
    await this.#wrap(this.#driver.append(ownership, batch, () => checkTaken(ownership, batch)));
  }

  async heartbeat(ownership: Ownership): Promise<void> {
    this.#check("runId", ownership.runId);
    await this.#write(function* () {
      yield* lockOwnRun(ownership);
      yield* recordHeartbeat(ownership.runId);
    });
  }

  async release(ownership: Ownership, requested: StoredStatus, lastMail?: number): Promise<void> {
    const { runId } = ownership;
    this.#check("runId", runId);
    const seen = resolveLastMail(lastMail);
    await this.#write(function* () {
      const row = yield* lockRun(runId);
      const holding = readHolding(row);
      if (hasReleased(ownership, holding, requested, readStatus(row))) return;
      checkHeld(ownership, holding);
      const run = readNumberColumn(row, "sequence");
      const unseen =
        yield sql`select 1 from {schema}.post where run = ${run} and number > ${seen} limit 1`;
      const status = requested === "paused" && unseen.length > 0 ? "open" : requested;
      yield sql`
        update {schema}.run set status = ${status}, owner_hostname = null, owner_process_id = null,
          crashes = crashes * ${requested === "open" ? 1 : 0}, queued = 0, updated_at_ms = ${NOW_MS}
        where run_id = ${runId}`;
    });
  }

  async *read(runId: RunId, from?: number, limit?: number): AsyncIterable<string> {
    this.#check("runId", runId);
    let first = resolveFirstNumber(from);
    const end = first + readLimit(limit);
    while (first < end) {
      const page = await this.#wrap(this.#driver.page(runId, first, end - first));
      const records = listRecords(page, runId, first);
      if (records.length === 0) return;
      yield* records;
      first += records.length;
    }
  }

  async sendMail(runId: RunId, submitted: Pick<Mail, "key" | "body">): Promise<number> {
    this.#check("runId", runId);
    const { key, body } = copyMail(submitted);
    return await this.#write(function* () {
      const row = yield* lockRun(runId);
      const run = readNumberColumn(row, "sequence");
      const [known] =
        yield sql`select number from {schema}.post where run = ${run} and key = ${key}`;
      if (known !== undefined) return readNumberColumn(known, "number");
      if (readStatus(row) === "ended") throw createRunEndedError(runId);
      const [inserted] = yield sql`
        insert into {schema}.post (run, number, key, body, posted_at_ms)
        select ${run}, coalesce(max(number), 0) + 1, ${key}, ${body}, ${NOW_MS} from {schema}.post where run = ${run}
        returning number`;
      yield sql`update {schema}.run set status = 'open', updated_at_ms = ${NOW_MS} where sequence = ${run}`;
      return readNumberColumn(inserted, "number");
    });
  }

  async readMail(runId: RunId, from?: number): Promise<readonly Mail[]> {
    this.#check("runId", runId);
    const first = resolveFirstNumber(from);
    return await this.#read(function* () {
      const rows = yield sql`
        select number, key, body, posted_at_ms from {schema}.run left join {schema}.post as post on post.run = run.sequence and post.number >= ${first}
        where run.run_id = ${runId} order by post.number`;
      if (rows.length === 0) throw createUnknownRunError(runId);
      return rows.filter((row) => hasValue(row, "number")).map(readMailRow);
    });
  }

  async find(runId: RunId): Promise<StoredRun | undefined> {
    this.#check("runId", runId);
    return await this.#read(() => findRun(runId));
  }

  async list(filter: RunFilter = {}): Promise<readonly StoredRun[]> {
    this.#checkOpen();
    checkFilter(filter);
    const { status, before } = filter;
    const limit = resolveListLimit(filter.limit);
    return await this.#read(function* () {
      const end = before === undefined ? Number.MAX_SAFE_INTEGER : yield* findSequence(before);
      const rows =
        status === undefined
          ? yield sql`
              select {run} from {schema}.run where run.sequence < ${end} order by run.sequence desc limit ${limit}`
          : yield sql`
              select {run} from {schema}.run where status = ${status} and run.sequence < ${end}
              order by run.sequence desc limit ${limit}`;
      return rows.map(readRunRow);
    });
  }

  async remove(runId: RunId, staleAfterMs: number): Promise<boolean> {
    this.#check("runId", runId);
    checkStaleAfterMs(staleAfterMs);
    const isProcessGone = this.#isProcessGone;
    return await this.#write(function* () {
      const row = yield* lockRow(runId);
      if (row === undefined) return false;
      checkFree(readHolding(row), { runId, hostname: getHostname(), staleAfterMs, isProcessGone });
      const run = readNumberColumn(row, "sequence");
      yield sql`delete from {schema}.journal where run = ${run}`;
      yield sql`delete from {schema}.post where run = ${run}`;
      yield sql`delete from {schema}.run where sequence = ${run}`;
      return true;
    });
  }

  async readSession(sessionId: SessionId): Promise<StoredSession | undefined> {
    this.#check("sessionId", sessionId);
    return await this.#read(() => findSession(sessionId));
  }

  async writeSession(sessionId: SessionId, expectedVersion: number, body: string): Promise<number> {
    this.#check("sessionId", sessionId);
    checkExpectedVersion(expectedVersion);
    checkStoredText("body", body);
    const version = expectedVersion + 1;
    return await this.#write(function* () {
      const written =
        expectedVersion === 0
          ? yield sql`
              insert into {schema}.session (session_id, version, body, written, updated_at_ms)
              values (${sessionId}, 1, ${body}, {next_written}, ${NOW_MS})
              on conflict (session_id) do nothing returning version`
          : yield sql`
              update {schema}.session set version = ${version}, body = ${body}, written = {next_written}, updated_at_ms = ${NOW_MS}
              where session_id = ${sessionId} and version = ${expectedVersion} returning version`;
      if (written.length > 0) return version;
      const stored = yield* findSession(sessionId);
      throw createSessionConflictError(sessionId, expectedVersion, stored?.version ?? 0);
    });
  }

  async listSessions(options: { readonly limit?: number } = {}): Promise<readonly SessionId[]> {
    this.#checkOpen();
    const limit = resolveListLimit(options.limit);
    return await this.#read(function* () {
      const rows =
        yield sql`select session_id from {schema}.session order by written desc limit ${limit}`;
      return rows.map((row) => SessionIdSchema().parse(readTextColumn(row, "session_id")));
    });
  }

  async removeSession(sessionId: SessionId): Promise<boolean> {
    this.#check("sessionId", sessionId);
    return await this.#write(function* () {
      const rows = yield sql`
        delete from {schema}.session where session_id = ${sessionId} returning version`;
      return rows.length > 0;
    });
  }

  close(): Promise<void> {
    this.#closing ??= this.#wrap(this.#driver.close());
    return this.#closing;
  }

  #check(field: string, id: string): void {
    this.#checkOpen();
    checkId(field, id);
  }

  #checkOpen(): void {
    if (this.#closing !== undefined) throw createStoreClosedError();
  }

  #read<T>(begin: () => SqlWork<T>): Promise<T> {
    return this.#wrap(this.#driver.read(begin));
  }

  #write<T>(begin: () => SqlWork<T>): Promise<T> {
    return this.#wrap(this.#driver.write(begin));
  }

  /** Rejects with an error of espalier for every error of the driver. */
  async #wrap<T>(outcome: Promise<T>): Promise<T> {
    try {
      return await outcome;
    } catch (cause) {
      throw this.#driver.failed(cause);
    }
  }
}

function* findRun(runId: RunId): SqlWork<StoredRun | undefined> {
  const [row] = yield sql`select {run} from {schema}.run where run_id = ${runId}`;
  return row === undefined ? undefined : readRunRow(row);
}

function* findSequence(runId: RunId): SqlWork<number> {
  const [row] = yield sql`select {run} from {schema}.run where run_id = ${runId}`;
  if (row === undefined) throw createUnknownRunError(runId);
  return readNumberColumn(row, "sequence");
}

function* findSession(sessionId: SessionId): SqlWork<StoredSession | undefined> {
  const [row] = yield sql`
    select version, body from {schema}.session where session_id = ${sessionId}`;
  if (row === undefined) return undefined;
  return { version: readNumberColumn(row, "version"), body: readTextColumn(row, "body") };
}

/** Throws for a batch that was rejected, unless it was accepted before. */
function* checkTaken(ownership: Ownership, batch: JournalBatch): SqlWork<void> {
  const { firstNumber, records } = batch;
  const row = yield* lockOwnRun(ownership);
  const recordCount = readNumberColumn(row, "record_count");
  const isThere = classifyBatchPosition(batch, recordCount) === "taken";
  const rows = isThere
    ? yield sql`
        select record from {schema}.journal where run = ${readNumberColumn(row, "sequence")} and number >= ${firstNumber}
        order by number limit ${records.length}`
    : [];
  const isSame =
    isThere && records.every((record, index) => readTextColumn(rows[index], "record") === record);
  if (!isSame) throw conflictError(ownership.runId, firstNumber, recordCount);
  yield* recordHeartbeat(ownership.runId);
}

function* recordHeartbeat(runId: RunId): SqlWork<void> {
  yield sql`update {schema}.run set heartbeat_at_ms = ${NOW_MS} where run_id = ${runId}`;
}

/** Locks the row of a run. Throws `run_fenced` unless this ownership holds the run. */
function* lockOwnRun(ownership: Ownership): SqlWork<unknown> {
  const row = yield* lockRun(ownership.runId);
  checkHeld(ownership, readHolding(row));
  return row;
}

/** Locks the row of a run until the transaction ends. Throws `unknown_run`. */
function* lockRun(runId: RunId): SqlWork<unknown> {
  const row = yield* lockRow(runId);
  if (row === undefined) throw createUnknownRunError(runId);
  return row;
}

function* lockRow(runId: string): SqlWork<unknown> {
  const [row] = yield lockingSql`
    select {run}, ${NOW_MS} as now_ms from {schema}.run where run_id = ${runId} {for_update}`;
  return row;
}

/**
 * Lists the records of a page that begins with number `first`. Throws `unknown_run`, and
 * `store_failed` if records are missing.
 */
function listRecords(page: SqlPage | undefined, runId: RunId, first: number): readonly string[] {
  if (page === undefined) throw createUnknownRunError(runId);
  const { recordCount, rows } = page;
  const records: string[] = [];
  for (const row of rows) {
    if (readNumberColumn(row, "number") !== first + records.length) break;
    records.push(readTextColumn(row, "record"));
  }
  const missing = first + records.length;
  if (missing > recordCount || (records.length > 0 && records.length === rows.length))
    return records;
  const message = `Cannot read run ${JSON.stringify(runId)}: of ${recordCount} records, record ${missing} is missing. Restore the store from a copy.`;
  throw createStoreError("corrupt", message);
}
