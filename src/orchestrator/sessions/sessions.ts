// Opens the session of a run from the options of an orchestrator call.

import { checkMethods, mismatch } from "../../kernel/argument-checks.ts";
import type { ExecutionId, RunId } from "../../protocol/ids.ts";
import type { SessionStore } from "../../store/session-store.ts";
import type { SessionRef } from "./session-ref.ts";
import { RunSession, createSessionMovedError } from "./run-session.ts";
import type { Session } from "./session.ts";
import { hasExecution } from "./session-changes.ts";
import { openSession, getSessionWriter, type SessionPlace } from "./session-writer.ts";
import { readSessionId, resolveSessionOptions, type SessionOptions } from "./session-options.ts";

/** Dependencies that an orchestrator provides for its sessions. */
type SessionMeans = Omit<SessionPlace, "store"> & {
  readonly storage: { readonly store: SessionStore } | undefined;
};

/**
 * Returns the session of this id, from its store or new. Rejects with `invalid_argument`, or like
 * `openSession`.
 */
export async function openSessionHandle(
  { storage, clock, ids }: SessionMeans,
  id: string,
  options: SessionOptions,
): Promise<Session> {
  const sessionId = readSessionId("session(id)", id);
  const settings = resolveSessionOptions(options);
  const { store = storage?.store } = options;
  if (store === undefined)
    throw mismatch(
      "options.store",
      "set, since sessions are stored there",
      store,
      "Set it, or session options.store.",
    );
  checkMethods("options.store", store, ["readSession", "writeSession"]);
  return await openSession({ sessionId, store, settings, clock, ids });
}

/**
 * Returns the session of a new run. Throws `invalid_argument`, `invalid_state` or `session_conflict`.
 */
export function startRunSession(session: Session): RunSession {
  const writer = getSessionWriter("start options.session", session);
  writer.assertReady();
  const { id: sessionId, version, settings } = writer;
  return new RunSession({ ...settings, sessionId, version }, writer);
}

/** Facts about a continuing run that its session needs. */
export interface SessionRun {
  readonly runId: RunId;
  readonly session?: SessionRef | undefined;
  /**
   * Execution of its root that was in progress when its process crashed. `undefined` if the root
   * had settled.
   */
  readonly cutOffId: ExecutionId | undefined;
}

/**
 * Returns the session of a run that continues. Throws `invalid_argument`, `invalid_state` or
 * `session_conflict`.
 */
export function resumeRunSession(
  { session: ref, runId, cutOffId }: SessionRun,
  session: Session | undefined,
  { storage, clock, ids }: SessionMeans,
): RunSession | undefined {
  const field = "resume options.session";
  if (session === undefined) {
    if (ref === undefined) return undefined;
    if (storage !== undefined) return new RunSession(ref, { store: storage.store, clock, ids });
    const expected = `session ${JSON.stringify(ref.sessionId)}, on which the run was started`;
    throw mismatch(
      field,
      expected,
      session,
      "Pass that session, or set the store of the orchestrator.",
    );
  }
  const writer = getSessionWriter(field, session);
  if (ref?.sessionId !== session.id) {
    const expected = ref === undefined ? "left out" : `session ${JSON.stringify(ref.sessionId)}`;
    throw mismatch(field, expected, session, `See how ${runId} was started.`);
  }
  writer.assertReady();
  const isWritten = cutOffId !== undefined && hasExecution(writer.record, cutOffId);
  if (writer.version !== ref.version && !isWritten)
    throw createSessionMovedError(ref, writer.version);
  return new RunSession(ref, writer);
}
