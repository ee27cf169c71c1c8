// The statements on a SQLite file, of drivers that write it and of those that only read.

import {
  sqlTextsIn,
  type SqlDialect,
  type SqlPage,
  type SqlQuery,
  type SqlWork,
} from "../sql-driver.ts";
import { numberIn, textIn } from "../stored-row.ts";
import type { SqliteDatabase } from "./sqlite-driver.ts";

/** Blocks the event loop for so long at most; more patience is had without blocking. */
export const LONGEST_BLOCK_MS = 20;

/** Characters after which a page is full: what is read at once blocks the event loop, and is held in memory. */
const PAGE_LENGTH = 1_000_000;

/** Times are those of a clock that is handed in. A transaction has locked the file, so no row needs to be. */
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

const textOf = sqlTextsIn(DIALECT);

/** An open file, and what is known of it. */
export interface OpenFile {
  readonly database: SqliteDatabase;
  readonly nowMs: number;
}

export function performIn<T>(file: OpenFile, work: SqlWork<T>): T {
  let step = work.next();
  while (step.done !== true) step = work.next(runQuery(file, step.value));
  return step.value;
}

function runQuery({ database, nowMs }: OpenFile, query: SqlQuery): readonly unknown[] {
  const values = query.values.map((value) => (typeof value === "symbol" ? nowMs : value));
  return database.prepare(textOf(query)).all(...values);
}

/** Several statements that see the same. */
export function inSnapshot<T>(database: SqliteDatabase, look: () => T): T {
  database.exec("begin");
  try {
    return look();
  } finally {
    if (database.isInTransaction) database.exec("rollback");
  }
}

/** The next records of a run: `limit` at most. */
export function pageOf(
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
  for (const row of select.iterate(numberIn(run, "sequence"), first)) {
    rows.push(row);
    length += textIn(row, "record").length;
    if (length >= PAGE_LENGTH || rows.length >= limit) break;
  }
  return { recordCount: numberIn(run, "record_count"), rows };
}
