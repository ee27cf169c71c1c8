// How a session is read from its store and written there. Whatever a store throws comes out as one of our errors.

import { shown } from "../../kernel/check.ts";
import { EspalierError, messageOf } from "../../kernel/error.ts";
import { isRecord } from "../../kernel/json.ts";
import type { SessionId } from "../../protocol/ids.ts";
import type { SessionStore } from "../../store/session-store.ts";
import { emptyRecord, readSessionRecord, type SessionRecord } from "./session-record.ts";

/** A session with the version that it has in its store; 0: it is not there yet. */
export interface SessionVersion {
  readonly record: SessionRecord;
  readonly version: number;
}

/** Rejects with `store_failed`, `unsupported_version` or `invalid_session`. */
export async function readStored(
  store: SessionStore,
  sessionId: SessionId,
  nowMs: number,
): Promise<SessionVersion> {
  const stored: unknown = await asked(sessionId, () => store.readSession(sessionId));
  if (stored === undefined) return { record: emptyRecord(sessionId, nowMs), version: 0 };
  if (!isRecord(stored)) throw strange(sessionId, `gave ${shown(stored)}`);
  const { version, body } = stored;
  if (!isVersion(version)) throw strange(sessionId, `gave version ${shown(version)}`);
  return { record: readSessionRecord(sessionId, body), version };
}

/** Gives it with its new version. Rejects with `store_failed`, or with `session_conflict` if it has another version than expected. */
export async function writeStored(
  store: SessionStore,
  record: SessionRecord,
  expectedVersion: number,
): Promise<SessionVersion> {
  const { sessionId } = record;
  const body = JSON.stringify(record);
  const version: unknown = await asked(sessionId, () =>
    store.writeSession(sessionId, expectedVersion, body),
  );
  if (!isVersion(version)) throw strange(sessionId, `gave version ${shown(version)}`);
  return { record, version };
}

function isVersion(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value > 0;
}

async function asked<Answer>(sessionId: SessionId, ask: () => Promise<Answer>): Promise<Answer> {
  try {
    return await ask();
  } catch (cause) {
    if (EspalierError.is(cause)) throw cause;
    throw strange(sessionId, `threw: ${messageOf(cause)}`, cause);
  }
}

function strange(sessionId: SessionId, what: string, cause?: unknown): EspalierError {
  return new EspalierError({
    code: "store_failed",
    message: `Expected the store to keep session ${JSON.stringify(sessionId)}, but it ${what}. Look at the store.`,
    data: { sessionId, reason: "other", isTransient: false },
    ...(cause === undefined ? {} : { cause }),
  });
}
