import { SessionIdSchema, type SessionId } from "../../protocol/ids.ts";
import { lazyObject, lazySchema, z } from "../../protocol/lazy-schema.ts";
import { StoredMessageSchema, type StoredMessage } from "../../protocol/message.ts";
import { ErrorRecordSchema, type ErrorRecord } from "../../protocol/stop.ts";
import { SessionExecutionSchema, type SessionExecution } from "./session-record.ts";

/**
 * Outcome of saving a run to its session.
 *
 * @example
 * ```ts
 * const { session: outcome } = result;
 * if (outcome?.status === "failed") console.error(outcome.sessionId, outcome.error?.message);
 * ```
 */
export interface SessionOutcome {
  readonly sessionId: SessionId;
  /**
   * State of the session after the run.
   *
   * - `saved`: the session has the messages of the run.
   * - `conflict`: another run has changed the session meanwhile. Nothing was written; call
   *   `session.merge(result)`.
   * - `failed`: the store rejected the write. Nothing was written; call `session.merge(result)`
   *   later.
   * - `open`: the run is paused and saves its messages when it ends.
   */
  readonly status: "saved" | "conflict" | "failed" | "open";
  /** Version that the run wrote, or the version that it began with if nothing was written. */
  readonly version: number;
  /**
   * Record of the run's execution, as the session has it or will have it after a merge. `undefined`
   * while `open`.
   */
  readonly execution: SessionExecution | undefined;
  /** Cause of a `conflict` or `failed`. `undefined` for any other status. */
  readonly error: ErrorRecord | undefined;
}

/** Form of the outcome in a journal. */
export const SessionOutcomeSchema = lazyObject(() => ({
  sessionId: SessionIdSchema(),
  status: z.enum(["saved", "conflict", "failed", "open"]),
  version: z.int().nonnegative(),
  execution: SessionExecutionSchema().optional(),
  error: ErrorRecordSchema().optional(),
}));

/** Part of a run result that `session.merge` needs. Every `RunResult` is one. */
export interface SessionResult {
  /** Outcome of saving the run to its session. */
  readonly session?: SessionOutcome | undefined;
  /** Messages that the run added. */
  readonly newMessages: readonly StoredMessage[];
}

export const SessionResultSchema = lazySchema(() =>
  z.object({
    session: z.object({ sessionId: z.string(), execution: SessionExecutionSchema() }),
    newMessages: z.array(StoredMessageSchema()),
  }),
);
