// SQL stores are one store over a driver for each database. The store describes its work as
// generators: they yield queries and receive rows. So a driver may answer synchronously or
// asynchronously, and the work does not depend on it.

import type { EspalierError } from "../kernel/error.ts";
import type { JournalBatch, Ownership } from "./run-store.ts";

/**
 * Placeholder for the time at which a query is executed, by the clock of the database, in whole
 * milliseconds.
 */
export const NOW_MS: unique symbol = Symbol("now in milliseconds");

export type SqlValue = string | number | null | typeof NOW_MS;

/** Parts of queries that differ between dialects, written in braces. */
type SqlWord =
  /** Schema of the tables. */
  | "schema"
  /** Columns of a run, with numbers as numbers. */
  | "run"
  /** Next number in the order in which sessions are written. */
  | "next_written"
  /** Locks the selected rows until the transaction ends. */
  | "for_update";

export interface SqlQuery {
  /** The same array on every call, which serves as the cache key of the built query. */
  readonly text: readonly string[];
  /** Values between the parts of the text. */
  readonly values: readonly SqlValue[];
  /** Begins a transaction: the rest of the work is persisted completely or not at all. */
  readonly opensTransaction: boolean;
}

/** Work in a database. Each call of its generator function starts the work again. */
export type SqlWork<T> = Generator<SqlQuery, T, readonly unknown[]>;

/** Creates a query outside a transaction. */
export function sql(text: readonly string[], ...values: readonly SqlValue[]): SqlQuery {
  return { text, values, opensTransaction: false };
}

/** Creates a query that opens a transaction and locks the rows that later queries change. */
export function lockingSql(text: TemplateStringsArray, ...values: readonly SqlValue[]): SqlQuery {
  return { text, values, opensTransaction: true };
}

/** Page of records, read from one state of the database. */
export interface SqlPage {
  /** Number of records of the run. */
  readonly recordCount: number;
  /** Rows in order, with `number` and `record`. */
  readonly rows: readonly unknown[];
}

/** Access to one database. `failed` turns its errors into errors of espalier. */
export interface SqlDriver {
  /** Does work that changes nothing. */
  read<T>(begin: () => SqlWork<T>): Promise<T>;
  /**
   * Does work, and resolves once the changes are persisted. May repeat the work; only the last
   * attempt counts.
   */
  write<T>(begin: () => SqlWork<T>): Promise<T>;
  /**
   * Appends a batch that comes next from the owner of the run. Any other batch is not written, and
   * `refuse` runs instead.
   */
  append(ownership: Ownership, batch: JournalBatch, refuse: () => SqlWork<void>): Promise<void>;
  /**
   * Returns records from number `first` on, at most `limit`. Empty only at the end. `undefined` if
   * the run does not exist.
   */
  page(runId: string, first: number, limit: number): Promise<SqlPage | undefined>;
  failed(cause: unknown): EspalierError;
  /** Closes the database. Later requests reject. */
  close(): Promise<void>;
}

/** Differences between databases in the text of queries. */
export interface SqlDialect {
  readonly words: Readonly<Record<SqlWord, string>>;
  readonly nowMs: string;
  /** Returns the placeholder of a value. The first value has number 1. */
  readonly placeholder: (number: number) => string;
}

/** Returns a function that builds the text of queries in a dialect, memoised. */
export function createSqlFormatter(dialect: SqlDialect): (query: SqlQuery) => string {
  const texts = new Map<readonly string[], string>();
  return (query) => {
    const known = texts.get(query.text);
    if (known !== undefined) return known;
    const rendered = renderQuery(dialect, query);
    texts.set(query.text, rendered);
    return rendered;
  };
}

function renderQuery(dialect: SqlDialect, { text, values }: SqlQuery): string {
  let count = 0;
  const marks = values.map((value) => {
    if (value === NOW_MS) return dialect.nowMs;
    count += 1;
    return dialect.placeholder(count);
  });
  const joined = text.map((part, index) => part + (marks[index] ?? "")).join("");
  return Object.entries(dialect.words).reduce(
    (text, [word, meaning]) => text.replaceAll(`{${word}}`, meaning),
    joined,
  );
}
