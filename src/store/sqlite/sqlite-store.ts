// Entry `espalier/store/sqlite`: runs and sessions in one file.

import { checkCount, checkKeys, defaultAdvice, mismatch } from "../../kernel/check.ts";
import { systemClock, type Clock } from "../../kernel/clock.ts";
import { isProcessGone } from "../holding.ts";
import { SqlStore } from "../sql-store.ts";
import { checkOneOf } from "../store-arguments.ts";
import type { Store } from "../store.ts";
import { FileDriver } from "./file-driver.ts";
import { ReadingFileDriver } from "./reading-file-driver.ts";
import { openerOf } from "./sqlite-driver.ts";

/** How the file is opened, and what is kept for certain. */
export interface SqliteStoreOptions {
  /**
   * `node` (default): the driver that Node brings; before Node 24 it prints a warning. `better-sqlite3`: the package of that name, which
   * you install.
   */
  readonly driver?: "node" | "better-sqlite3";
  /**
   * What is kept for certain. `full` (default): what was acknowledged is there after a power failure. `process`: after the end of the
   * process, however it came; a power failure may take the last moments. Five to nine times as fast.
   */
  readonly durability?: "full" | "process";
  /**
   * `write` (default): creates the file when it is first needed. `read`: creates and changes
   * nothing. A write rejects with `store_failed` (`read_only`). Every request to a file that does
   * not exist or is empty rejects with `store_failed` (`missing`).
   */
  readonly access?: "read" | "write";
  /** How long to wait for other processes that have the file locked. Default 5,000. */
  readonly busyTimeoutMs?: number;
  /**
   * Default: the clock of the machine. Every process that has the file open must go by the same one: how long the owner of a run has been
   * silent is measured by its wall clock.
   */
  readonly clock?: Clock;
  /** Whether a process of this machine has ended. Default: asks the system. */
  readonly isProcessGone?: (processId: number) => boolean;
}

const DEFAULT_BUSY_TIMEOUT_MS = 5_000;
const OPTIONS = ["driver", "durability", "access", "busyTimeoutMs", "clock", "isProcessGone"];

/**
 * A store in one file, which is made if it is not there; `:memory:` keeps it in memory. The file is opened when it is first needed:
 * what is wrong with it rejects whatever is asked of the store. Several stores and processes of one machine may have a file open.
 *
 * @throws EspalierError `invalid_option`. What is asked of the store also rejects with `invalid_option` if its driver is not installed,
 * `unsupported_version` if the tables in the file have another version, and `store_failed`.
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
  checkCount("busyTimeoutMs", busyTimeoutMs, defaultAdvice(DEFAULT_BUSY_TIMEOUT_MS));
  const { clock = systemClock } = options;
  const file = { path, open: openerOf(driver), busyTimeoutMs, clock };
  const found =
    access === "read" ? new ReadingFileDriver(file) : new FileDriver({ ...file, durability });
  return new SqlStore(found, options.isProcessGone ?? isProcessGone);
}
