// The port through which sessions are kept: one text for each, with a version, so that two writers cannot both win.

import type { SessionId } from "../protocol/ids.ts";

/** Session as a store has it: a version and a text. */
export interface StoredSession {
  /** Version of the session: 1 after the first write, and one more with each write. */
  readonly version: number;
  /** JSON text of the session. */
  readonly body: string;
}

/**
 * Port for stores of sessions: one versioned text for each session, written with compare-and-swap.
 *
 * @example
 * ```ts
 * const sessions: SessionStore = memoryStore();
 * const session = await orchestrator.openSession("customer-42", { store: sessions });
 * ```
 */
export interface SessionStore {
  /**
   * Returns a session. `undefined` if the store has no such session.
   *
   * @throws EspalierError `store_failed`
   */
  readSession(sessionId: SessionId): Promise<StoredSession | undefined>;
  /**
   * Writes a session if its version is `expectedVersion`, and returns the new version. 0 creates
   * the session.
   *
   * @throws EspalierError `session_conflict` if the session has another version, with
   * `data.expected` and `data.found`; `store_failed`
   */
  writeSession(sessionId: SessionId, expectedVersion: number, body: string): Promise<number>;
  /**
   * Returns the ids of sessions, most recently written first. `limit` is 100 by default.
   *
   * @throws EspalierError `store_failed`
   */
  listSessions(options?: { readonly limit?: number }): Promise<readonly SessionId[]>;
  /**
   * Removes a session. Returns `false` if there is no such session.
   *
   * @throws EspalierError `store_failed`
   */
  removeSession(sessionId: SessionId): Promise<boolean>;
}
