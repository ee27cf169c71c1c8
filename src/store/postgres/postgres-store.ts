// Entry `espalier/store/postgres`: runs and sessions in a PostgreSQL database, for processes on
// several machines.

import {
  checkAtLeastOne,
  checkKeys,
  checkLeftOut,
  checkMethods,
  checkName,
  adviseDefault,
  mismatch,
} from "../../kernel/argument-checks.ts";
import { isProcessGone } from "../ownership-rules.ts";
import { MemoizedPromise } from "../../kernel/memoized-promise.ts";
import { SqlStore } from "../sql-store.ts";
import { checkOneOf } from "../store-arguments.ts";
import type { Store } from "../store.ts";
import { PostgresDriver, type PostgresDriverOptions } from "./postgres-driver.ts";
import { openPool, type OwnPool, type PostgresPool } from "./postgres-pool.ts";

export type { PostgresClient, PostgresPool } from "./postgres-pool.ts";

/**
 * Options of `postgresStore`. Set either `connectionString` or `pool`.
 *
 * @example
 * ```ts
 * import { Pool } from "pg";
 *
 * const pool = new Pool({ connectionString: process.env["DATABASE_URL"], max: 20 });
 * const store = postgresStore({ pool, schema: "espalier" });
 * ```
 */
export interface PostgresStoreOptions {
  /**
   * URL of the database. The store opens and closes its own connection pool.
   *
   * @example
   * ```ts
   * const store = postgresStore({ connectionString: "postgres://user:secret@db.example.com/app" });
   * ```
   */
  readonly connectionString?: string;
  /** Connection pool of the npm package `pg`. It stays yours: `close()` does not end it. */
  readonly pool?: PostgresPool;
  /**
   * Database schema of the tables. It is created if it does not exist. Up to 63 lower-case letters,
   * digits and underscores.
   *
   * @default "espalier"
   */
  readonly schema?: string;
  /**
   * Access to the database. `write` creates the schema and its tables when they are first needed.
   * `read` changes nothing: writes reject with `store_failed` (`read_only`). With `read`,
   * everything rejects with `store_failed` (`missing`) if the schema has no tables.
   *
   * @default "write"
   */
  readonly access?: "read" | "write";
  /**
   * Maximum number of open connections. Not allowed with `pool`.
   *
   * @default 10
   */
  readonly maxConnections?: number;
  /**
   * Time limit in milliseconds for connecting, and for each statement. Not allowed with `pool`.
   *
   * @default 30_000
   */
  readonly timeoutMs?: number;
  /**
   * Function that returns `true` if a process of this machine has ended.
   *
   * @default asks the operating system
   */
  readonly isProcessGone?: (processId: number) => boolean;
}

const DEFAULT_MAX_CONNECTIONS = 10;
const DEFAULT_TIMEOUT_MS = 30_000;
const OPTIONS = [
  "connectionString",
  "pool",
  "schema",
  "access",
  "maxConnections",
  "timeoutMs",
  "isProcessGone",
];

/**
 * Creates a store in a PostgreSQL database, for processes on several machines. Needs the npm
 * package `pg`. Connects when it is first needed. Time stamps are those of the database.
 *
 * @throws EspalierError `invalid_argument` if an option is invalid.
 * @throws EspalierError `missing_package` from every method if the package `pg` is not installed.
 * @throws EspalierError `unsupported_version` from every method if the tables have another format.
 * @throws EspalierError `store_failed` from every method if the database fails.
 *
 * @example
 * ```ts
 * const { DATABASE_URL = "postgres://localhost/espalier" } = process.env;
 * const store = postgresStore({ connectionString: DATABASE_URL });
 * const orchestrator = new Orchestrator({ roles, store });
 * ```
 */
export function postgresStore(options: PostgresStoreOptions): Store {
  checkKeys("options", options, OPTIONS);
  const { schema = "espalier", access = "write", pool } = options;
  checkOneOf("access", access, ["read", "write"]);
  const words = "at most 63 lower-case letters, digits and underscores, not starting with a digit";
  checkName("schema", schema, /^[a-z_][a-z0-9_]{0,62}$/, words);
  const driver = new PostgresDriver({
    schema,
    access,
    ...(pool === undefined ? ownPool(options) : useGivenPool(pool, options)),
  });
  return new SqlStore(driver, options.isProcessGone ?? isProcessGone);
}

type Connections = Pick<PostgresDriverOptions, "open" | "end">;

/** Uses a pool of the user, which stays open. */
function useGivenPool(pool: PostgresPool, options: PostgresStoreOptions): Connections {
  const owned = ["connectionString", "maxConnections", "timeoutMs"] as const;
  checkLeftOut(options, owned, "pool", "Configure the pool instead.");
  checkMethods("pool", pool, ["connect", "on", "off"]);
  return { open: async () => pool, end: undefined };
}

/** Uses a pool that is opened on demand, and closed with the store. */
function ownPool(options: PostgresStoreOptions): Connections {
  const { connectionString } = options;
  const { maxConnections = DEFAULT_MAX_CONNECTIONS, timeoutMs = DEFAULT_TIMEOUT_MS } = options;
  if (typeof connectionString !== "string" || connectionString === "") {
    const advice = "Pass the URL of the database, or a pool.";
    throw mismatch("connectionString", "a non-empty string", connectionString, advice);
  }
  checkAtLeastOne("maxConnections", maxConnections, adviseDefault(DEFAULT_MAX_CONNECTIONS));
  checkAtLeastOne("timeoutMs", timeoutMs, adviseDefault(DEFAULT_TIMEOUT_MS));
  const pool = new MemoizedPromise<OwnPool>();
  return {
    open: () => pool.get(() => openPool({ connectionString, maxConnections, timeoutMs })),
    end: async () => await (await pool.current)?.end(),
  };
}
