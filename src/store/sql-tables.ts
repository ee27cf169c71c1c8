// Tables of a store in an SQL database, described once for all dialects.

/** Version of the tables. A database holds the version that it was created with. */
export const SCHEMA_VERSION = 1;

/** Column types and clauses of a dialect. */
export interface TableWords {
  /** Prefix of each table name. */
  readonly prefix: string;
  /** Type of a key, which is compared by its bytes. */
  readonly key: string;
  /** Type of times in milliseconds and of process ids. */
  readonly number: string;
  /** Column that numbers the runs in the order of their creation. */
  readonly sequence: string;
  /** Column that refers to the run of a row. */
  readonly run: string;
  /** Column that numbers sessions in the order of writing. */
  readonly written: string;
  /** Clause after a table. `keyed` is for tables whose rows are found by primary key only. */
  readonly end: { readonly plain: string; readonly keyed: string };
}

/** Returns the statements that create the tables. */
export function writeTables(words: TableWords): string {
  const { prefix, key, number, sequence, run, written, end } = words;
  return `
    create table ${prefix}run (
      ${sequence},
      run_id ${key} not null unique,
      title text not null,
      status text not null check (status in ('open', 'paused', 'ended')),
      epoch integer not null,
      record_count integer not null,
      owner_token text not null, -- stays when the run is given up
      owner_hostname text, -- null: nobody owns it
      owner_process_id ${number},
      heartbeat_at_ms ${number} not null,
      created_at_ms ${number} not null,
      updated_at_ms ${number} not null,
      crashes integer not null default 0,
      last_crash_at_ms ${number}, -- null: none was ever counted
      queued integer not null default 0 -- 1: the owner waits for a slot
    )${end.plain};
    create index run_by_status on ${prefix}run (status, sequence);
    create table ${prefix}journal (
      ${run},
      number integer not null,
      record text not null,
      primary key (run, number)
    )${end.keyed};
    create table ${prefix}session (
      session_id ${key} primary key,
      version integer not null,
      body text not null,
      ${written},
      updated_at_ms ${number} not null
    )${end.plain};
    create table ${prefix}post (
      ${run},
      number integer not null,
      key ${key} not null,
      body text not null,
      posted_at_ms ${number} not null,
      primary key (run, number),
      unique (run, key)
    )${end.keyed};`;
}
