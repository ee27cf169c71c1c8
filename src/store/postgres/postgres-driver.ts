// Driver for a store in a schema of a PostgreSQL database. Owns the borrowing of connections. If a
// connection breaks, it is unknown whether its last statement was executed.

import type { EspalierError } from "../../kernel/error.ts";
import { MemoizedPromise } from "../../kernel/memoized-promise.ts";
import type { JournalBatch, Ownership } from "../run-store.ts";
import {
  sql,
  createSqlFormatter,
  type SqlDialect,
  type SqlDriver,
  type SqlPage,
  type SqlQuery,
  type SqlWork,
} from "../sql-driver.ts";
import { createStoreClosedError, createReadOnlyError } from "../store-errors.ts";
import { hasValue, readNumberColumn } from "../stored-row.ts";
import { isConnectionSound, convertPostgresError } from "./postgres-faults.ts";
import type { PostgresClient, PostgresPool } from "./postgres-pool.ts";
import { checkSchema, prepareSchema } from "./postgres-schema.ts";

export interface PostgresDriverOptions {
  readonly schema: string;
  readonly access: "read" | "write";
  readonly open: () => Promise<PostgresPool>;
  /** `undefined` if the pool belongs to the user. */
  readonly end: (() => Promise<void>) | undefined;
}

export class PostgresDriver implements SqlDriver {
  readonly #options: PostgresDriverOptions;
  readonly #textOf: (query: SqlQuery) => string;
  readonly #append: string;
  /** The pool, once its errors are listened to. */
  #pool: PostgresPool | undefined;
  readonly #prepared = new MemoizedPromise<void>();
  #isClosed = false;

  constructor(options: PostgresDriverOptions) {
    this.#options = options;
    this.#textOf = createSqlFormatter(createDialect(options.schema));
    this.#append = buildAppend(options.schema);
  }

  read<T>(begin: () => SqlWork<T>): Promise<T> {
    return this.#borrow((lent) => executeOnClient(lent, begin()));
  }

  async write<T>(begin: () => SqlWork<T>): Promise<T> {
    this.#checkWrites();
    return await this.read(begin);
  }

  async append(
    ownership: Ownership,
    batch: JournalBatch,
    refuse: () => SqlWork<void>,
  ): Promise<void> {
    this.#checkWrites();
    const { runId, token, epoch } = ownership;
    const { firstNumber, records, hasProgress = false, isQueued = false } = batch;
    await this.#borrow(async (lent) => {
      const marks = [hasProgress ? 0 : 1, isQueued ? 1 : 0];
      const values = [runId, epoch, token, firstNumber, records, ...marks];
      const { rows } = await lent.client.query(this.#append, values);
      if (rows.length === 0) await executeOnClient(lent, refuse());
    });
  }

  page(runId: string, first: number, limit: number): Promise<SqlPage | undefined> {
    return this.read(() => selectPage(runId, first, limit));
  }

  failed(cause: unknown): EspalierError {
    return convertPostgresError(cause);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#pool?.off("error", ignore);
    await this.#options.end?.();
  }

  #checkWrites(): void {
    if (this.#options.access === "read") throw createReadOnlyError();
  }

  async #borrow<T>(use: (lent: Lent) => Promise<T>): Promise<T> {
    const pool = await this.#openPool();
    const client = await pool.connect();
    // The pool does not listen to connections in use.
    client.on("error", ignore);
    let isBroken = true;
    try {
      const lent = { client, textOf: this.#textOf };
      await this.#prepared.get(() => executeOnClient(lent, openSchema(this.#options)));
      const value = await use(lent);
      isBroken = false;
      return value;
    } catch (cause) {
      isBroken = !isConnectionSound(cause);
      throw cause;
    } finally {
      client.off("error", ignore);
      client.release(isBroken);
    }
  }

  async #openPool(): Promise<PostgresPool> {
    const pool = await this.#options.open();
    if (this.#isClosed) throw createStoreClosedError();
    // A pool without a listener ends the process when an idle connection breaks.
    if (this.#pool === undefined) pool.on("error", ignore);
    this.#pool = pool;
    return pool;
  }
}

/** A connection in use, and a function that builds the texts of its queries. */
interface Lent {
  readonly client: PostgresClient;
  readonly textOf: (query: SqlQuery) => string;
}

async function executeOnClient<T>({ client, textOf }: Lent, work: SqlWork<T>): Promise<T> {
  let isInTransaction = false;
  try {
    let step = work.next();
    while (step.done !== true) {
      if (step.value.opensTransaction && !isInTransaction) {
        await client.query("begin");
        isInTransaction = true;
      }
      const values = step.value.values.filter((value) => typeof value !== "symbol");
      const { rows } = await client.query(textOf(step.value), values);
      step = work.next(rows);
    }
    if (isInTransaction) await client.query("commit");
    return step.value;
  } catch (cause) {
    // If the rollback fails as well, the connection is lost, and its transaction with it.
    if (isInTransaction && isConnectionSound(cause)) await client.query("rollback");
    throw cause;
  }
}

function openSchema({ schema, access }: PostgresDriverOptions): SqlWork<void> {
  return access === "read" ? checkSchema(schema) : prepareSchema(schema);
}

/** Returns the dialect. Times come from the database. */
function createDialect(schema: string): SqlDialect {
  return {
    words: {
      schema: `"${schema}"`,
      run: "run.*, sequence::float8 as sequence", // If a column name occurs twice, the last column counts.
      next_written: `nextval('"${schema}".session_written')`,
      for_update: "for update",
    },
    nowMs: POSTGRES_NOW_MS,
    placeholder: (number) => `$${number}`,
  };
}

const POSTGRES_NOW_MS = "floor(extract(epoch from clock_timestamp()) * 1000)::float8";

/**
 * Returns the statement that appends the next batch of the run's owner. One statement locks the
 * row, checks the fence and the count, and inserts.
 */
function buildAppend(schema: string): string {
  return `with held as (
      update "${schema}".run set record_count = record_count + cardinality($5::text[]),
        heartbeat_at_ms = ${POSTGRES_NOW_MS}, updated_at_ms = ${POSTGRES_NOW_MS}, crashes = crashes * $6, queued = $7
      where run_id = $1 and epoch = $2 and owner_token = $3 and owner_hostname is not null and record_count = $4 - 1
      returning sequence
    )
    insert into "${schema}".journal (run, number, record)
    select held.sequence, $4 - 1 + taken.place, taken.record
    from held, unnest($5::text[]) with ordinality as taken (record, place)
    returning number`;
}

/** Maximum number of records of a page. */
const MOST_OF_PAGE = 1_000;

/**
 * Selects a page with one statement, so that it sees a single state. A page ends after a megabyte,
 * but has at least one record.
 */
function* selectPage(runId: string, first: number, limit: number): SqlWork<SqlPage | undefined> {
  const rows = yield sql`
    select run.record_count, page.number, page.record
    from {schema}.run left join lateral (
      select number, record, sum(octet_length(record)) over (order by number) - octet_length(record) as before
      from (
        select number, record from {schema}.journal
        where run = run.sequence and number >= ${first} order by number limit ${Math.min(limit, MOST_OF_PAGE)}
      ) as candidate
    ) as page on page.before < 1000000
    where run.run_id = ${runId} order by page.number`;
  if (rows.length === 0) return undefined;
  const recordCount = readNumberColumn(rows[0], "record_count");
  return { recordCount, rows: rows.filter((row) => hasValue(row, "number")) };
}

/**
 * Ignores an error. Errors of a connection in use are also errors of its query, and errors of an
 * idle connection need no handling.
 */
function ignore(): void {}
