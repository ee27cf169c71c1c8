// Statements on a SQLite file, for drivers that write the file and drivers that only read it.

import {
  createSqlFormatter,
  type SqlDialect,
  type SqlPage,
  type SqlQuery,
  type SqlWork,
} from "../sql-driver.ts";
import { readNumberColumn, readTextColumn } from "../stored-row.ts";
import type { SqliteDatabase } from "./sqlite-driver.ts";

/**
 * Longest time in milliseconds for which a lock may block the event loop. Longer waits do not
 * block.
 */
export const LONGEST_BLOCK_MS = 20;

/**
 * Length after which a page is full, in characters. Reading a page blocks the event loop, and the
 * page is held in memory.
 */
const PAGE_LENGTH = 1_000_000;

/**
 * Times come from a clock that is passed in. Rows are not locked, because a transaction locks the
 * whole file.
 */
const DIALECT: SqlDialect = {
  words: {
    schema: "main",
    run: "*",
    next_written: "(select coalesce(max(written), 0) + 1 from session)",
    for_update: "",
  },
  nowMs: "?",
  placeholder: () => "?",
};

const textOf = createSqlFormatter(DIALECT);

/** Open file, and the time of the request. */
export interface OpenFile {
  readonly database: SqliteDatabase;
  readonly nowMs: number;
}

export function executeOnFile<T>(file: OpenFile, work: SqlWork<T>): T {
  let step = work.next();
  while (step.done !== true) step = work.next(runQuery(file, step.value));
  return step.value;
}

function runQuery({ database, nowMs }: OpenFile, query: SqlQuery): readonly unknown[] {
  const values = query.values.map((value) => (typeof value === "symbol" ? nowMs : value));
  return database.prepare(textOf(query)).all(...values);
}

/** Executes several statements on one state of the file. */
export function readInSnapshot<T>(database: SqliteDatabase, look: () => T): T {
  database.exec("begin");
  try {
    return look();
  } finally {
    if (database.isInTransaction) database.exec("rollback");
  }
}

/** Returns the next records of a run, at most `limit`. */
export function readPage(
  database: SqliteDatabase,
  runId: string,
  first: number,
  limit: number,
): SqlPage | undefined {
  const [run] = database
    .prepare("select sequence, record_count from run where run_id = ?")
    .all(runId);
  if (run === undefined) return undefined;
  const select = database.prepare(
    "select number, record from journal where run = ? and number >= ? order by number",
  );
  const rows: unknown[] = [];
  let length = 0;
  for (const row of select.iterate(readNumberColumn(run, "sequence"), first)) {
    rows.push(row);
    length += readTextColumn(row, "record").length;
    if (length >= PAGE_LENGTH || rows.length >= limit) break;
  }
  return { recordCount: readNumberColumn(run, "record_count"), rows };
}
