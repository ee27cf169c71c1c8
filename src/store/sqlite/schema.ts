// What a store looks like as SQLite tables. Released versions are never changed: a new one is one more list of statements.

import type { EspalierError } from "../../kernel/error.ts";
import { schemaTooNew, storeFailed, storeMissing } from "../store-errors.ts";
import { inTransaction } from "./group-commit.ts";
import type { SqliteDatabase } from "./sqlite-driver.ts";
import { numberIn } from "../stored-row.ts";

/** "espl": says of a file that it is a store. */
const APPLICATION_ID = 0x65_73_70_6c;

/** By version, from 1: what leads there from the one before. */
const MIGRATIONS: readonly string[] = [
  `
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
    updated_at_ms integer not null
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
  `,
  `
  create table post (
    run integer not null,
    number integer not null,
    key text not null,
    body text not null,
    posted_at_ms integer not null,
    primary key (run, number),
    unique (run, key)
  ) strict, without rowid;
  `,
  `
  alter table run add column crashes integer not null default 0;
  alter table run add column last_crash_at_ms integer; -- null: none was ever counted
  `,
];

/** The version that this release writes. */
export const SQLITE_SCHEMA_VERSION = MIGRATIONS.length;

/**
 * Brings a file to the version of this release. Throws `unsupported_version` for a newer one, and `store_failed` for a file in which
 * another program keeps something.
 */
export function prepareSchema(database: SqliteDatabase, path: string): void {
  if (versionOf(database, path) === SQLITE_SCHEMA_VERSION) return;
  inTransaction(database, () => {
    // Anew: another process may have been here in between.
    for (const migration of MIGRATIONS.slice(versionOf(database, path))) database.script(migration);
    database.exec(`pragma application_id = ${APPLICATION_ID}`);
    database.exec(`pragma user_version = ${SQLITE_SCHEMA_VERSION}`);
  });
}

/** The version of a file that is only read. Throws like `prepareSchema`, and `store_failed` for a file in which there is nothing yet. */
export function readableFileVersion(database: SqliteDatabase, path: string): number {
  const version = versionOf(database, path);
  if (version > 0) return version;
  throw storeMissing(`the file ${JSON.stringify(path)}`, "one that is empty");
}

/** 0: the file is new. */
function versionOf(database: SqliteDatabase, path: string): number {
  const version = pragma(database, "user_version");
  const application = pragma(database, "application_id");
  if (application !== APPLICATION_ID) {
    const tables = database.prepare("select 1 from sqlite_master limit 1").all();
    if (version !== 0 || application !== 0 || tables.length > 0) throw foreign(path);
  }
  if (version <= SQLITE_SCHEMA_VERSION) return version;
  throw schemaTooNew(`the store ${JSON.stringify(path)}`, SQLITE_SCHEMA_VERSION, version);
}

function pragma(database: SqliteDatabase, name: "user_version" | "application_id"): number {
  return numberIn(database.prepare(`pragma ${name}`).all()[0], name);
}

function foreign(path: string): EspalierError {
  const message = `Expected ${JSON.stringify(path)} to be a store or a new file, got the database of another program. Choose another path.`;
  return storeFailed("not_a_store", message);
}
