// Driver for a store in an SQLite file. Owns the connection. Requests pass through the queue of
// group-commit.ts.

import type { Clock } from "../../kernel/clock.ts";
import type { EspalierError } from "../../kernel/error.ts";
import { MemoizedPromise } from "../../kernel/memoized-promise.ts";
import type { JournalBatch, Ownership } from "../run-store.ts";
import type { SqlDriver, SqlPage, SqlWork } from "../sql-driver.ts";
import { createStoreClosedError } from "../store-errors.ts";
import { readNumberColumn } from "../stored-row.ts";
import { readInSnapshot, LONGEST_BLOCK_MS, readPage, executeOnFile } from "./file-queries.ts";
import { GroupCommit } from "./group-commit.ts";
import { prepareFile } from "./sqlite-schema.ts";
import type { OpenSqlite, SqliteDatabase } from "./sqlite-driver.ts";
import { convertSqliteError } from "./sqlite-faults.ts";

export interface FileDriverOptions {
  readonly path: string;
  readonly open: OpenSqlite;
  readonly durability: "full" | "process";
  readonly busyTimeoutMs: number;
  readonly clock: Clock;
}

export class FileDriver implements SqlDriver {
  readonly #options: FileDriverOptions;
  readonly #commits: GroupCommit;
  readonly #database = new MemoizedPromise<SqliteDatabase>();
  #isClosed = false;

  constructor(options: FileDriverOptions) {
    this.#options = options;
    const { clock, busyTimeoutMs } = options;
    this.#commits = new GroupCommit({ open: () => this.#open(), clock, busyTimeoutMs });
  }

  read<T>(begin: () => SqlWork<T>): Promise<T> {
    return this.#see((database) => this.#perform(database, begin()));
  }

  write<T>(begin: () => SqlWork<T>): Promise<T> {
    return this.#commits.write((database) => this.#perform(database, begin()));
  }

  append(ownership: Ownership, batch: JournalBatch, refuse: () => SqlWork<void>): Promise<void> {
    return this.#commits.write((database) => {
      const isTaken = append(database, ownership, batch, this.#nowMs());
      if (!isTaken) this.#perform(database, refuse());
    });
  }

  page(runId: string, first: number, limit: number): Promise<SqlPage | undefined> {
    return this.#see((database) => readPage(database, runId, first, limit));
  }

  failed(cause: unknown): EspalierError {
    return convertSqliteError(this.#options.path, cause);
  }

  /** Closes the file once earlier requests are done. */
  async close(): Promise<void> {
    await this.#commits.settled();
    this.#isClosed = true;
    const database = await this.#database.current;
    database?.close();
  }

  #perform<T>(database: SqliteDatabase, work: SqlWork<T>): T {
    return executeOnFile({ database, nowMs: this.#nowMs() }, work);
  }

  #nowMs(): number {
    return Math.floor(this.#options.clock.nowMs());
  }

  #see<T>(look: (database: SqliteDatabase) => T): Promise<T> {
    return this.#commits.patiently((database) => readInSnapshot(database, () => look(database)));
  }

  async #open(): Promise<SqliteDatabase> {
    if (this.#isClosed) throw createStoreClosedError();
    return await this.#database.get(() => openDatabase(this.#options));
  }
}

async function openDatabase(options: FileDriverOptions): Promise<SqliteDatabase> {
  const { path, durability } = options;
  const database = await options.open(path, "write");
  try {
    database.exec(`pragma busy_timeout = ${LONGEST_BLOCK_MS}`);
    // Checked first, so that the file of another program stays unchanged.
    prepareFile(database, path);
    database.exec("pragma journal_mode = wal");
    database.exec(`pragma synchronous = ${durability === "full" ? "full" : "normal"}`);
    return database;
  } catch (cause) {
    database.close();
    throw cause;
  }
}

/**
 * Appends a batch that comes next from the owner of the run. Returns `false` for any other batch,
 * and changes nothing.
 */
function append(
  database: SqliteDatabase,
  { runId, token, epoch }: Ownership,
  { firstNumber, records, hasProgress = false, isQueued = false }: JournalBatch,
  nowMs: number,
): boolean {
  // Checks lock, fence and count in one statement.
  const [updated] = database
    .prepare(
      `update run set record_count = record_count + ?, heartbeat_at_ms = ?, updated_at_ms = ?, crashes = crashes * ?, queued = ?
       where run_id = ? and epoch = ? and owner_token = ? and owner_hostname is not null and record_count = ?
       returning sequence`,
    )
    .all(
      records.length,
      nowMs,
      nowMs,
      hasProgress ? 0 : 1,
      isQueued ? 1 : 0,
      runId,
      epoch,
      token,
      firstNumber - 1,
    );
  if (updated === undefined) return false;
  const run = readNumberColumn(updated, "sequence");
  const insert = database.prepare("insert into journal (run, number, record) values (?, ?, ?)");
  records.forEach((record, index) => insert.all(run, firstNumber + index, record));
  return true;
}
