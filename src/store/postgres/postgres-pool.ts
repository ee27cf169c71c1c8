// Connections to PostgreSQL: as much of a pool of the package `pg` as is needed. The package is loaded when a pool is first needed only.

import type * as pg from "pg";

import { EspalierError } from "../../kernel/error.ts";

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
  const { Pool } = await loadPackage();
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

async function loadPackage(): Promise<Pick<typeof pg, "Pool">> {
  try {
    return await import("pg");
  } catch (cause) {
    const code: unknown = cause instanceof Error && "code" in cause ? cause.code : undefined;
    if (code !== "ERR_MODULE_NOT_FOUND" && code !== "MODULE_NOT_FOUND") throw cause;
    throw new EspalierError({
      code: "invalid_option",
      message:
        "Expected the package pg to be installed, got none, and without it PostgreSQL cannot be reached. Run: npm install pg.",
      data: { field: "connectionString", reason: "not_installed" },
      cause,
    });
  }
}
