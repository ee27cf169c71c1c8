import { SessionIdSchema, type SessionId } from "../../protocol/ids.ts";
import { lazyObject, lazySchema, z } from "../../protocol/lazy-schema.ts";
import { StoredMessageSchema, type StoredMessage } from "../../protocol/message.ts";
import { ErrorRecordSchema, type ErrorRecord } from "../../protocol/stop.ts";
import { SessionExecutionSchema, type SessionExecution } from "./session-record.ts";

/** What became of the session of a run. */
export interface SessionOutcome {
  readonly sessionId: SessionId;
  /**
   * `saved`: it has what the run added. `conflict`: another run has written it since the run began, and `failed`: its store did not take
   * it; nothing of it was changed then, and `session.merge(result)` adds what the run has added to whatever is there. `open`: the run is
   * paused, and writes it at its end.
   */
  readonly status: "saved" | "conflict" | "failed" | "open";
  /** The version that the run has written; else the one that it began with. */
  readonly version: number;
  /** The record of the execution, as it is in the session, or is to be. Undefined while `open`. */
  readonly execution: SessionExecution | undefined;
  /** Why it was not saved. */
  readonly error: ErrorRecord | undefined;
}

/** The form in which a journal keeps it. */
export const SessionOutcomeSchema = lazyObject(() => ({
  sessionId: SessionIdSchema(),
  status: z.enum(["saved", "conflict", "failed", "open"]),
  version: z.int().nonnegative(),
  execution: SessionExecutionSchema().optional(),
  error: ErrorRecordSchema().optional(),
}));

/** What of a result is put into a session. */
export interface SessionResult {
  readonly session?: SessionOutcome | undefined;
  readonly newMessages: readonly StoredMessage[];
}

export const SessionResultSchema = lazySchema(() =>
  z.object({
    session: z.object({ sessionId: z.string(), execution: SessionExecutionSchema() }),
    newMessages: z.array(StoredMessageSchema()),
  }),
);
