// Entry `espalier/store/postgres`: runs and sessions in a PostgreSQL database, for processes on several machines.

import {
  checkAtLeastOne,
  checkKeys,
  checkMethods,
  defaultAdvice,
  mismatch,
} from "../../kernel/check.ts";
import { isProcessGone } from "../holding.ts";
import { MadeOnce } from "../../kernel/made-once.ts";
import { SqlStore } from "../sql-store.ts";
import { checkOneOf } from "../store-arguments.ts";
import type { Store } from "../store.ts";
import { PostgresDriver, type PostgresDriverOptions } from "./postgres-driver.ts";
import { openPool, type OwnPool, type PostgresPool } from "./postgres-pool.ts";

export type { PostgresClient, PostgresPool } from "./postgres-pool.ts";

/** Where the database is, and how runs are kept in it. */
export interface PostgresStoreOptions {
  /** Where the database is, as `postgres://user:password@host:5432/database`. Either this or `pool`. */
  readonly connectionString?: string;
  /** A pool of the package `pg`. It stays yours: `close()` does not end it. */
  readonly pool?: PostgresPool;
  /** The schema in which everything is kept; made if it is not there. Default `espalier`. */
  readonly schema?: string;
  /**
   * `write` (default): creates the schema and its tables when they are first needed. `read`:
   * creates and changes nothing. A write rejects with `store_failed` (`read_only`). Every request to
   * a schema without tables rejects with `store_failed` (`missing`).
   */
  readonly access?: "read" | "write";
  /** How many connections there may be at once. Default 10. Not with `pool`. */
  readonly maxConnections?: number;
  /** How long a connection, and each statement, may take. Default 30,000. Not with `pool`. */
  readonly timeoutMs?: number;
  /** Whether a process of this machine has ended. Default: asks the system. */
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
 * A store in a PostgreSQL database. Nothing is connected to before it is needed; what is wrong with the connection rejects whatever is
 * asked of the store. Times are those of the database.
 *
 * @throws EspalierError `invalid_option`. What is asked of the store also rejects with `invalid_option` if the package `pg` is not
 * installed, `unsupported_version` if the tables in the schema have another version, and `store_failed`.
 */
export function postgresStore(options: PostgresStoreOptions): Store {
  checkKeys("options", options, OPTIONS);
  const { schema = "espalier", access = "write", pool } = options;
  checkOneOf("access", access, ["read", "write"]);
  if (!/^[a-z_][a-z0-9_]{0,62}$/.test(schema)) {
    const words =
      "at most 63 lower-case letters, digits and underscores, not starting with a digit";
    throw mismatch("schema", words, schema, "Choose another name.");
  }
  const driver = new PostgresDriver({
    schema,
    access,
    ...(pool === undefined ? ownPool(options) : givenPool(pool, options)),
  });
  return new SqlStore(driver, options.isProcessGone ?? isProcessGone);
}

type Connections = Pick<PostgresDriverOptions, "open" | "end">;

/** A pool that stays with the user. */
function givenPool(pool: PostgresPool, options: PostgresStoreOptions): Connections {
  const owned = ["connectionString", "maxConnections", "timeoutMs"] as const;
  const extra = owned.find((name) => options[name] !== undefined);
  if (extra !== undefined)
    throw mismatch(
      extra,
      "left out when pool is set",
      options[extra],
      "Configure the pool instead.",
    );
  checkMethods("pool", pool, ["connect", "on", "off"]);
  return { open: async () => pool, end: undefined };
}

/** A pool that is made when it is needed, and ended with the store. */
function ownPool(options: PostgresStoreOptions): Connections {
  const { connectionString } = options;
  const { maxConnections = DEFAULT_MAX_CONNECTIONS, timeoutMs = DEFAULT_TIMEOUT_MS } = options;
  if (typeof connectionString !== "string" || connectionString === "") {
    const advice = "Pass the URL of the database, or a pool.";
    throw mismatch("connectionString", "a non-empty string", connectionString, advice);
  }
  checkAtLeastOne("maxConnections", maxConnections, defaultAdvice(DEFAULT_MAX_CONNECTIONS));
  checkAtLeastOne("timeoutMs", timeoutMs, defaultAdvice(DEFAULT_TIMEOUT_MS));
  const pool = new MadeOnce<OwnPool>();
  return {
    open: () => pool.get(() => openPool({ connectionString, maxConnections, timeoutMs })),
    end: async () => await (await pool.made)?.end(),
  };
}
