import type { JsonObject } from "./json.ts";

/**
 * Why espalier refused or failed. Stable across releases; match on it instead of on messages.
 *
 * At definition: `invalid_definition`, `invalid_option`, `duplicate_tool`, `duplicate_role`, `unknown_subagent`,
 * `price_unknown`, `missing_api_key`, `invalid_role_file`, `unknown_tool`. In use: `already_iterating`, `backlog_overflow`, `events_not_kept`, `unknown_agent`,
 * `illegal_transition`, `invalid_state`, `script_mismatch` and `replay_diverged` (testing). At a resumption: `invalid_paused_run`,
 * `unsupported_version`, `invalid_answer`, `already_resumed`. Of stores: `run_exists`, `unknown_run`, `run_alive`, `run_ended`, `run_fenced`,
 * `run_left`, `other_run`, `journal_conflict`, `invalid_journal`, `store_failed`, `session_conflict`, `invalid_session`. Of engines: `unknown_role`, `engine_failed`. Of a model: `model_rate_limited`,
 * `model_overloaded`, `model_unavailable`, `model_timeout`, `model_refused_request`, `model_not_authorized`,
 * `model_protocol_error`, `model_context_overflow`, `model_misbehaved`. Of hooks: `hook_failed`, `hook_contract`, `hook_timeout`,
 * `model_call_failed`. Of tools: `tool_error`, `tool_retry`, `mcp_unavailable`, `mcp_unauthorized`. Of a delegation: `invalid_context`. Of a run: `condition_failed`, `filter_failed`,
 * `section_failed`, `instructions_failed`, `context_failed`, `internal_error`. Of `run.orThrow()`: `run_failed`, `run_stopped`, `run_cancelled`, `run_paused`.
 */
export type ErrorCode =
  | "invalid_definition"
  | "invalid_option"
  | "duplicate_tool"
  | "duplicate_role"
  | "unknown_subagent"
  | "price_unknown"
  | "missing_api_key"
  | "invalid_role_file"
  | "unknown_tool"
  | "already_iterating"
  | "backlog_overflow"
  | "events_not_kept"
  | "unknown_agent"
  | "illegal_transition"
  | "invalid_state"
  | "tool_error"
  | "tool_retry"
  | "mcp_unavailable"
  | "mcp_unauthorized"
  | "script_mismatch"
  | "invalid_paused_run"
  | "unsupported_version"
  | "invalid_answer"
  | "already_resumed"
  | "run_exists"
  | "unknown_run"
  | "run_alive"
  | "run_ended"
  | "run_fenced"
  | "run_left"
  | "other_run"
  | "journal_conflict"
  | "invalid_journal"
  | "store_failed"
  | "replay_diverged"
  | "session_conflict"
  | "invalid_session"
  | "unknown_role"
  | "engine_failed"
  | ModelErrorCode
  | "invalid_context"
  | "condition_failed"
  | "filter_failed"
  | "section_failed"
  | "instructions_failed"
  | "context_failed"
  | "hook_failed"
  | "hook_contract"
  | "hook_timeout"
  | "model_call_failed"
  | "internal_error"
  | RunErrorCode;

/** What `run.orThrow()` rejects with, for each way not to complete. */
export type RunErrorCode = "run_failed" | "run_stopped" | "run_cancelled" | "run_paused";

/** What can go wrong with a model call, whichever provider serves it. */
export type ModelErrorCode =
  | "model_rate_limited"
  | "model_overloaded"
  | "model_unavailable"
  | "model_timeout"
  | "model_refused_request"
  | "model_not_authorized"
  | "model_protocol_error"
  | "model_context_overflow"
  | "model_misbehaved";

/** What an error says. */
export interface EspalierErrorOptions {
  readonly code: ErrorCode;
  /** What was expected, what came, what to do. */
  readonly message: string;
  /** The same as plain values, for logs and programs. */
  readonly data?: JsonObject;
  readonly cause?: unknown;
}

const MARK = Symbol.for("espalier.error");

/** The one error class of espalier. Distinguished by `code`; recognised across copies of the package by `is`. */
export class EspalierError extends Error {
  override readonly name = "EspalierError";
  readonly code: ErrorCode;
  readonly data: JsonObject;

  constructor(options: EspalierErrorOptions) {
    super(options.message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = options.code;
    this.data = options.data ?? {};
  }

  static {
    Object.defineProperty(this.prototype, MARK, { value: true });
  }

  /** True if `value` is an error of espalier, also of another copy of the package. */
  static is(value: unknown): value is EspalierError {
    try {
      return value instanceof Error && MARK in value;
    } catch {
      return false; // What throws when it is looked at is none of ours.
    }
  }
}

/** The message of anything that was thrown, without a stack. Never throws itself, whatever it is given. */
export function messageOf(thrown: unknown): string {
  try {
    return String(thrown instanceof Error ? thrown.message : thrown);
  } catch {
    return "something that has no text";
  }
}
