// Errors of the command, and its exit codes.

import type { SettledStatus } from "espalier";

/** For each way in which a run settles. */
export const EXIT_CODES: Readonly<Record<SettledStatus, number>> = {
  completed: 0,
  failed: 1,
  stopped: 3,
  paused: 4,
  cancelled: 130,
};

/** An error that no policy or user chose. */
export const BROKEN = 1;
/** Wrong use, configuration or role file. */
export const MISUSED = 2;
/** The store could not be used. */
const STORE_FAILED = 6;
/** Ended by the signal. */
export const TERMINATED = { SIGHUP: 129, SIGTERM: 143 } as const;

/** Those of a store that is wrong in itself; what is said of one run is wrong use. */
const STORE_CODES: ReadonlySet<string> = new Set([
  "store_failed",
  "unsupported_version",
  "invalid_journal",
  "invalid_paused_run",
  "invalid_signature",
  "journal_conflict",
  "run_fenced",
  "session_conflict",
  "invalid_session",
]);

/** What is wrong with what was asked for, or with the files that say how. */
const MISUSE_CODES: ReadonlySet<string> = new Set([
  "usage",
  "invalid_option",
  "invalid_definition",
  "invalid_role_file",
  "invalid_answer",
  "duplicate_tool",
  "duplicate_role",
  "unknown_subagent",
  "unknown_role",
  "unknown_tool",
  "unknown_run",
  "unknown_agent",
  "run_ended",
  "run_active",
  "run_exists",
  "already_resumed",
  "output_mismatch",
  "price_unknown",
  "missing_api_key",
  "unsupported_node",
  "mcp_unavailable",
  "mcp_unauthorized",
  "mcp_response_too_large",
]);

/** The exit code for an error with this code. */
export function chooseExitCode(code: string | undefined): number {
  if (code === undefined) return BROKEN;
  if (STORE_CODES.has(code)) return STORE_FAILED;
  return MISUSE_CODES.has(code) ? MISUSED : BROKEN;
}

/** What was asked for makes no sense, or cannot be done here: the message says what was expected, what came and what to do. */
export class UsageError extends Error {
  override readonly name = "UsageError";
  readonly code = "usage";
}

/** Returns the words of anything that was thrown. */
export function describeCause(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}

/** Returns the code of an error, such as `ENOENT`. `undefined` if it has none. */
export function findErrorCode(cause: unknown): string | undefined {
  const code: unknown = cause instanceof Error ? Reflect.get(cause, "code") : undefined;
  return typeof code === "string" ? code : undefined;
}
