import { EspalierError, getErrorMessage } from "../../kernel/error.ts";
import { createStoreError, type StoreFailure } from "../store-errors.ts";

interface PostgresFault {
  /** SQLSTATE, or its first characters. */
  readonly code: string;
  readonly reason: StoreFailure;
  readonly advice: string;
}

const AGAIN = "Try again.";
const RIGHTS = "Check the name, the password and the rights of the user.";
const READ_ONLY = "Connect to the primary server, which accepts writes.";

/** The first matching entry applies. */
const FAULTS: readonly PostgresFault[] = [
  { code: "08", reason: "connection", advice: AGAIN },
  { code: "57P", reason: "connection", advice: AGAIN },
  { code: "53300", reason: "busy", advice: "Allow more connections, or use fewer." },
  { code: "53100", reason: "full", advice: "Free disk space on the server." },
  { code: "53", reason: "busy", advice: "Give the server more memory, or reduce its load." },
  { code: "40", reason: "busy", advice: AGAIN },
  { code: "55P03", reason: "busy", advice: AGAIN },
  { code: "57014", reason: "busy", advice: "Allow statements more time." },
  { code: "25006", reason: "read_only", advice: READ_ONLY },
  { code: "28", reason: "denied", advice: RIGHTS },
  { code: "3D000", reason: "denied", advice: "Create the database first." },
  { code: "42501", reason: "denied", advice: RIGHTS },
  { code: "54", reason: "too_large", advice: "Make the record smaller." },
  { code: "58", reason: "input_output", advice: "Check the disk of the server." },
  { code: "XX00", reason: "corrupt", advice: "Restore it from a copy." },
];

const CONNECTION: Omit<PostgresFault, "code"> = {
  reason: "connection",
  advice: "Check that the server is running and reachable, and try again.",
};
const OTHER: Omit<PostgresFault, "code"> = {
  reason: "other",
  advice: "See the cause of this error.",
};

/** Returns a `store_failed` for an error of the driver or the server. */
export function convertPostgresError(cause: unknown): EspalierError {
  if (EspalierError.is(cause)) return cause;
  const { reason, advice } = findPostgresFault(cause);
  return createStoreError(
    reason,
    `The store in PostgreSQL failed with: ${describeError(cause)}. ${advice}`,
    cause,
  );
}

/** Returns a description of an error. Errors of several failed attempts have only a code. */
function describeError(cause: unknown): string {
  const code: unknown = cause instanceof Error && "code" in cause ? cause.code : undefined;
  return getErrorMessage(cause) || String(code);
}

/**
 * Returns true if the connection is usable after an error: the server itself reported the error,
 * and continues.
 */
export function isConnectionSound(cause: unknown): boolean {
  if (EspalierError.is(cause)) return true;
  const { reason } = findPostgresFault(cause);
  return isOfServer(cause) && reason !== "connection" && reason !== "read_only";
}

function findPostgresFault(cause: unknown): Omit<PostgresFault, "code"> {
  // An error that no server has reported is a connection error.
  if (!isOfServer(cause)) return cause instanceof TypeError ? OTHER : CONNECTION;
  const code = String(cause.code);
  // XX000 is an internal error, XX001 and XX002 are damage.
  if (code === "XX000") return OTHER;
  return FAULTS.find((fault) => code.startsWith(fault.code)) ?? OTHER;
}

/** Returns true if a server reported the error: such errors have a severity besides their code. */
function isOfServer(cause: unknown): cause is Error & { readonly code: unknown } {
  return cause instanceof Error && "severity" in cause && "code" in cause;
}
