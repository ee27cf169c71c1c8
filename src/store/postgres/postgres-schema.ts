// PostgreSQL tables of a store.

import { lockingSql, sql, type SqlWork } from "../sql-driver.ts";
import { SCHEMA_VERSION, writeTables } from "../sql-tables.ts";
import { createStoreMissingError, createSchemaVersionError } from "../store-errors.ts";
import { readNumberColumn } from "../stored-row.ts";

const TABLES = sql([
  writeTables({
    prefix: "{schema}.",
    key: 'text collate "C"',
    number: "double precision",
    sequence: "sequence bigint generated always as identity primary key",
    run: "run bigint not null references {schema}.run on delete cascade",
    written: "written bigint not null unique default nextval('{schema}.session_written')",
    end: { plain: "", keyed: "" },
  }),
]);

/** Arbitrary number of the lock that a process holds while it creates the tables. */
const CREATION_LOCK = 0x65_73_70_6c;

/**
 * Creates the schema and its tables if they do not exist. Throws `unsupported_version` for tables
 * of another version. Needs no right to create anything if the tables exist.
 */
export function* prepareSchema(schema: string): SqlWork<void> {
  if (yield* hasTables(schema)) return;
  yield lockingSql`select pg_advisory_xact_lock(${CREATION_LOCK})`;
  // Another process may have created the tables before this one got the lock.
  if (yield* hasTables(schema)) return;
  yield* createSchema(schema);
}

/** Throws like `prepareSchema`, and `store_failed` for a schema without tables. */
export function* checkSchema(schema: string): SqlWork<void> {
  if (!(yield* hasTables(schema)))
    throw createStoreMissingError(`schema ${JSON.stringify(schema)}`, "one without its tables");
}

function* createSchema(schema: string): SqlWork<void> {
  // "if not exists" would require the right to create the schema even if it exists.
  const schemas = yield sql`select 1 from pg_namespace where nspname = ${schema}`;
  if (schemas.length === 0) yield sql`create schema {schema}`;
  yield sql`
    create table {schema}.migration (
      version integer primary key,
      applied_at timestamptz not null default clock_timestamp()
    );
    create sequence {schema}.session_written;`;
  yield TABLES;
  yield sql`insert into {schema}.migration (version) values (${SCHEMA_VERSION})`;
}

/** Returns false if the tables do not exist yet. */
function* hasTables(schema: string): SqlWork<boolean> {
  // Within a transaction, to_regclass() may not see tables that others have created since it began.
  const rows = yield sql`
    select 1 from pg_tables where schemaname = ${schema} and tablename = 'migration'`;
  if (rows.length === 0) return false;
  const [row] = yield sql`select coalesce(max(version), 0) as version from {schema}.migration`;
  const version = readNumberColumn(row, "version");
  if (version === SCHEMA_VERSION) return true;
  throw createSchemaVersionError(`schema ${JSON.stringify(schema)}`, SCHEMA_VERSION, version);
}
