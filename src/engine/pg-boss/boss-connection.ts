// Connection to pg-boss. The package is loaded when the first connection is opened.

import type { PgBoss } from "pg-boss";

import { EspalierError, getErrorMessage } from "../../kernel/error.ts";
import { isRecord } from "../../kernel/json.ts";
import { loadPackage } from "../../kernel/optional-package.ts";

/**
 * Started instance of `PgBoss` from the npm package `pg-boss`.
 *
 * @example
 * ```ts
 * import { PgBoss } from "pg-boss";
 *
 * const boss: PgBossInstance = await new PgBoss("postgres://localhost/jobs").start();
 * ```
 */
export type PgBossInstance = Pick<
  PgBoss,
  "on" | "off" | "createQueue" | "getQueue" | "insert" | "fetch" | "touch" | "complete" | "fail"
>;

/** Instance that the engine itself has started. */
export type OwnBoss = PgBossInstance & Pick<PgBoss, "stop">;

/**
 * Interval at which one of all processes searches for lost workers. pg-boss searches when both
 * intervals are over; each is 60 s by default.
 */
const SUPERVISE_SECONDS = 2;
const MAINTENANCE_SECONDS = 600;
const MAX_CONNECTIONS = 5;
/**
 * Without this timeout, a silently broken connection would block a worker as long as the operating
 * system waits.
 */
const QUERY_TIMEOUT_MS = 30_000;

/**
 * Creates and starts an instance, which creates its tables. Rejects with `invalid_argument` if the
 * package is not installed, and with the errors of pg-boss.
 */
export async function startBoss(connectionString: string, schema: string): Promise<OwnBoss> {
  const without = "this engine cannot run anything";
  const { PgBoss } = await loadPackage("pg-boss", without, () => import("pg-boss"));
  const options = {
    connectionString,
    schema: `"${schema}"`, // As a bare name it could be a word of SQL.
    instanceName: "espalier",
    max: MAX_CONNECTIONS,
    keepAlive: true,
    query_timeout: QUERY_TIMEOUT_MS,
    schedule: false,
    superviseIntervalSeconds: SUPERVISE_SECONDS,
    monitorIntervalSeconds: SUPERVISE_SECONDS,
    maintenanceIntervalSeconds: MAINTENANCE_SECONDS,
    monitorVacuum: false, // The monitor only warns.
    openTelemetry: { enabled: false }, // A run has its own trace.
  };
  const boss = new PgBoss(options);
  boss.on("error", ignoreFault);
  try {
    return await boss.start();
  } catch (cause) {
    await boss.stop({ graceful: false }).catch(ignoreFault);
    throw cause;
  }
}

/**
 * Ignores an error in the background: the next call fails with it as well. Without a listener it
 * would end the process.
 */
export function ignoreFault(): void {}

/**
 * Returns an `engine_failed` for an error of pg-boss or the database. `what` is the attempted
 * action.
 */
export function convertBossError(action: string, cause: unknown): EspalierError {
  if (EspalierError.is(cause)) return cause;
  const code = isRecord(cause) && typeof cause["code"] === "string" ? cause["code"] : undefined;
  // Errors of several simultaneous attempts have only a code.
  const words = getErrorMessage(cause) || code || "no reason";
  const message = `Cannot ${action}: pg-boss failed with: ${words}. ${chooseAdvice(code)}`;
  return new EspalierError({ code: "engine_failed", message, cause });
}

function chooseAdvice(code: string | undefined): string {
  // SQLSTATE classes: the database is read-only; the credentials are rejected or the database does
  // not exist.
  if (code === "25006")
    return "The server or the user is read-only. Connect to the primary, with default_transaction_read_only off.";
  if (code === "42501" || code?.startsWith("28") === true || code === "3D000")
    return "Check the name, the password and the rights of the user, who must be able to create the schema and its tables.";
  // A table or column does not exist, or differs.
  if (code?.startsWith("42") === true)
    return "This release of pg-boss does not support the schema. Use the release that wrote it, or another schema.";
  return "Check that the server is running and reachable, and that a boss of your own is started.";
}

/** Returns true if the error reports that a queue was never created. */
export function isQueueMissing(cause: unknown): boolean {
  return isRecord(cause) && cause["code"] === "PGBOSS_QUEUE_NOT_FOUND";
}
