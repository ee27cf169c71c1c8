// Sessions in SQLite. Everything here happens within a transaction that the caller begins and commits.

import { SessionIdSchema, type SessionId } from "../../protocol/ids.ts";
import type { StoredSession } from "../session-store.ts";
import { sessionConflict } from "../store-errors.ts";
import { numberIn, textIn } from "../stored-row.ts";
import type { SqliteDatabase } from "./sqlite-driver.ts";

export function findSession(
  database: SqliteDatabase,
  sessionId: SessionId,
): StoredSession | undefined {
  const row = database
    .prepare("select version, body from session where session_id = ?")
    .get(sessionId);
  if (row === undefined) return undefined;
  return { version: numberIn(row, "version"), body: textIn(row, "body") };
}

export interface SessionWrite extends StoredSession {
  readonly sessionId: SessionId;
}

/** Puts a version in the place of the one before it. */
export function putSession(database: SqliteDatabase, write: SessionWrite, nowMs: number): number {
  const { sessionId, version, body } = write;
  const found = findSession(database, sessionId)?.version ?? 0;
  if (found !== version - 1) throw sessionConflict(sessionId, version - 1, found);
  const last = database.prepare("select coalesce(max(written), 0) as last from session").get();
  database
    .prepare(
      `insert into session (session_id, version, body, written, updated_at_ms) values (?, ?, ?, ?, ?)
       on conflict (session_id) do update
       set version = excluded.version, body = excluded.body, written = excluded.written, updated_at_ms = excluded.updated_at_ms`,
    )
    .run(sessionId, version, body, numberIn(last, "last") + 1, nowMs);
  return version;
}

export function listSessionIds(database: SqliteDatabase, limit: number): readonly SessionId[] {
  const rows = database
    .prepare("select session_id from session order by written desc limit ?")
    .all(limit);
  return rows.map((row) => SessionIdSchema.parse(textIn(row, "session_id")));
}

export function deleteSession(database: SqliteDatabase, sessionId: SessionId): boolean {
  const isThere = findSession(database, sessionId) !== undefined;
  database.prepare("delete from session where session_id = ?").run(sessionId);
  return isThere;
}
