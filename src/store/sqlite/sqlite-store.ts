// Entry `espalier/store/sqlite`: runs and sessions in one file.

import { checkCount, checkKeys, adviseDefault, mismatch } from "../../kernel/argument-checks.ts";
import { systemClock, type Clock } from "../../kernel/clock.ts";
import { isProcessGone } from "../ownership-rules.ts";
import { SqlStore } from "../sql-store.ts";
import { checkOneOf } from "../store-arguments.ts";
import type { Store } from "../store.ts";
import { FileDriver } from "./file-driver.ts";
import { ReadOnlyFileDriver } from "./read-only-file-driver.ts";
import { getOpener } from "./sqlite-driver.ts";

/**
 * Options of `sqliteStore`.
 *
 * @example
 * ```ts
 * const store = sqliteStore("runs.db", { driver: "better-sqlite3", durability: "process" });
 * ```
 */
export interface SqliteStoreOptions {
  /**
   * SQLite driver. `node` is built into Node, and prints a warning before Node 24. `better-sqlite3`
   * is the npm package of that name, which you install.
   *
   * @default "node"
   */
  readonly driver?: "node" | "better-sqlite3";
  /**
   * Durability of acknowledged writes. `full` survives a power failure. `process` survives the end
   * of the process; a power failure may lose the last writes. It is five to nine times as fast.
   *
   * @default "full"
   */
  readonly durability?: "full" | "process";
  /**
   * Access to the file. `write` creates the file when it is first needed. `read` changes nothing:
   * writes reject with `store_failed` (`read_only`). With `read`, everything rejects with
   * `store_failed` (`missing`) if the file does not exist or is empty.
   *
   * @default "write"
   */
  readonly access?: "read" | "write";
  /**
   * Time in milliseconds to wait for a lock that another process holds on the file.
   *
   * @default 5_000
   */
  readonly busyTimeoutMs?: number;
  /**
   * Clock for time stamps and heartbeats. All processes that use the file must have the same wall
   * clock, which measures how long an owner has sent no heartbeat.
   *
   * @default the system clock
   */
  readonly clock?: Clock;
  /**
   * Function that returns `true` if a process of this machine has ended.
   *
   * @default asks the operating system
   * @example
   * ```ts
   * // Containers with the same host name cannot see each other's process ids.
   * const store = sqliteStore("/shared/runs.db", { isProcessGone: () => false });
   * ```
   */
  readonly isProcessGone?: (processId: number) => boolean;
}

const DEFAULT_BUSY_TIMEOUT_MS = 5_000;
const OPTIONS = ["driver", "durability", "access", "busyTimeoutMs", "clock", "isProcessGone"];

/**
 * Creates a store in one SQLite file. `:memory:` keeps it in memory. The file is opened or created
 * on first use. Several processes of one machine can use the same file.
 *
 * @throws EspalierError `invalid_argument` if an argument is invalid.
 * @throws EspalierError `missing_package` from every method if the driver is not installed.
 * @throws EspalierError `unsupported_version` from every method if the tables in the file have
 * another format.
 * @throws EspalierError `store_failed` from every method if the file cannot be read or written.
 *
 * @example
 * ```ts
 * const store = sqliteStore("runs.db");
 * const orchestrator = new Orchestrator({ roles, store });
 * ```
 */
export function sqliteStore(path: string, options: SqliteStoreOptions = {}): Store {
  if (typeof path !== "string" || path === "" || path.includes("\0"))
    throw mismatch("path", "a non-empty string", path, 'Name a file, or ":memory:".');
  checkKeys("options", options, OPTIONS);
  const { driver = "node", durability = "full", access = "write" } = options;
  const { busyTimeoutMs = DEFAULT_BUSY_TIMEOUT_MS } = options;
  checkOneOf("driver", driver, ["node", "better-sqlite3"]);
  checkOneOf("durability", durability, ["full", "process"]);
  checkOneOf("access", access, ["read", "write"]);
  if (access === "read" && path === ":memory:")
    throw mismatch(
      "access",
      '"write" for a store in memory',
      access,
      "A new store in memory is empty.",
    );
  checkCount("busyTimeoutMs", busyTimeoutMs, adviseDefault(DEFAULT_BUSY_TIMEOUT_MS));
  const { clock = systemClock } = options;
  const file = { path, open: getOpener(driver), busyTimeoutMs, clock };
  const found =
    access === "read" ? new ReadOnlyFileDriver(file) : new FileDriver({ ...file, durability });
  return new SqlStore(found, options.isProcessGone ?? isProcessGone);
}
