// The two drivers of SQLite behind one interface: the one that Node brings, and better-sqlite3. Both are loaded when a file is opened only.

import { pathToFileURL } from "node:url";

import { EspalierError } from "../../kernel/error.ts";

/** `node`: the one of Node itself, from 24 on without a warning; `better-sqlite3`: a package to install. */
export type SqliteDriver = "node" | "better-sqlite3";

type SqliteValue = string | number | null;

/** What is asked of a prepared statement. */
export interface SqliteStatement {
  /** Does it; gives its rows. */
  all(...values: readonly SqliteValue[]): readonly unknown[];
  /** May be left before its end. */
  iterate(...values: readonly SqliteValue[]): Iterable<unknown>;
}

/** What is asked of an open file. */
export interface SqliteDatabase {
  /** Does one statement, and keeps it prepared: for texts that are constants. */
  exec(sql: string): void;
  /** Does several statements. */
  script(sql: string): void;
  /** Keeps what it has prepared: for texts that are constants. */
  prepare(sql: string): SqliteStatement;
  readonly isInTransaction: boolean;
  close(): void;
}

/**
 * `write`: the file is made if there is none; `read`: it is there, and others may write it; `still`: it is there, `-wal` is not, and neither
 * remains beside it.
 */
export type SqliteAccess = "write" | "read" | "still";

/** Opens a file. */
export type OpenSqlite = (path: string, access: SqliteAccess) => Promise<SqliteDatabase>;

/** How to open files with a driver. Opening throws `invalid_option` if the driver is not there. */
export function openerOf(driver: SqliteDriver): OpenSqlite {
  return driver === "node" ? openWithNode : openWithBetterSqlite;
}

async function openWithNode(path: string, access: SqliteAccess): Promise<SqliteDatabase> {
  const { DatabaseSync } = await loadDriver("node", () => import("node:sqlite"));
  const name = access === "still" ? immutable(path) : path;
  const database = new DatabaseSync(name, { readOnly: access !== "write" });
  const prepare = cached((sql) => database.prepare(sql));
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

/** Without locks, and without any file beside it. */
function immutable(path: string): URL {
  const url = pathToFileURL(path);
  url.searchParams.set("immutable", "1");
  return url;
}

async function openWithBetterSqlite(path: string, access: SqliteAccess): Promise<SqliteDatabase> {
  const { default: Database } = await loadDriver("better-sqlite3", () => import("better-sqlite3"));
  // It takes no URL. A connection that may write removes the files beside it at its end.
  const readonly = access === "read";
  const database = new Database(path, { readonly, fileMustExist: access !== "write" });
  if (access === "still") database.pragma("query_only = true");
  const prepare = cached((sql) => {
    const statement = database.prepare(sql);
    // It refuses to give the rows of what has none.
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

function cached(prepare: (sql: string) => SqliteStatement): (sql: string) => SqliteStatement {
  const statements = new Map<string, SqliteStatement>();
  return (sql) => {
    const known = statements.get(sql);
    if (known !== undefined) return known;
    const statement = prepare(sql);
    statements.set(sql, statement);
    return statement;
  };
}

/** What to do about a driver that is not there. */
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
      code: "invalid_option",
      message: `Cannot open the store: the driver ${JSON.stringify(driver)} is not installed. ${REMEDIES[driver]}`,
      data: { field: "driver", got: driver, reason: "not_installed" },
      cause,
    });
  }
}
