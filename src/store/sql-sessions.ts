// Sessions in a SQL database.

import { SessionIdSchema, type SessionId } from "../protocol/ids.ts";
import type { StoredSession } from "./session-store.ts";
import { NOW_MS, sql, type SqlWork } from "./sql-driver.ts";
import { sessionConflict } from "./store-errors.ts";
import { numberIn, textIn } from "./stored-row.ts";

export function* findSession(sessionId: SessionId): SqlWork<StoredSession | undefined> {
  const [row] = yield sql`
    select version, body from {schema}.session where session_id = ${sessionId}`;
  if (row === undefined) return undefined;
  return { version: numberIn(row, "version"), body: textIn(row, "body") };
}

/** Puts a session in the place of the version before it. */
export function* putSession(
  sessionId: SessionId,
  { version, body }: StoredSession,
): SqlWork<number> {
  const before = version - 1;
  const written =
    before === 0
      ? yield sql`
          insert into {schema}.session (session_id, version, body, written, updated_at_ms)
          values (${sessionId}, 1, ${body}, {next_written}, ${NOW_MS})
          on conflict (session_id) do nothing returning version`
      : yield sql`
          update {schema}.session set version = ${version}, body = ${body}, written = {next_written}, updated_at_ms = ${NOW_MS}
          where session_id = ${sessionId} and version = ${before} returning version`;
  if (written.length > 0) return version;
  const found = yield* findSession(sessionId);
  throw sessionConflict(sessionId, before, found?.version ?? 0);
}

export function* listSessionIds(limit: number): SqlWork<readonly SessionId[]> {
  const rows = yield sql`
    select session_id from {schema}.session order by written desc limit ${limit}`;
  return rows.map((row) => SessionIdSchema.parse(textIn(row, "session_id")));
}

export function* deleteSession(sessionId: SessionId): SqlWork<boolean> {
  const rows = yield sql`
    delete from {schema}.session where session_id = ${sessionId} returning version`;
  return rows.length > 0;
}
