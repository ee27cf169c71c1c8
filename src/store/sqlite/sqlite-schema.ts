// SQLite tables of a store.

import type { EspalierError } from "../../kernel/error.ts";
import {
  createStoreError,
  createStoreMissingError,
  createSchemaVersionError,
} from "../store-errors.ts";
import { runInTransaction } from "./group-commit.ts";
import type { SqliteDatabase } from "./sqlite-driver.ts";
import { readNumberColumn } from "../stored-row.ts";
import { SCHEMA_VERSION, writeTables } from "../sql-tables.ts";

/** "espl", which marks a file as a store. */
const APPLICATION_ID = 0x65_73_70_6c;

const TABLES = writeTables({
  prefix: "",
  key: "text",
  number: "integer",
  sequence: "sequence integer primary key autoincrement",
  run: "run integer not null",
  written: "written integer not null unique",
  end: { plain: " strict", keyed: " strict, without rowid" },
});

/**
 * Creates the tables in a new file. Throws `unsupported_version` for tables of another version, and
 * `store_failed` for the database of another program.
 */
export function prepareFile(database: SqliteDatabase, path: string): void {
  if (isStore(database, path)) return;
  runInTransaction(database, () => {
    // Another process may have created them before the file was locked.
    if (isStore(database, path)) return;
    database.script(TABLES);
    database.exec(`pragma application_id = ${APPLICATION_ID}`);
    database.exec(`pragma user_version = ${SCHEMA_VERSION}`);
  });
}

/** Throws like `prepareFile`, and `store_failed` for a file without tables. */
export function checkFile(database: SqliteDatabase, path: string): void {
  if (!isStore(database, path))
    throw createStoreMissingError(`the file ${JSON.stringify(path)}`, "one that is empty");
}

/** Returns false for a new file. Throws for a file of another program or version. */
function isStore(database: SqliteDatabase, path: string): boolean {
  const version = readPragma(database, "user_version");
  if (readPragma(database, "application_id") === APPLICATION_ID) {
    if (version === SCHEMA_VERSION) return true;
    throw createSchemaVersionError(`the store ${JSON.stringify(path)}`, SCHEMA_VERSION, version);
  }
  const isForeign =
    version !== 0 ||
    readPragma(database, "application_id") !== 0 ||
    database.prepare("select 1 from sqlite_master limit 1").all().length > 0;
  if (isForeign) throw createForeignError(path);
  return false;
}

function readPragma(database: SqliteDatabase, name: "user_version" | "application_id"): number {
  return readNumberColumn(database.prepare(`pragma ${name}`).all()[0], name);
}

function createForeignError(path: string): EspalierError {
  const message = `Expected ${JSON.stringify(path)} to be a store or a new file, got a database of another program. Choose another path.`;
  return createStoreError("not_a_store", message);
}
