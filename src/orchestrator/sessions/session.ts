// Session: the caller's handle on a history that root executions share.

import type { SessionId } from "../../protocol/ids.ts";
import type { StoredMessage } from "../../protocol/message.ts";
import type { Usage } from "../../protocol/usage.ts";
import type { ExecutionBoundary } from "./session-changes.ts";
import type { SessionResult } from "./session-outcome.ts";
import type { SessionExecution, SessionFork } from "./session-record.ts";

/**
 * Root executions, one after the other, that share a history. Made by `orchestrator.session`, and handed to `orchestrator.start`. It shows
 * the session as it was last read or written by this handle.
 */
export interface Session {
  readonly id: SessionId;
  /** One more with each write; 0: it is not in its store yet. */
  readonly version: number;
  /** The history, without instructions: what the next execution begins with, as far as the retention lets it. */
  readonly messages: readonly StoredMessage[];
  /** The records of its executions, oldest first: the last hundred, and older ones of which the history still has messages. */
  readonly executions: readonly SessionExecution[];
  /** The borders between executions in the history: where one ended and another one begins. */
  readonly boundaries: readonly ExecutionBoundary[];
  /** Executions that it ever had. */
  readonly executionCount: number;
  /** What its executions consumed, with all their subagents. A fork begins with nothing. */
  readonly usage: Usage;
  /** Where it was forked from; undefined: nowhere. */
  readonly forkedFrom: SessionFork | undefined;
  /**
   * Another session that begins with the history of this one up to a step, under ids of its own; nothing is spent in it, and this one stays
   * as it was. It is written at once, and used with the same options.
   *
   * @throws EspalierError `invalid_option` for an execution or a step that there is not, or whose history is not there any more;
   * `session_conflict` if there is a session of that id; `store_failed`.
   */
  fork(options?: {
    /** Of the fork. Default: a new one. */
    readonly sessionId?: string;
    /** The execution in which, or at whose end, the fork begins. Default: the last one. */
    readonly executionId?: string | undefined;
    /** The step of that execution, from 1, after which the fork goes its own way. Default: its end. */
    readonly atStep?: number;
  }): Promise<Session>;
  /**
   * Takes over what its store has: after a `session_conflict`, or to see what others have added.
   *
   * @throws EspalierError `invalid_state` while something else uses it; what `orchestrator.session` throws.
   */
  reload(): Promise<void>;
  /**
   * Adds what a run has added that could not be saved, after whatever is in the store by now. If it is there already, nothing happens.
   *
   * @throws EspalierError `invalid_option` for a result that has nothing for this session; `invalid_state` while something else uses it;
   * `session_conflict` if others do not stop writing; what `orchestrator.session` throws.
   */
  merge(result: SessionResult): Promise<void>;
  /**
   * Takes out the messages of one execution, such as one that failed. Its record stays.
   *
   * @throws EspalierError `invalid_option` for an execution that it does not have; `invalid_state` while something else uses it;
   * `session_conflict` if something else has written it; `store_failed`.
   */
  remove(executionId: string): Promise<void>;
  /**
   * Takes out all messages. What it consumed stays on record.
   *
   * @throws EspalierError like `remove`.
   */
  clear(): Promise<void>;
}

export type SessionForkOptions = NonNullable<Parameters<Session["fork"]>[0]>;
