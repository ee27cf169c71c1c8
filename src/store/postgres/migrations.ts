// What a store looks like as PostgreSQL tables. Released versions are never changed: a new one is one more list of statements.

import { lockingSql, sql, type SqlQuery, type SqlWork } from "../sql-driver.ts";
import { schemaTooNew, storeMissing } from "../store-errors.ts";
import { numberIn } from "../stored-row.ts";

/** By version, from 1: what leads there from the one before. */
const MIGRATIONS: readonly SqlQuery[] = [
  sql`
  create table {schema}.run (
    sequence bigint generated always as identity primary key,
    run_id text collate "C" not null unique,
    title text not null,
    status text not null check (status in ('open', 'paused', 'ended')),
    epoch integer not null,
    record_count integer not null,
    owner_token text not null, -- stays when the run is given up
    owner_hostname text, -- null: nobody owns it
    owner_process_id bigint,
    heartbeat_at timestamptz not null default clock_timestamp(),
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp()
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
    updated_at timestamptz not null default clock_timestamp()
  );
  `,
  sql`
  create table {schema}.post (
    run bigint not null references {schema}.run on delete cascade,
    number integer not null,
    key text collate "C" not null,
    body text not null,
    posted_at timestamptz not null default clock_timestamp(),
    primary key (run, number),
    unique (run, key)
  );
  `,
  sql`
  alter table {schema}.run
    add column crashes integer not null default 0,
    add column last_crash_at timestamptz; -- null: none was ever counted
  `,
];

/** The version that this release writes. */
export const POSTGRES_SCHEMA_VERSION = MIGRATIONS.length;

/** Any number, the same for all releases: a migration holds the lock of it. */
const MIGRATION_LOCK = 0x65_73_70_6c;

/**
 * Brings a schema to the version of this release; makes it if it is not there. Throws `unsupported_version` for a newer one. What is up
 * to date is only looked at, so that everyday work needs no right to create anything.
 */
export function* migrate(schema: string): SqlWork<number> {
  if ((yield* versionOf(schema)) === POSTGRES_SCHEMA_VERSION) return POSTGRES_SCHEMA_VERSION;
  yield lockingSql`select pg_advisory_xact_lock(${MIGRATION_LOCK})`;
  // Anew: another process may have been here in between.
  const version = yield* versionOf(schema);
  if (version === 0) yield* createSchema(schema);
  for (const [index, migration] of MIGRATIONS.entries()) {
    if (index < version) continue;
    yield migration;
    yield sql`insert into {schema}.migration (version) values (${index + 1})`;
  }
  return POSTGRES_SCHEMA_VERSION;
}

/** The version of a schema that is only read. Throws like `migrate`, and `store_failed` for one in which there is nothing yet. */
export function* readableSchemaVersion(schema: string): SqlWork<number> {
  const version = yield* versionOf(schema);
  if (version > 0) return version;
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
    )`;
}

/** 0: there is nothing yet. */
function* versionOf(schema: string): SqlWork<number> {
  // Not to_regclass(): within a transaction it may not see what others have made since.
  const found = yield sql`
    select 1 from pg_tables where schemaname = ${schema} and tablename = 'migration'`;
  if (found.length === 0) return 0;
  const [row] = yield sql`select coalesce(max(version), 0) as version from {schema}.migration`;
  const version = numberIn(row, "version");
  if (version <= POSTGRES_SCHEMA_VERSION) return version;
  throw schemaTooNew(`schema ${JSON.stringify(schema)}`, POSTGRES_SCHEMA_VERSION, version);
}
