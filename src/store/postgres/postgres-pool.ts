// Connections to PostgreSQL: the part of a pool of the package `pg` that the store uses. The
// package is loaded when the first pool is opened.

import { loadPackage } from "../../kernel/optional-package.ts";

/** Connection of a `PostgresPool`. A client of the npm package `pg` is one. */
export interface PostgresClient {
  /** Executes one statement with parameters. */
  query(text: string, values?: unknown[]): Promise<{ readonly rows: readonly unknown[] }>;
  /** Returns the connection to the pool. `true` closes the connection instead. */
  release(isBroken?: boolean): void;
  /** Adds a listener for errors of the idle connection. */
  on(event: "error", listener: (error: Error) => void): unknown;
  /** Removes a listener. */
  off(event: "error", listener: (error: Error) => void): unknown;
}

/**
 * Pool of PostgreSQL connections. A `Pool` of the npm package `pg` is one.
 *
 * @example
 * ```ts
 * import { Pool } from "pg";
 *
 * const pool: PostgresPool = new Pool({ connectionString: process.env["DATABASE_URL"] });
 * ```
 */
export interface PostgresPool {
  /** Returns a free connection. */
  connect(): Promise<PostgresClient>;
  /** Adds a listener for errors of idle connections. */
  on(event: "error", listener: (error: Error) => void): unknown;
  /** Removes a listener. */
  off(event: "error", listener: (error: Error) => void): unknown;
}

/** A pool that the store itself opened. */
export interface OwnPool extends PostgresPool {
  end(): Promise<void>;
}

export interface PoolOptions {
  readonly connectionString: string;
  readonly maxConnections: number;
  readonly timeoutMs: number;
}

/** Creates a pool, without connecting. Throws `invalid_argument` if the package is not installed. */
export async function openPool(options: PoolOptions): Promise<OwnPool> {
  const { Pool } = await loadPackage("pg", "PostgreSQL cannot be reached", () => import("pg"));
  return new Pool({
    connectionString: options.connectionString,
    max: options.maxConnections,
    connectionTimeoutMillis: options.timeoutMs,
    query_timeout: options.timeoutMs,
    keepAlive: true,
    allowExitOnIdle: true, // Idle connections do not keep the process alive.
    application_name: "espalier",
  });
}
