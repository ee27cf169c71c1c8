// A store in one SQLite file. Owns the connection; what is asked of it goes through the line of group-commit.ts.

import type { Clock } from "../../kernel/clock.ts";
import type { EspalierError } from "../../kernel/error.ts";
import { MadeOnce } from "../../kernel/made-once.ts";
import type { JournalBatch, Ownership } from "../run-store.ts";
import {
  sqlTextsIn,
  type SqlDialect,
  type SqlDriver,
  type SqlPage,
  type SqlQuery,
  type SqlWork,
} from "../sql-driver.ts";
import { storeClosed } from "../store-errors.ts";
import { numberIn, textIn } from "../stored-row.ts";
import { GroupCommit } from "./group-commit.ts";
import { prepareSchema } from "./schema.ts";
import type { OpenSqlite, SqliteDatabase } from "./sqlite-driver.ts";
import { sqliteFailed } from "./sqlite-faults.ts";

export interface FileDriverOptions {
  readonly path: string;
  readonly open: OpenSqlite;
  readonly durability: "full" | "process";
  readonly busyTimeoutMs: number;
  readonly clock: Clock;
}

/** Blocks the event loop for so long at most; more patience is had without blocking. */
const LONGEST_BLOCK_MS = 20;

/** Characters after which a page is full: what is read at once blocks the event loop, and is held in memory. */
const PAGE_LENGTH = 1_000_000;

/** Times are numbers, and those of a clock that is handed in. A transaction has locked the file, so no row needs to be. */
const DIALECT: SqlDialect = {
  words: {
    schema: "main",
    run: "*",
    post: "number, key, body, posted_at_ms",
    heartbeat: "heartbeat_at_ms",
    created: "created_at_ms",
    updated: "updated_at_ms",
    posted: "posted_at_ms",
    next_written: "(select coalesce(max(written), 0) + 1 from session)",
    for_update: "",
  },
  now: "?",
  nowMs: "?",
  placeholder: () => "?",
};

export class FileDriver implements SqlDriver {
  readonly #options: FileDriverOptions;
  readonly #commits: GroupCommit;
  readonly #textOf = sqlTextsIn(DIALECT);
  readonly #database = new MadeOnce<SqliteDatabase>();
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

  page(runId: string, first: number): Promise<SqlPage | undefined> {
    return this.#see((database) => pageOf(database, runId, first));
  }

  failed(cause: unknown): EspalierError {
    return sqliteFailed(this.#options.path, cause);
  }

  /** What was asked for before is done first. */
  async close(): Promise<void> {
    await this.#commits.settled();
    this.#isClosed = true;
    const database = await this.#database.made;
    database?.close();
  }

  #perform<T>(database: SqliteDatabase, work: SqlWork<T>): T {
    const nowMs = this.#nowMs();
    let step = work.next();
    while (step.done !== true) step = work.next(this.#rowsOf(database, step.value, nowMs));
    return step.value;
  }

  #nowMs(): number {
    return Math.floor(this.#options.clock.nowMs());
  }

  #rowsOf(database: SqliteDatabase, query: SqlQuery, nowMs: number): readonly unknown[] {
    const values = query.values.map((value) => (typeof value === "symbol" ? nowMs : value));
    return database.prepare(this.#textOf(query)).all(...values);
  }

  #see<T>(look: (database: SqliteDatabase) => T): Promise<T> {
    return this.#commits.patiently((database) => inSnapshot(database, look));
  }

  async #open(): Promise<SqliteDatabase> {
    if (this.#isClosed) throw storeClosed();
    return await this.#database.get(() => opened(this.#options));
  }
}

async function opened(options: FileDriverOptions): Promise<SqliteDatabase> {
  const { path, durability } = options;
  const database = await options.open(path);
  try {
    database.exec(`pragma busy_timeout = ${LONGEST_BLOCK_MS}`);
    // First, so that the file of another program is left as it is.
    prepareSchema(database, path);
    database.exec("pragma journal_mode = wal");
    database.exec(`pragma synchronous = ${durability === "full" ? "full" : "normal"}`);
    return database;
  } catch (cause) {
    database.close();
    throw cause;
  }
}

/** Several statements that see the same. */
function inSnapshot<T>(database: SqliteDatabase, look: (database: SqliteDatabase) => T): T {
  database.exec("begin");
  try {
    return look(database);
  } finally {
    if (database.isInTransaction) database.exec("rollback");
  }
}

/** Takes a batch that is next in line from the owner of the run; false, and nothing is changed, for any other. */
function append(
  database: SqliteDatabase,
  { runId, token, epoch }: Ownership,
  { firstNumber, records }: JournalBatch,
  nowMs: number,
): boolean {
  // Lock, fence and count in one.
  const [held] = database
    .prepare(
      `update run set record_count = record_count + ?, heartbeat_at_ms = ?, updated_at_ms = ?
       where run_id = ? and epoch = ? and owner_token = ? and owner_hostname is not null and record_count = ?
       returning sequence`,
    )
    .all(records.length, nowMs, nowMs, runId, epoch, token, firstNumber - 1);
  if (held === undefined) return false;
  const run = numberIn(held, "sequence");
  const insert = database.prepare("insert into journal (run, number, record) values (?, ?, ?)");
  records.forEach((record, index) => insert.all(run, firstNumber + index, record));
  return true;
}

function pageOf(database: SqliteDatabase, runId: string, first: number): SqlPage | undefined {
  const [run] = database
    .prepare("select sequence, record_count from run where run_id = ?")
    .all(runId);
  if (run === undefined) return undefined;
  const select = database.prepare(
    "select number, record from journal where run = ? and number >= ? order by number",
  );
  const rows: unknown[] = [];
  let length = 0;
  for (const row of select.iterate(numberIn(run, "sequence"), first)) {
    rows.push(row);
    length += textIn(row, "record").length;
    if (length >= PAGE_LENGTH) break;
  }
  return { recordCount: numberIn(run, "record_count"), rows };
}
