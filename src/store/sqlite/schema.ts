// The SQLite tables of a store.

import type { EspalierError } from "../../kernel/error.ts";
import { storeFailed, storeMissing, unsupportedSchema } from "../store-errors.ts";
import { inTransaction } from "./group-commit.ts";
import type { SqliteDatabase } from "./sqlite-driver.ts";
import { numberIn } from "../stored-row.ts";

/** "espl": says of a file that it is a store. */
const APPLICATION_ID = 0x65_73_70_6c;

const TABLES = `
  create table run (
    sequence integer primary key autoincrement,
    run_id text not null unique,
    title text not null,
    status text not null check (status in ('open', 'paused', 'ended')),
    epoch integer not null,
    record_count integer not null,
    owner_token text not null, -- stays when the run is given up
    owner_hostname text, -- null: nobody owns it
    owner_process_id integer,
    heartbeat_at_ms integer not null,
    created_at_ms integer not null,
    updated_at_ms integer not null,
    crashes integer not null default 0,
    last_crash_at_ms integer -- null: none was ever counted
  ) strict;
  create index run_by_status on run (status, sequence);
  create table journal (
    run integer not null,
    number integer not null,
    record text not null,
    primary key (run, number)
  ) strict, without rowid;
  create table session (
    session_id text primary key,
    version integer not null,
    body text not null,
    written integer not null unique, -- in the order of writing
    updated_at_ms integer not null
  ) strict;
  create table post (
    run integer not null,
    number integer not null,
    key text not null,
    body text not null,
    posted_at_ms integer not null,
    primary key (run, number),
    unique (run, key)
  ) strict, without rowid;
`;

/** Version of the tables, in the `user_version` of the file. */
const SCHEMA_VERSION = 1;

/**
 * Creates the tables in a new file. Throws `unsupported_version` for tables of another version, and
 * `store_failed` for the database of another program.
 */
export function prepareSchema(database: SqliteDatabase, path: string): void {
  if (hasTables(database, path)) return;
  inTransaction(database, () => {
    // Another process may have created them before the file was locked.
    if (hasTables(database, path)) return;
    database.script(TABLES);
    database.exec(`pragma application_id = ${APPLICATION_ID}`);
    database.exec(`pragma user_version = ${SCHEMA_VERSION}`);
  });
}

/** Throws like `prepareSchema`, and `store_failed` for a file without tables. */
export function checkSchema(database: SqliteDatabase, path: string): void {
  if (!hasTables(database, path))
    throw storeMissing(`the file ${JSON.stringify(path)}`, "one that is empty");
}

/** Returns false for a new file. */
function hasTables(database: SqliteDatabase, path: string): boolean {
  const version = pragma(database, "user_version");
  if (pragma(database, "application_id") === APPLICATION_ID) {
    if (version === SCHEMA_VERSION) return true;
    throw unsupportedSchema(`the store ${JSON.stringify(path)}`, SCHEMA_VERSION, version);
  }
  const isForeign =
    version !== 0 ||
    pragma(database, "application_id") !== 0 ||
    database.prepare("select 1 from sqlite_master limit 1").all().length > 0;
  if (isForeign) throw foreign(path);
  return false;
}

function pragma(database: SqliteDatabase, name: "user_version" | "application_id"): number {
  return numberIn(database.prepare(`pragma ${name}`).all()[0], name);
}

function foreign(path: string): EspalierError {
  const message = `Expected ${JSON.stringify(path)} to be a store or a new file, got the database of another program. Choose another path.`;
  return storeFailed("not_a_store", message);
}
