// Stores in SQL databases are one store over a driver for each database. What is done there is described as work: it yields one query after the
// other and is handed the rows of each, so that a driver may answer at once or after a while, and the work does not know which.

import type { EspalierError } from "../kernel/error.ts";
import type { JournalBatch, Ownership } from "./run-store.ts";

/** Stands for the time at which a query is done, by the clock of the database, in whole milliseconds. */
export const NOW_MS: unique symbol = Symbol("now in milliseconds");

export type SqlValue = string | number | null | typeof NOW_MS;

/** What dialects say in their own way: in the text of a query in braces. */
type SqlWord =
  /** The schema in which the tables are. */
  | "schema"
  /** The columns of a run, its numbers as numbers. */
  | "run"
  /** The next number in the order in which sessions are written. */
  | "next_written"
  /** Keeps the rows that are read from others until the transaction ends. */
  | "for_update";

export interface SqlQuery {
  /** One and the same array each time, so that what is made of it is made once. */
  readonly text: readonly string[];
  /** What stands between the texts. */
  readonly values: readonly SqlValue[];
  /** From this query on, all that the work does belongs together: it is kept whole or not at all. */
  readonly opensTransaction: boolean;
}

/** Something to do in a database. Each call of what makes it begins it anew. */
export type SqlWork<T> = Generator<SqlQuery, T, readonly unknown[]>;

/** A query that needs no other. */
export function sql(text: readonly string[], ...values: readonly SqlValue[]): SqlQuery {
  return { text, values, opensTransaction: false };
}

/** A query that locks what those after it change. */
export function lockingSql(text: TemplateStringsArray, ...values: readonly SqlValue[]): SqlQuery {
  return { text, values, opensTransaction: true };
}

/** What there was at one moment. */
export interface SqlPage {
  /** Records that the run has. */
  readonly recordCount: number;
  /** In order, with `number` and `record`. */
  readonly rows: readonly unknown[];
}

/** One database, and what it does in a way of its own. What it throws is put in our words by `failed`. */
export interface SqlDriver {
  /** For work that changes nothing. */
  read<T>(begin: () => SqlWork<T>): Promise<T>;
  /** Resolves once it is kept. May do the work more than once, and what came of all but the last is gone. */
  write<T>(begin: () => SqlWork<T>): Promise<T>;
  /** Takes a batch that is next in line from the owner of the run. Of any other nothing is taken, and `refuse` is done instead. */
  append(ownership: Ownership, batch: JournalBatch, refuse: () => SqlWork<void>): Promise<void>;
  /** Some records from number `first` on, `limit` at most, none only if there are no more; undefined: there is no such run. */
  page(runId: string, first: number, limit: number): Promise<SqlPage | undefined>;
  failed(cause: unknown): EspalierError;
  /** Lets go of the database. What is asked for from then on rejects. */
  close(): Promise<void>;
}

/** How a database wants its queries. */
export interface SqlDialect {
  readonly words: Readonly<Record<SqlWord, string>>;
  readonly nowMs: string;
  /** What stands for any other value, the first of which has number 1. */
  readonly placeholder: (number: number) => string;
}

/** What gives the texts of queries in a dialect. Each is made once. */
export function sqlTextsIn(dialect: SqlDialect): (query: SqlQuery) => string {
  const texts = new Map<readonly string[], string>();
  return (query) => {
    const known = texts.get(query.text);
    if (known !== undefined) return known;
    const made = renderQuery(dialect, query);
    texts.set(query.text, made);
    return made;
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
    (found, [word, meaning]) => found.replaceAll(`{${word}}`, meaning),
    joined,
  );
}
