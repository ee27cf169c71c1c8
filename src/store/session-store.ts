// The port for stores of sessions. Each session is one text with a version, so that of two
// concurrent writers only one succeeds.

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
 * const stored = new Map<string, StoredSession>();
 * const sessions: SessionStore = {
 *   readSession: async (id) => stored.get(id),
 *   writeSession: async (id, expected, body) => {
 *     const { version: found = 0 } = stored.get(id) ?? {};
 *     if (found !== expected) {
 *       const message = `Expected version ${expected} of ${id}, got ${found}. Read it again.`;
 *       throw new EspalierError({ code: "session_conflict", message, data: { expected, found } });
 *     }
 *     stored.set(id, { version: found + 1, body });
 *     return found + 1;
 *   },
 *   listSessions: async () => [...stored.keys()] as SessionId[],
 *   removeSession: async (id) => stored.delete(id),
 * };
 * const session = await orchestrator.openSession("customer-42", { store: sessions });
 * ```
 */
export interface SessionStore {
  /**
   * Returns a session. `undefined` if the store has no such session.
   *
   * @throws EspalierError `store_failed` if the store fails.
   */
  readSession(sessionId: SessionId): Promise<StoredSession | undefined>;
  /**
   * Writes a session if its version is `expectedVersion`, and returns the new version. 0 creates
   * the session.
   *
   * @throws EspalierError `session_conflict` if the session has another version, with
   * `data.expected` and `data.found`.
   * @throws EspalierError `store_failed` if the store fails.
   */
  writeSession(sessionId: SessionId, expectedVersion: number, body: string): Promise<number>;
  /**
   * Returns the ids of sessions, most recently written first. `limit` is 100 by default.
   *
   * @throws EspalierError `store_failed` if the store fails.
   */
  listSessions(options?: { readonly limit?: number }): Promise<readonly SessionId[]>;
  /**
   * Removes a session. Returns `false` if the session does not exist.
   *
   * @throws EspalierError `store_failed` if the store fails.
   */
  removeSession(sessionId: SessionId): Promise<boolean>;
}
