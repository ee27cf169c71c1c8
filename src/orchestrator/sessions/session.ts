// Session: the caller's handle of a history that root executions share.

import type { SessionId } from "../../protocol/ids.ts";
import type { ImportedMessage, StoredMessage } from "../../protocol/message.ts";
import type { Usage } from "../../protocol/usage.ts";
import type { ExecutionBoundary } from "./session-changes.ts";
import type { SessionResult } from "./session-outcome.ts";
import type { SessionExecution, SessionFork } from "./session-record.ts";

/**
 * Handle of a conversation history that several runs share, one after the other.
 * `orchestrator.openSession` returns it; pass it to `orchestrator.start`. The fields show the
 * session as this handle last read or wrote it.
 *
 * @example
 * ```ts
 * const session = await orchestrator.openSession("customer-42");
 * await orchestrator.start(role, "Where is my order?", { session }).result;
 * await orchestrator.start(role, "And the invoice?", { session }).result;
 * console.log(session.messages.length, session.usage.costUsd);
 * ```
 */
export interface Session {
  /** Id of the session, as passed to `orchestrator.openSession`. */
  readonly id: SessionId;
  /** Number of writes so far. 0 if the session is not in the store yet. */
  readonly version: number;
  /**
   * Message history without instructions. The next run begins with these messages, reduced by the
   * `retention` of the session. Messages that retention or a compaction has dropped are gone.
   */
  readonly messages: readonly StoredMessage[];
  /**
   * Records of the root executions in this session, oldest first. The last 100 are kept, and older
   * ones as long as `messages` has messages of theirs.
   *
   * @example
   * ```ts
   * const session = await orchestrator.openSession("customer-42");
   * for (const { runId, role, status } of session.executions) console.log(runId, role, status);
   * ```
   */
  readonly executions: readonly SessionExecution[];
  /**
   * Positions in `messages` at which an execution ended and the next one began. The last execution
   * has none.
   */
  readonly boundaries: readonly ExecutionBoundary[];
  /**
   * Number of all executions of this session, including those that are no longer in `executions`.
   */
  readonly executionCount: number;
  /** Usage of all executions, including their subagents. A fork begins at zero. */
  readonly usage: Usage;
  /**
   * Session, execution and step from which this session was forked. `undefined` if it is not a
   * fork.
   */
  readonly forkedFrom: SessionFork | undefined;
  /**
   * Saves messages of another program as the beginning of this session, in order. The session must
   * have no messages and no executions. Imported messages belong to no execution and cost nothing.
   *
   * @throws EspalierError `invalid_argument` for a system message, an invalid message, or a call
   * without its result.
   * @throws EspalierError `invalid_state` if the session is not empty, or while a run or another call
   * uses the session.
   * @throws EspalierError `session_conflict` if another writer has changed the session.
   * @throws EspalierError `store_failed` if the store fails.
   *
   * @example
   * ```ts
   * const session = await orchestrator.openSession("customer-42");
   * if (session.version === 0)
   *   await session.importMessages([
   *     { role: "user", text: "Where is my order?" },
   *     { role: "assistant", text: "It is on its way." },
   *   ]);
   * ```
   */
  importMessages(messages: readonly ImportedMessage[]): Promise<void>;
  /**
   * Creates a session that begins with the history of this one up to a step. The fork is written to
   * the store at once, has the same options, and its messages have ids of their own. This session
   * does not change.
   *
   * @throws EspalierError `invalid_argument` if the execution or step does not exist or its messages
   * are gone.
   * @throws EspalierError `session_conflict` if `sessionId` is taken.
   * @throws EspalierError `store_failed` if the store fails.
   *
   * @example
   * ```ts
   * const session = await orchestrator.openSession("customer-42");
   * const fork = await session.fork({ sessionId: "customer-42-retry", atStep: 2 });
   * await orchestrator.start(role, "Try another shop.", { session: fork }).result;
   * ```
   */
  fork(options?: {
    /**
     * Id of the fork.
     *
     * @default a random id
     */
    readonly sessionId?: string;
    /**
     * Execution at whose end, or within which, the fork begins.
     *
     * @default the last execution
     */
    readonly executionId?: string | undefined;
    /**
     * Last step of the execution, from 1, that the fork contains.
     *
     * @default the last step
     */
    readonly atStep?: number;
  }): Promise<Session>;
  /**
   * Reads the session from its store again, such as after a `session_conflict`.
   *
   * @throws EspalierError `invalid_state` while a run or another call uses the session.
   * @throws Everything that `orchestrator.openSession` rejects with.
   *
   * @example
   * ```ts
   * const session = await orchestrator.openSession("customer-42");
   * await session.reload();
   * console.log(session.version);
   * ```
   */
  reload(): Promise<void>;
  /**
   * Appends the messages of a run that could not be saved, after everything that is in the store by
   * now. Does nothing if the session has them already.
   *
   * @throws EspalierError `invalid_argument` for a result of another session or of a run that has not
   * ended.
   * @throws EspalierError `invalid_state` while a run or another call uses the session.
   * @throws EspalierError `session_conflict` if other writers keep winning.
   * @throws Everything that `orchestrator.openSession` rejects with.
   *
   * @example
   * ```ts
   * const session = await orchestrator.openSession("customer-42");
   * const result = await orchestrator.start(role, "Hello?", { session }).result;
   * if (result.session?.status === "conflict") await session.merge(result);
   * ```
   */
  merge(result: SessionResult): Promise<void>;
  /**
   * Removes the messages of an execution. Its record stays in `executions`, with `isRemoved:
   * true`.
   *
   * @throws EspalierError `invalid_argument` for an unknown execution.
   * @throws EspalierError `invalid_state` while a run or another call uses the session.
   * @throws EspalierError `session_conflict` if another writer has changed the session.
   * @throws EspalierError `store_failed` if the store fails.
   *
   * @example
   * ```ts
   * const session = await orchestrator.openSession("customer-42");
   * const failed = session.executions.findLast(({ status }) => status === "failed");
   * if (failed !== undefined) await session.remove(failed.executionId);
   * ```
   */
  remove(executionId: string): Promise<void>;
  /**
   * Removes all messages and execution records. `usage` and `executionCount` stay.
   *
   * @throws EspalierError `invalid_state` while a run or another call uses the session.
   * @throws EspalierError `session_conflict` if another writer has changed the session.
   * @throws EspalierError `store_failed` if the store fails.
   *
   * @example
   * ```ts
   * const session = await orchestrator.openSession("customer-42");
   * await session.clear();
   * ```
   */
  clear(): Promise<void>;
}

export type SessionForkOptions = NonNullable<Parameters<Session["fork"]>[0]>;
