// The store of a session in a replay: no real session is read or written. It answers as the store of the recorded run did, so that the
// session of the replay has what is on record.

import { z } from "zod";

import { EspalierError } from "../../kernel/error.ts";
import type { JournalRecord } from "../../orchestrator/durability/journal-record.ts";
import type { SessionOutcome } from "../../orchestrator/sessions/session-outcome.ts";
import { emptyRecord } from "../../orchestrator/sessions/session-record.ts";
import type { SessionRef } from "../../orchestrator/sessions/session-ref.ts";
import type { ErrorRecord } from "../../protocol/stop.ts";
import { memoryStore } from "../../store/memory-store.ts";
import type { Store } from "../../store/store.ts";

/** `ref`: what the run knows of its session when the segment begins; undefined: it has none. `records`: of the segment. */
export function fakeSessionStore(
  ref: SessionRef | undefined,
  records: readonly JournalRecord[],
): Store {
  const recorded = outcomeIn(records);
  const readSession: Store["readSession"] = (sessionId) => {
    const version = ref?.version ?? 0;
    const body = JSON.stringify(emptyRecord(sessionId, 0));
    return Promise.resolve(version === 0 ? undefined : { version, body });
  };
  const writeSession: Store["writeSession"] = (_sessionId, expectedVersion) => {
    const { error, version = expectedVersion + 1 } = recorded ?? {};
    return error === undefined ? Promise.resolve(version) : Promise.reject(failure(error));
  };
  return Object.assign(memoryStore(), { readSession, writeSession });
}

/** How it went; undefined: the recording does not say. */
function outcomeIn(
  records: readonly JournalRecord[],
): Pick<SessionOutcome, "version" | "error"> | undefined {
  const sessions = records.flatMap((record) =>
    record.type === "result" && record.session !== undefined ? [record.session] : [],
  );
  const last = sessions.findLast(({ status }) => status !== "open");
  return last === undefined ? undefined : { version: last.version, error: last.error };
}

const CodeSchema = z
  .enum(["session_conflict", "store_failed", "unsupported_version", "invalid_session"])
  .catch("store_failed");

function failure({ code, message, data }: ErrorRecord): EspalierError {
  return new EspalierError({ code: CodeSchema.parse(code), message, data });
}
