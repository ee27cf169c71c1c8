// The two drivers of SQLite, Node's own and better-sqlite3, behind one interface. Each is loaded
// when a file is opened.

import { pathToFileURL } from "node:url";

import { EspalierError } from "../../kernel/error.ts";

/** `node`: built into Node, from 24 on without a warning. `better-sqlite3`: an npm package. */
export type SqliteDriver = "node" | "better-sqlite3";

type SqliteValue = string | number | null;

/** The part of a prepared statement that is used here. */
export interface SqliteStatement {
  /** Executes the statement and returns its rows. */
  all(...values: readonly SqliteValue[]): readonly unknown[];
  /** Iterates over the rows. The iteration may stop early. */
  iterate(...values: readonly SqliteValue[]): Iterable<unknown>;
}

/** The part of an open file that is used here. */
export interface SqliteDatabase {
  /** Executes a statement, and caches it as prepared. For constant texts. */
  exec(sql: string): void;
  /** Executes several statements. */
  script(sql: string): void;
  /** Prepares a statement, memoised by its text. For constant texts. */
  prepare(sql: string): SqliteStatement;
  readonly isInTransaction: boolean;
  close(): void;
}

/**
 * `write` creates the file if it does not exist. `read` is for a file that other processes may
 * write. `still` is for a file without `-wal`, and creates no file beside it.
 */
export type SqliteAccess = "write" | "read" | "still";

/** Opens a file. */
export type OpenSqlite = (path: string, access: SqliteAccess) => Promise<SqliteDatabase>;

/**
 * Returns a function that opens files with a driver. It throws `missing_package` if the driver is
 * not installed.
 */
export function getOpener(driver: SqliteDriver): OpenSqlite {
  return driver === "node" ? openWithNode : openWithBetterSqlite;
}

async function openWithNode(path: string, access: SqliteAccess): Promise<SqliteDatabase> {
  const { DatabaseSync } = await loadDriver("node", () => import("node:sqlite"));
  const name = access === "still" ? createImmutableUrl(path) : path;
  const database = new DatabaseSync(name, { readOnly: access !== "write" });
  const prepare = cacheStatements((sql) => database.prepare(sql));
  return {
    exec: (sql) => void prepare(sql).all(),
    script: (sql) => database.exec(sql),
    prepare,
    get isInTransaction() {
      return database.isTransaction;
    },
    close: () => database.close(),
  };
}

/** Returns a URL that opens the file without locks, and without any file beside it. */
function createImmutableUrl(path: string): URL {
  const url = pathToFileURL(path);
  url.searchParams.set("immutable", "1");
  return url;
}

async function openWithBetterSqlite(path: string, access: SqliteAccess): Promise<SqliteDatabase> {
  const { default: Database } = await loadDriver("better-sqlite3", () => import("better-sqlite3"));
  // better-sqlite3 accepts no URL. A connection that may write removes the files beside the
  // database when it closes.
  const readonly = access === "read";
  const database = new Database(path, { readonly, fileMustExist: access !== "write" });
  if (access === "still") database.pragma("query_only = true");
  const prepare = cacheStatements((sql) => {
    const statement = database.prepare(sql);
    // better-sqlite3 throws if rows are requested of a statement without rows.
    if (statement.reader) return statement;
    const all: SqliteStatement["all"] = (...values) => {
      statement.run(...values);
      return [];
    };
    return { all, iterate: all };
  });
  return {
    exec: (sql) => void prepare(sql).all(),
    script: (sql) => void database.exec(sql),
    prepare,
    get isInTransaction() {
      return database.inTransaction;
    },
    close: () => void database.close(),
  };
}

function cacheStatements(
  prepare: (sql: string) => SqliteStatement,
): (sql: string) => SqliteStatement {
  const statements = new Map<string, SqliteStatement>();
  return (sql) => {
    const known = statements.get(sql);
    if (known !== undefined) return known;
    const statement = prepare(sql);
    statements.set(sql, statement);
    return statement;
  };
}

/** Remedies for a driver that cannot be loaded. */
const REMEDIES: Readonly<Record<SqliteDriver, string>> = {
  node: 'Use Node 24, or choose driver: "better-sqlite3" and run: npm install better-sqlite3.',
  "better-sqlite3": "Run: npm install better-sqlite3.",
};

const MISSING: readonly unknown[] = [
  "ERR_MODULE_NOT_FOUND",
  "MODULE_NOT_FOUND",
  "ERR_UNKNOWN_BUILTIN_MODULE",
];

async function loadDriver<T>(driver: SqliteDriver, load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (cause) {
    if (!(cause instanceof Error && "code" in cause && MISSING.includes(cause.code))) throw cause;
    throw new EspalierError({
      code: "missing_package",
      message: `Cannot open the store: the driver ${JSON.stringify(driver)} is not installed. ${REMEDIES[driver]}`,
      data: { field: "driver", got: driver, reason: "not_installed" },
      cause,
    });
  }
}
