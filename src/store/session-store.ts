// The port through which sessions are kept: one text for each, with a version, so that two writers cannot both win.

import type { SessionId } from "../protocol/ids.ts";

/** A session as a store has it. */
export interface StoredSession {
  /** From 1; one more with each write. */
  readonly version: number;
  /** JSON text. */
  readonly body: string;
}

/** Where sessions are kept. */
export interface SessionStore {
  /** Undefined: there is none. Rejects with `store_failed`. */
  readSession(sessionId: SessionId): Promise<StoredSession | undefined>;
  /**
   * Writes a session whose version is `expectedVersion`; 0: there is none yet. Gives its new version.
   * Rejects with `session_conflict` if it has another version (`data.expected`, `data.found`), and nothing is changed; `store_failed`.
   */
  writeSession(sessionId: SessionId, expectedVersion: number, body: string): Promise<number>;
  /** Ids, those written last first. `limit`: default 100. */
  listSessions(options?: { readonly limit?: number }): Promise<readonly SessionId[]>;
  /** False: there is none. */
  removeSession(sessionId: SessionId): Promise<boolean>;
}
