// Errors of the command, and its exit codes.

import type { SettledStatus } from "espalier";

/** Exit code for each status of a settled run. */
export const EXIT_CODES: Readonly<Record<SettledStatus, number>> = {
  completed: 0,
  failed: 1,
  stopped: 3,
  paused: 4,
  cancelled: 130,
};

/** Unexpected error. */
export const BROKEN = 1;
/** Usage error, or an invalid configuration or role file. */
export const MISUSED = 2;
/** Unusable store. */
const STORE_FAILED = 6;
/** Ended by the signal. */
export const TERMINATED = { SIGHUP: 129, SIGTERM: 143 } as const;

/** Error codes of a broken store. Errors about one run are usage errors. */
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

/** Error codes of invalid requests, and of invalid files that they name. */
const MISUSE_CODES: ReadonlySet<string> = new Set([
  "usage",
  "invalid_argument",
  "missing_package",
  "context_failed",
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

/** Returns the exit code for an error code. */
export function chooseExitCode(code: string | undefined): number {
  if (code === undefined) return BROKEN;
  if (STORE_CODES.has(code)) return STORE_FAILED;
  return MISUSE_CODES.has(code) ? MISUSED : BROKEN;
}

/**
 * Error of an invalid or impossible request. The message has the expected and the actual value, and
 * a remedy.
 */
export class UsageError extends Error {
  override readonly name = "UsageError";
  readonly code = "usage";
}

/** Returns the message of any thrown value. */
export function describeCause(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}

/** Returns the code of an error, such as `ENOENT`. `undefined` if it has none. */
export function findErrorCode(cause: unknown): string | undefined {
  const code: unknown = cause instanceof Error ? Reflect.get(cause, "code") : undefined;
  return typeof code === "string" ? code : undefined;
}
