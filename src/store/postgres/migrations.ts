// What a store looks like as PostgreSQL tables. Released versions are never changed: a new one is one more list of statements.

import { EspalierError } from "../../kernel/error.ts";
import { numberIn } from "../stored-row.ts";
import type { PostgresClient } from "./postgres-pool.ts";

/** By version, from 1: what leads there from the one before. `%` stands for the quoted name of the schema. */
const MIGRATIONS: readonly string[] = [
  `
  create table %.run (
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
  create index run_by_status on %.run (status, sequence);
  create table %.journal (
    run bigint not null references %.run on delete cascade,
    number integer not null,
    record text not null,
    primary key (run, number)
  );
  create sequence %.session_written;
  create table %.session (
    session_id text collate "C" primary key,
    version integer not null,
    body text not null,
    written bigint not null unique default nextval('%.session_written'), -- in the order of writing
    updated_at timestamptz not null default clock_timestamp()
  );
  `,
];

/** The version that this release writes. */
const POSTGRES_SCHEMA_VERSION = MIGRATIONS.length;

/** Any number, the same for all releases: a migration holds the lock of it. */
const MIGRATION_LOCK = 0x65_73_70_6c;

/**
 * Brings a schema to the version of this release; makes it if it is not there. Throws `unsupported_version` for a newer one. What is up
 * to date is only looked at, so that everyday work needs no right to create anything.
 */
export async function migrate(client: PostgresClient, schema: string): Promise<void> {
  if ((await versionOf(client, schema)) === POSTGRES_SCHEMA_VERSION) return;
  await client.query("begin");
  try {
    await client.query("select pg_advisory_xact_lock($1)", [MIGRATION_LOCK]);
    await migrateLocked(client, schema);
    await client.query("commit");
  } catch (cause) {
    // If that fails as well, the connection is gone, and its transaction with it.
    await client.query("rollback").catch(() => undefined);
    throw cause;
  }
}

async function migrateLocked(client: PostgresClient, schema: string): Promise<void> {
  // Anew: another process may have been here in between.
  const version = await versionOf(client, schema);
  const quoted = `"${schema}"`;
  if (version === 0) await createSchema(client, schema);
  for (const [index, migration] of MIGRATIONS.entries()) {
    if (index < version) continue;
    await client.query(migration.replaceAll("%", quoted));
    await client.query(`insert into ${quoted}.migration (version) values ($1)`, [index + 1]);
  }
}

async function createSchema(client: PostgresClient, schema: string): Promise<void> {
  const quoted = `"${schema}"`;
  // "if not exists" would ask for the right to create it even where it exists.
  const { rows } = await client.query("select 1 from pg_namespace where nspname = $1", [schema]);
  if (rows.length === 0) await client.query(`create schema ${quoted}`);
  await client.query(
    `create table ${quoted}.migration (
       version integer primary key,
       applied_at timestamptz not null default clock_timestamp()
     )`,
  );
}

/** 0: there is nothing yet. */
async function versionOf(client: PostgresClient, schema: string): Promise<number> {
  // Not to_regclass(): within a transaction it may not see what others have made since.
  const sql = "select 1 from pg_tables where schemaname = $1 and tablename = 'migration'";
  const found = await client.query(sql, [schema]);
  if (found.rows.length === 0) return 0;
  const { rows } = await client.query(
    `select coalesce(max(version), 0) as version from "${schema}".migration`,
  );
  const version = numberIn(rows[0], "version");
  if (version <= POSTGRES_SCHEMA_VERSION) return version;
  throw new EspalierError({
    code: "unsupported_version",
    message: `Expected schema ${JSON.stringify(schema)} to have version ${POSTGRES_SCHEMA_VERSION} or less, got ${version}. Use the release that wrote it, or a newer one.`,
    data: { expected: POSTGRES_SCHEMA_VERSION, got: version },
  });
}
