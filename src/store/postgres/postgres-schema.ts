// The PostgreSQL tables of a store.

import { lockingSql, sql, type SqlWork } from "../sql-driver.ts";
import { storeMissing, unsupportedSchema } from "../store-errors.ts";
import { numberIn } from "../stored-row.ts";

/** Version of the tables, in the table `migration`. */
const SCHEMA_VERSION = 1;

/** Any number: the lock that a process has while it creates the tables. */
const CREATION_LOCK = 0x65_73_70_6c;

/**
 * Creates the schema and its tables if they do not exist. Throws `unsupported_version` for tables
 * of another version. Needs no right to create anything if the tables exist.
 */
export function* prepareSchema(schema: string): SqlWork<void> {
  if (yield* hasTables(schema)) return;
  yield lockingSql`select pg_advisory_xact_lock(${CREATION_LOCK})`;
  // Another process may have created them before the lock was ours.
  if (yield* hasTables(schema)) return;
  yield* createSchema(schema);
}

/** Throws like `prepareSchema`, and `store_failed` for a schema without tables. */
export function* checkSchema(schema: string): SqlWork<void> {
  if (!(yield* hasTables(schema)))
    throw storeMissing(`schema ${JSON.stringify(schema)}`, "one without its tables");
}

function* createSchema(schema: string): SqlWork<void> {
  // "if not exists" would ask for the right to create it even where it exists.
  const found = yield sql`select 1 from pg_namespace where nspname = ${schema}`;
  if (found.length === 0) yield sql`create schema {schema}`;
  yield sql`
    create table {schema}.migration (
      version integer primary key,
      applied_at timestamptz not null default clock_timestamp()
    );
    create table {schema}.run (
      sequence bigint generated always as identity primary key,
      run_id text collate "C" not null unique,
      title text not null,
      status text not null check (status in ('open', 'paused', 'ended')),
      epoch integer not null,
      record_count integer not null,
      owner_token text not null, -- stays when the run is given up
      owner_hostname text, -- null: nobody owns it
      owner_process_id double precision,
      heartbeat_at_ms double precision not null,
      created_at_ms double precision not null,
      updated_at_ms double precision not null,
      crashes integer not null default 0,
      last_crash_at_ms double precision -- null: none was ever counted
    );
    create index run_by_status on {schema}.run (status, sequence);
    create table {schema}.journal (
      run bigint not null references {schema}.run on delete cascade,
      number integer not null,
      record text not null,
      primary key (run, number)
    );
    create sequence {schema}.session_written;
    create table {schema}.session (
      session_id text collate "C" primary key,
      version integer not null,
      body text not null,
      written bigint not null unique default nextval('{schema}.session_written'), -- in the order of writing
      updated_at_ms double precision not null
    );
    create table {schema}.post (
      run bigint not null references {schema}.run on delete cascade,
      number integer not null,
      key text collate "C" not null,
      body text not null,
      posted_at_ms double precision not null,
      primary key (run, number),
      unique (run, key)
    );`;
  yield sql`insert into {schema}.migration (version) values (${SCHEMA_VERSION})`;
}

/** Returns false if there are no tables yet. */
function* hasTables(schema: string): SqlWork<boolean> {
  // Not to_regclass(): within a transaction it may not see what others have made since.
  const found = yield sql`
    select 1 from pg_tables where schemaname = ${schema} and tablename = 'migration'`;
  if (found.length === 0) return false;
  const [row] = yield sql`select coalesce(max(version), 0) as version from {schema}.migration`;
  const version = numberIn(row, "version");
  if (version === SCHEMA_VERSION) return true;
  throw unsupportedSchema(`schema ${JSON.stringify(schema)}`, SCHEMA_VERSION, version);
}
