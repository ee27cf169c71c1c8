// SessionWriter: one handle on a session. Owns what is known of it, and the version that its store had then.
//
// N1. One thing at a time: a run, or a change by the caller.
// N2. Everything is written with the version that it was made for. Who finds another one there changes nothing, and knows from then on
//     that it is not up to date: nothing starts on it until it was read again.
// N3. An execution is in a session once, also if it is handed in again because the acknowledgement was lost.

import type { Clock } from "../../kernel/clock.ts";
import { EspalierError } from "../../kernel/error.ts";
import type { IdSource } from "../../kernel/id-source.ts";
import { errorRecord } from "../../agent/error-record.ts";
import type { SessionId } from "../../protocol/ids.ts";
import type { StoredMessage } from "../../protocol/message.ts";
import type { SessionStore } from "../../store/session-store.ts";
import { readStored, writeStored, type SessionVersion } from "./session-access.ts";
import {
  extended,
  hasExecution,
  merged,
  historyFor,
  type ExecutionHistory,
} from "./session-changes.ts";
import { forked, type ForkPoint } from "./session-fork.ts";
import type { SessionSettings } from "./session-options.ts";
import type { SessionOutcome } from "./session-outcome.ts";
import type { SessionExecution, SessionRecord } from "./session-record.ts";

/** What a writer needs. */
export interface WriterParts {
  readonly sessionId: SessionId;
  readonly store: SessionStore;
  readonly settings: SessionSettings;
  readonly clock: Clock;
  readonly ids: IdSource;
}

/** Writers that one `merge` gives way to. */
const MOST_ATTEMPTS = 10;

/** Reads a session, or makes one that is not in its store yet. Rejects like `readStored`. */
export async function openSession(parts: WriterParts): Promise<SessionWriter> {
  const { store, sessionId, clock } = parts;
  return new SessionWriter(parts, await readStored(store, sessionId, clock.nowMs()));
}

export class SessionWriter {
  readonly parts: WriterParts;
  #stored: SessionVersion;
  #isStale = false;
  /** What it is used for at the moment, in words. */
  #work: string | undefined;

  constructor(parts: WriterParts, kept: SessionVersion) {
    this.parts = parts;
    this.#stored = kept;
  }

  get record(): SessionRecord {
    return this.#stored.record;
  }

  get version(): number {
    return this.#stored.version;
  }

  get opening(): ExecutionHistory {
    return historyFor(this.record, this.parts.settings.showBoundaries);
  }

  /** Throws `invalid_state` while it is in use, and `session_conflict` if it is known not to be up to date. */
  assertReady(): void {
    const { sessionId } = this.parts;
    this.#assertFree();
    if (!this.#isStale) return;
    throw new EspalierError({
      code: "session_conflict",
      message: `Expected session ${JSON.stringify(sessionId)} to be up to date, got one that was not saved in version ${this.version}. Call reload(), or merge(result) to add what a run has added.`,
      data: { sessionId, version: this.version },
    });
  }

  #assertFree(): void {
    if (this.#work === undefined) return;
    const { sessionId } = this.parts;
    throw new EspalierError({
      code: "invalid_state",
      message: `Expected session ${JSON.stringify(sessionId)} to be free, got one that is used by ${this.#work}. One thing at a time: await it first.`,
      data: { sessionId, usedBy: this.#work },
    });
  }

  /** Is used by a run until `release`, or until it has added what it has to add. Throws like `assertReady`. */
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
    const { sessionId, store } = this.parts;
    const { version: before } = this;
    const outcome = (status: SessionOutcome["status"], cause?: unknown): SessionOutcome => ({
      sessionId,
      status,
      version: this.version,
      execution,
      error: cause === undefined ? undefined : errorRecord(cause),
    });
    if (hasExecution(this.record, execution.executionId)) return outcome("saved");
    try {
      this.#stored = await writeStored(store, extended(this.record, execution, messages), before);
      return outcome("saved");
    } catch (cause) {
      if (await this.#hasArrived(execution)) return outcome("saved");
      this.#isStale = true;
      const isConflict = EspalierError.is(cause) && cause.code === "session_conflict";
      return outcome(isConflict ? "conflict" : "failed", cause);
    }
  }

  /** True if the store has it all the same: its answer was lost (N3). */
  async #hasArrived({ executionId }: SessionExecution): Promise<boolean> {
    try {
      const kept = await this.#read();
      if (!hasExecution(kept.record, executionId)) return false;
      this.#stored = kept;
      return true;
    } catch {
      return false;
    }
  }

  /** Puts an execution after whatever is in the store. Rejects with `invalid_state`, or like `readStored` and `writeStored`. */
  async merge(execution: SessionExecution, added: readonly StoredMessage[]): Promise<void> {
    await this.#using("a merge", async () => {
      for (let attempt = 1; ; attempt += 1) {
        const kept = await this.#read();
        const next = merged(kept.record, execution, added);
        if (next === kept.record) return kept;
        try {
          return await writeStored(this.parts.store, next, kept.version);
        } catch (cause) {
          const isConflict = EspalierError.is(cause) && cause.code === "session_conflict";
          if (!isConflict || attempt === MOST_ATTEMPTS) throw cause;
        }
      }
    });
  }

  /** Takes over what the store has. Rejects with `invalid_state`, or like `readStored`. */
  async reload(): Promise<void> {
    await this.#using("a reload", () => this.#read());
  }

  /** Writes the session as `change` makes it. Rejects like `assertReady` and `writeStored`, and with what `change` throws. */
  async change(work: string, change: (record: SessionRecord) => SessionRecord): Promise<void> {
    this.assertReady();
    const next = change(this.record);
    await this.#using(work, async () => {
      try {
        return await writeStored(this.parts.store, next, this.version);
      } catch (cause) {
        this.#isStale = true;
        throw cause;
      }
    });
  }

  /** Another session, in the same store, that begins with a part of this one. Rejects with `invalid_option`, and like `writeStored`. */
  async fork(point: ForkPoint): Promise<SessionWriter> {
    const { clock, ids, store } = this.parts;
    const record = forked(this.record, point, { ids, nowMs: clock.nowMs() });
    const { sessionId } = point;
    return new SessionWriter({ ...this.parts, sessionId }, await writeStored(store, record, 0));
  }

  #read(): Promise<SessionVersion> {
    const { store, sessionId, clock } = this.parts;
    return readStored(store, sessionId, clock.nowMs());
  }

  /** What the work gives is what is known from then on. */
  async #using(work: string, read: () => Promise<SessionVersion>): Promise<void> {
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
