// Session: the caller's handle on a history that root executions share. Owns nothing but its writer.

import { mismatch } from "../../kernel/check.ts";
import { SessionIdSchema, type SessionId } from "../../protocol/ids.ts";
import type { StoredMessage } from "../../protocol/message.ts";
import type { Usage } from "../../protocol/usage.ts";
import {
  boundariesOf,
  cleared,
  withoutExecution,
  type ExecutionBoundary,
} from "./session-changes.ts";
import type { SessionWriter } from "./session-writer.ts";
import {
  checkedSessionId,
  checkSessionForkOptions,
  type SessionForkOptions,
} from "./session-options.ts";
import { SessionResultSchema, type SessionResult } from "./session-outcome.ts";
import type { SessionExecution, SessionFork } from "./session-record.ts";

/**
 * Root executions, one after the other, that share a history. Made by `orchestrator.session`, and handed to `orchestrator.start`. It shows
 * the session as it was last read or written by this handle.
 */
export interface Session {
  readonly id: SessionId;
  /** One more with each write; 0: it is not in its store yet. */
  readonly version: number;
  /** The history, without instructions: what the next execution begins with, as far as the retention lets it. */
  readonly messages: readonly StoredMessage[];
  /** The records of its executions, oldest first; those whose messages are gone may be missing. */
  readonly executions: readonly SessionExecution[];
  /** The borders between executions in the history: where one ended and another one begins (R152). */
  readonly boundaries: readonly ExecutionBoundary[];
  /** Executions that it ever had. */
  readonly executionCount: number;
  /** What its executions consumed, with all their subagents. A fork begins with nothing. */
  readonly usage: Usage;
  /** Where it was forked from; undefined: nowhere. */
  readonly forkedFrom: SessionFork | undefined;
  /**
   * Another session that begins with the history of this one up to a step, under ids of its own; nothing is spent in it, and this one stays
   * as it was (R156, R157). It is written at once, and used with the same options.
   *
   * @throws EspalierError `invalid_option` for an execution or a step that there is not, or whose history is not there any more;
   * `session_conflict` if there is a session of that id; `store_failed`.
   */
  fork(options?: SessionForkOptions): Promise<Session>;
  /**
   * Takes over what its store has: after a `session_conflict`, or to see what others have added.
   *
   * @throws EspalierError `invalid_state` while something else uses it; what `orchestrator.session` throws.
   */
  reload(): Promise<void>;
  /**
   * Adds what a run has added that could not be saved, after whatever is in the store by now. If it is there already, nothing happens.
   *
   * @throws EspalierError `invalid_option` for a result that has nothing for this session; `invalid_state` while something else uses it;
   * `session_conflict` if others do not stop writing; what `orchestrator.session` throws.
   */
  merge(result: SessionResult): Promise<void>;
  /**
   * Takes out the messages of one execution, such as one that failed (R99). Its record stays.
   *
   * @throws EspalierError `invalid_option` for an execution that it does not have; `invalid_state` while something else uses it;
   * `session_conflict` if something else has written it; `store_failed`.
   */
  remove(executionId: string): Promise<void>;
  /**
   * Takes out all messages. What it consumed stays on record.
   *
   * @throws EspalierError like `remove`.
   */
  clear(): Promise<void>;
}

const writers = new WeakMap<object, SessionWriter>();

/** The handle that an orchestrator gives. */
export class LiveSession implements Session {
  readonly id: SessionId;
  readonly #writer: SessionWriter;

  constructor(writer: SessionWriter) {
    this.id = writer.parts.sessionId;
    this.#writer = writer;
    writers.set(this, writer);
  }

  get version(): number {
    return this.#writer.version;
  }

  get messages(): readonly StoredMessage[] {
    return this.#writer.record.messages;
  }

  get executions(): readonly SessionExecution[] {
    return this.#writer.record.executions;
  }

  get boundaries(): readonly ExecutionBoundary[] {
    return boundariesOf(this.#writer.record).slice(0, -1);
  }

  get executionCount(): number {
    return this.#writer.record.executionCount;
  }

  get usage(): Usage {
    return this.#writer.record.usage;
  }

  get forkedFrom(): SessionFork | undefined {
    return this.#writer.record.forkedFrom;
  }

  async fork(options: SessionForkOptions = {}): Promise<Session> {
    checkSessionForkOptions(options);
    const { executionId, atStep } = options;
    const { ids } = this.#writer.parts;
    const sessionId =
      options.sessionId === undefined
        ? SessionIdSchema.parse(ids.next("session"))
        : checkedSessionId("fork options.sessionId", options.sessionId);
    return new LiveSession(await this.#writer.fork({ sessionId, executionId, atStep }));
  }

  async reload(): Promise<void> {
    await this.#writer.reload();
  }

  async merge(result: SessionResult): Promise<void> {
    const parsed = SessionResultSchema.safeParse(result);
    if (!parsed.success || parsed.data.session.sessionId !== this.id)
      throw mismatch(
        "merge(result)",
        `the result of a run of session ${JSON.stringify(this.id)} that has ended`,
        result,
        "Await run.result.",
      );
    const { session, newMessages } = structuredClone(parsed.data);
    await this.#writer.merge(session.execution, newMessages);
  }

  async remove(executionId: string): Promise<void> {
    await this.#writer.change("a removal", (record) => withoutExecution(record, executionId));
  }

  async clear(): Promise<void> {
    await this.#writer.change("a clearing", cleared);
  }
}

/** What is behind a handle. Throws `invalid_option` for what is none. */
export function writerOf(field: string, session: unknown): SessionWriter {
  const writer = typeof session === "object" && session !== null ? writers.get(session) : undefined;
  if (writer !== undefined) return writer;
  const advice = session instanceof Promise ? "Await it." : "Take it from orchestrator.session().";
  throw mismatch(field, "a session", session, advice);
}
