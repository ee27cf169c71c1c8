// Connections to PostgreSQL: as much of a pool of the package `pg` as is needed. The package is loaded when a pool is first needed only.

import { loadingError } from "../../kernel/optional-package.ts";

/** A connection that is lent out. */
export interface PostgresClient {
  query(text: string, values?: unknown[]): Promise<{ readonly rows: readonly unknown[] }>;
  /** `true`: it is not to be used again. */
  release(isBroken?: boolean): void;
  on(event: "error", listener: (error: Error) => void): unknown;
  off(event: "error", listener: (error: Error) => void): unknown;
}

/** A pool of connections; `Pool` of the package `pg` is one. */
export interface PostgresPool {
  connect(): Promise<PostgresClient>;
  on(event: "error", listener: (error: Error) => void): unknown;
  off(event: "error", listener: (error: Error) => void): unknown;
}

/** A pool of our own. */
export interface OwnPool extends PostgresPool {
  end(): Promise<void>;
}

export interface PoolOptions {
  readonly connectionString: string;
  readonly maxConnections: number;
  readonly timeoutMs: number;
}

/** Makes a pool. Connects to nothing yet. Throws `invalid_option` if the package is not installed. */
export async function openPool(options: PoolOptions): Promise<OwnPool> {
  const { Pool } = await import("pg").catch((cause: unknown) => {
    throw loadingError("pg", "PostgreSQL cannot be reached", cause);
  });
  return new Pool({
    connectionString: options.connectionString,
    max: options.maxConnections,
    connectionTimeoutMillis: options.timeoutMs,
    query_timeout: options.timeoutMs,
    keepAlive: true,
    allowExitOnIdle: true, // An idle connection keeps no process alive.
    application_name: "espalier",
  });
}
