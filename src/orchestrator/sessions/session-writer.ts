// SessionWriter: the implementation of a session handle. Owns the record that it last read or
// wrote, with its version.
//
// A session has one user at a time: a run, or a change by the caller.
//
// Every write contains the version on which it is based. A handle that finds another version
// changes nothing and is stale: nothing starts with it until it is read again.
//
// An execution is in a session once, even if it is added again because the acknowledgement was
// lost.

import { mismatch, describeReceived } from "../../kernel/argument-checks.ts";
import type { Clock } from "../../kernel/clock.ts";
import { EspalierError, getErrorMessage } from "../../kernel/error.ts";
import type { IdSource } from "../../kernel/id-source.ts";
import { isRecord } from "../../kernel/json.ts";
import { serializeError } from "../../agent/serialize-error.ts";
import { SessionIdSchema, type SessionId } from "../../protocol/ids.ts";
import type { ImportedMessage, StoredMessage } from "../../protocol/message.ts";
import type { Usage } from "../../protocol/usage.ts";
import type { SessionStore } from "../../store/session-store.ts";
import type { Session, SessionForkOptions } from "./session.ts";
import {
  collectBoundaries,
  clearHistory,
  addExecution,
  hasExecution,
  mergeExecution,
  buildSessionHistory,
  removeExecution,
  type ExecutionBoundary,
  type SessionHistory,
} from "./session-changes.ts";
import { readSessionId, checkSessionForkOptions, type SessionSettings } from "./session-options.ts";
import { SessionResultSchema, type SessionOutcome, type SessionResult } from "./session-outcome.ts";
import {
  createEmptyRecord,
  readSessionRecord,
  type SessionExecution,
  type SessionFork,
  type SessionRecord,
} from "./session-record.ts";

/** Id and store of a session. */
export interface SessionPlace {
  readonly store: SessionStore;
  readonly clock: Clock;
  readonly ids: IdSource;
}

/** Dependencies of a writer. */
export interface WriterParts extends SessionPlace {
  readonly sessionId: SessionId;
  readonly settings: SessionSettings;
}

/** A session with its version in the store, or 0 if it is not stored yet. */
interface SessionVersion {
  readonly record: SessionRecord;
  readonly version: number;
}

/** Maximum number of concurrent writes after which `merge` retries. */
const MOST_ATTEMPTS = 10;

/**
 * Reads a session, or returns a new one that is not in its store yet. Rejects like `readStored`.
 */
export async function openSession(parts: WriterParts): Promise<SessionWriter> {
  return new SessionWriter(parts, await readStored(parts));
}

export class SessionWriter implements Session {
  readonly id: SessionId;
  readonly settings: SessionSettings;
  readonly #parts: WriterParts;
  #stored: SessionVersion;
  #isStale = false;
  /** Present user of the session, in words. */
  #work: string | undefined;

  constructor(parts: WriterParts, stored: SessionVersion) {
    this.id = parts.sessionId;
    this.settings = parts.settings;
    this.#parts = parts;
    this.#stored = stored;
  }

  get record(): SessionRecord {
    return this.#stored.record;
  }

  get version(): number {
    return this.#stored.version;
  }

  get messages(): readonly StoredMessage[] {
    return this.record.messages;
  }

  get executions(): readonly SessionExecution[] {
    return this.record.executions;
  }

  get boundaries(): readonly ExecutionBoundary[] {
    return collectBoundaries(this.record).slice(0, -1);
  }

  get executionCount(): number {
    return this.record.executionCount;
  }

  get usage(): Usage {
    return this.record.usage;
  }

  get forkedFrom(): SessionFork | undefined {
    return this.record.forkedFrom;
  }

  get opening(): SessionHistory {
    return buildSessionHistory(this.record, this.settings.showBoundaries);
  }

  /**
   * Throws `invalid_state` while the session is in use, and `session_conflict` if it is known to be
   * stale.
   */
  assertReady(): void {
    this.#assertFree();
    if (!this.#isStale) return;
    const { id: sessionId } = this;
    throw new EspalierError({
      code: "session_conflict",
      message: `Cannot use session ${JSON.stringify(sessionId)}: version ${this.version} was not saved. Call reload(), or merge(result) to add the messages of a run.`,
      data: { sessionId, version: this.version },
    });
  }

  #assertFree(): void {
    if (this.#work === undefined) return;
    const { id: sessionId } = this;
    throw new EspalierError({
      code: "invalid_state",
      message: `Cannot use session ${JSON.stringify(sessionId)}: it is in use by ${this.#work}. Await that first.`,
      data: { sessionId, usedBy: this.#work },
    });
  }

  /**
   * Reserves the session for a run until `release`, or until the run has added its messages. Throws
   * like `assertReady`.
   */
  begin(work: string): void {
    this.assertReady();
    this.#work = work;
  }

  release(): void {
    this.#work = undefined;
  }

  /** Adds an execution to the session as it was when the execution began. Never rejects. */
  async add(
    execution: SessionExecution,
    messages: readonly StoredMessage[],
  ): Promise<SessionOutcome> {
    const { version: before } = this;
    const createOutcome = (status: SessionOutcome["status"], cause?: unknown): SessionOutcome => ({
      sessionId: this.id,
      status,
      version: this.version,
      execution,
      error: cause === undefined ? undefined : serializeError(cause),
    });
    if (hasExecution(this.record, execution.executionId)) return createOutcome("saved");
    try {
      const next = addExecution(this.record, execution, messages);
      this.#stored = await writeStored(this.#parts, next, before);
      return createOutcome("saved");
    } catch (cause) {
      if (await this.#hasArrived(execution)) return createOutcome("saved");
      this.#isStale = true;
      const isConflict = EspalierError.is(cause) && cause.code === "session_conflict";
      return createOutcome(isConflict ? "conflict" : "failed", cause);
    }
  }

  /**
   * Returns true if the store has the execution although the write failed, because its
   * acknowledgement was lost. It is not added again.
   */
  async #hasArrived({ executionId }: SessionExecution): Promise<boolean> {
    try {
      const stored = await readStored(this.#parts);
      if (!hasExecution(stored.record, executionId)) return false;
      this.#stored = stored;
      return true;
    } catch {
      return false;
    }
  }

  async merge(result: SessionResult): Promise<void> {
    const parsed = SessionResultSchema().safeParse(result);
    if (!parsed.success || parsed.data.session.sessionId !== this.id)
      throw mismatch(
        "merge(result)",
        `the result of a run of session ${JSON.stringify(this.id)} that has ended`,
        result,
        "Await run.result.",
      );
    const { session, newMessages } = structuredClone(parsed.data);
    await this.#use("a merge", async () => {
      for (let attempt = 1; ; attempt += 1) {
        const stored = await readStored(this.#parts);
        const next = mergeExecution(stored.record, session.execution, newMessages);
        if (next === stored.record) return stored;
        try {
          return await writeStored(this.#parts, next, stored.version);
        } catch (cause) {
          const isConflict = EspalierError.is(cause) && cause.code === "session_conflict";
          if (!isConflict || attempt === MOST_ATTEMPTS) throw cause;
        }
      }
    });
  }

  async reload(): Promise<void> {
    await this.#use("a reload", () => readStored(this.#parts));
  }

  async remove(executionId: string): Promise<void> {
    await this.#change("a removal", (record) => removeExecution(record, executionId));
  }

  async clear(): Promise<void> {
    await this.#change("a clear", clearHistory);
  }

  async importMessages(messages: readonly ImportedMessage[]): Promise<void> {
    const { importMessages } = await import("./session-import.ts");
    const next = importMessages(this.record, messages, this.#parts.ids);
    await this.#use("an import", () => writeStored(this.#parts, next, 0));
  }

  /**
   * Writes the session that `change` returns. Rejects like `assertReady` and `writeStored`, and
   * with errors of `change`.
   */
  async #change(work: string, change: (record: SessionRecord) => SessionRecord): Promise<void> {
    this.assertReady();
    const next = change(this.record);
    await this.#use(work, async () => {
      try {
        return await writeStored(this.#parts, next, this.version);
      } catch (cause) {
        this.#isStale = true;
        throw cause;
      }
    });
  }

  async fork(options: SessionForkOptions = {}): Promise<Session> {
    checkSessionForkOptions(options);
    const { executionId, atStep } = options;
    const { clock, ids } = this.#parts;
    const sessionId =
      options.sessionId === undefined
        ? SessionIdSchema().parse(ids.next("session"))
        : readSessionId("fork options.sessionId", options.sessionId);
    const point = { sessionId, executionId, atStep };
    const { forkSession: forked } = await import("./session-fork.ts");
    const record = forked(this.record, point, { ids, nowMs: clock.nowMs() });
    const stored = await writeStored(this.#parts, record, 0);
    return new SessionWriter({ ...this.#parts, sessionId }, stored);
  }

  /** Works on the session, and takes over the record that the work returns. */
  async #use(work: string, read: () => Promise<SessionVersion>): Promise<void> {
    this.#assertFree();
    this.#work = work;
    try {
      this.#stored = await read();
      this.#isStale = false;
    } finally {
      this.#work = undefined;
    }
  }
}

/** Returns the writer behind a handle. Throws `invalid_argument` for any other value. */
export function getSessionWriter(field: string, session: unknown): SessionWriter {
  if (session instanceof SessionWriter) return session;
  const advice =
    session instanceof Promise ? "Await it." : "Get it from orchestrator.openSession().";
  throw mismatch(field, "a session", session, advice);
}

// Reading and writing. An error that a store throws becomes an error of espalier.

/** Rejects with `store_failed`, `unsupported_version` or `invalid_session`. */
async function readStored({ store, sessionId, clock }: WriterParts): Promise<SessionVersion> {
  const stored: unknown = await callStore(sessionId, () => store.readSession(sessionId));
  if (stored === undefined)
    return { record: createEmptyRecord(sessionId, clock.nowMs()), version: 0 };
  if (!isRecord(stored))
    throw createResponseError(sessionId, `returned ${describeReceived(stored)}`);
  const { version, body } = stored;
  if (!isVersion(version))
    throw createResponseError(sessionId, `returned version ${describeReceived(version)}`);
  return { record: readSessionRecord(sessionId, body), version };
}

/**
 * Writes a session and returns it with its new version. Rejects with `store_failed`, or with
 * `session_conflict` if the version in the store differs.
 */
async function writeStored(
  { store }: SessionPlace,
  record: SessionRecord,
  expectedVersion: number,
): Promise<SessionVersion> {
  const { sessionId } = record;
  const body = JSON.stringify(record);
  const version: unknown = await callStore(sessionId, () =>
    store.writeSession(sessionId, expectedVersion, body),
  );
  if (!isVersion(version))
    throw createResponseError(sessionId, `returned version ${describeReceived(version)}`);
  return { record, version };
}

function isVersion(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value > 0;
}

async function callStore<Answer>(
  sessionId: SessionId,
  ask: () => Promise<Answer>,
): Promise<Answer> {
  try {
    return await ask();
  } catch (cause) {
    if (EspalierError.is(cause)) throw cause;
    throw createResponseError(sessionId, `threw: ${getErrorMessage(cause)}`, cause);
  }
}

function createResponseError(
  sessionId: SessionId,
  problem: string,
  cause?: unknown,
): EspalierError {
  return new EspalierError({
    code: "store_failed",
    message: `Cannot read or write session ${JSON.stringify(sessionId)}: the store ${problem}. Check the store.`,
    data: { sessionId, reason: "other", isTransient: false },
    ...(cause === undefined ? {} : { cause }),
  });
}
