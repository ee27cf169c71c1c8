// A fixture with a store for sessions, and the functions that tests of sessions share.

import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import type { OrchestratorOptions } from "../../src/orchestrator/tree/orchestrator-settings.ts";
import type { Session } from "../../src/orchestrator/sessions/session.ts";
import type { SessionOptions } from "../../src/orchestrator/sessions/session-options.ts";
import {
  AgentIdSchema,
  CallIdSchema,
  ExecutionIdSchema,
  createMessageId,
  createStepId,
  type SessionId,
} from "../../src/protocol/ids.ts";
import type { Message, StoredMessage } from "../../src/protocol/message.ts";
import { memoryStore } from "../../src/store/memory-store.ts";
import type { Store } from "../../src/store/store.ts";
import type { SessionStore, StoredSession } from "../../src/store/session-store.ts";
import { EspalierError } from "../../src/kernel/error.ts";
import { newFixture, type Fixture } from "../harness/run-scripted.ts";
import { forwarding } from "./journal/forwarding-store.ts";

/** A store of sessions that tests can inspect and disturb. */
export class SessionShelf implements SessionStore {
  readonly shelf = new Map<string, StoredSession>();
  /** Called before each write; may throw. */
  beforeWrite: (sessionId: string) => void | Promise<void> = () => undefined;
  /** Called after each write; may throw, and then the answer is lost. */
  afterWrite: (sessionId: string) => void = () => undefined;
  writes = 0;

  readSession(sessionId: SessionId): Promise<StoredSession | undefined> {
    return Promise.resolve(this.shelf.get(sessionId));
  }

  async writeSession(sessionId: SessionId, expected: number, body: string): Promise<number> {
    this.writes += 1;
    await this.beforeWrite(sessionId);
    const found = this.shelf.get(sessionId)?.version ?? 0;
    if (found !== expected)
      throw new EspalierError({
        code: "session_conflict",
        message: `Expected version ${expected}, got ${found}. Read it again.`,
        data: { expected, found },
      });
    this.shelf.set(sessionId, { version: found + 1, body });
    this.afterWrite(sessionId);
    return found + 1;
  }

  listSessions(): Promise<readonly SessionId[]> {
    return Promise.resolve([]);
  }

  removeSession(sessionId: SessionId): Promise<boolean> {
    return Promise.resolve(this.shelf.delete(sessionId));
  }

  /** Returns the stored text of a session. */
  bodyOf(sessionId: string): string {
    return this.shelf.get(sessionId)?.body ?? "";
  }
}

export interface SessionFixture extends Fixture {
  readonly shelf: SessionShelf;
  session(id?: string, options?: SessionOptions): Promise<Session>;
  /** Opens the same session as another process does. */
  elsewhere(id?: string, options?: SessionOptions): Promise<Session>;
}

export function newSessionFixture(options: OrchestratorOptions = {}): SessionFixture {
  const shelf = new SessionShelf();
  const s = newFixture(options);
  const session: SessionFixture["session"] = (id = "customer-42", more = {}) =>
    s.orchestrator.openSession(id, { store: shelf, ...more });
  const elsewhere: SessionFixture["elsewhere"] = (id = "customer-42", more = {}) =>
    new Orchestrator({ clock: s.clock }).openSession(id, { store: shelf, ...more });
  return { ...s, shelf, session, elsewhere };
}

/** Returns the messages of a history in short: `user Do it.`. */
export function said(messages: readonly StoredMessage[]): readonly string[] {
  return messages.map(({ role, text }) => `${role} ${text}`);
}

/** Returns the ids of messages and of their origins, in short. */
export function placesOf(messages: readonly StoredMessage[]): readonly string[] {
  return messages.map(
    ({ role, messageId, agentId, executionId, stepId = "-" }) =>
      `${role} ${messageId} ${agentId} ${executionId} ${stepId}`,
  );
}

/** Returns the code of the thrown error; undefined: nothing was thrown. */
export function codeOf(act: () => unknown): string | undefined {
  try {
    act();
    return undefined;
  } catch (thrown) {
    return EspalierError.is(thrown) ? thrown.code : String(thrown);
  }
}

/** Returns the code of the rejection; undefined: none. */
export async function rejectionOf(work: Promise<unknown>): Promise<string | undefined> {
  try {
    await work;
    return undefined;
  } catch (thrown) {
    return EspalierError.is(thrown) ? thrown.code : String(thrown);
  }
}

/** Returns a complete store whose sessions are those of the shelf. */
export function storeOf(shelf: SessionShelf): Store {
  return forwarding(memoryStore(), {
    readSession: (...asked) => shelf.readSession(...asked),
    writeSession: (...asked) => shelf.writeSession(...asked),
    listSessions: () => shelf.listSessions(),
    removeSession: (...asked) => shelf.removeSession(...asked),
  });
}

/** An execution of a hand-made history: the number of tasks, and of calls before each answer. */
export interface HandMade {
  readonly tasks: number;
  readonly callsEach?: number;
}

/** Returns a history with instructions and these executions: `execution_1`, `execution_2`, … */
export function historyOf(executions: readonly HandMade[]): readonly StoredMessage[] {
  const messages: Message[] = [{ role: "system", text: "Work.", origin: "instructions" }];
  const owners = ["execution_1"];
  for (const [index, { tasks, callsEach = 0 }] of executions.entries()) {
    for (let task = 1; task <= tasks; task += 1) {
      const callIds = Array.from({ length: callsEach }, (_, call) =>
        CallIdSchema().parse(`call_${index}_${task}_${call}`),
      );
      const toolCalls = callIds.map((callId) => ({
        callId,
        toolName: "search",
        argumentsText: "{}",
      }));
      messages.push({ role: "user", text: `Task ${task}`, origin: "task" });
      if (callsEach > 0) messages.push({ role: "assistant", text: "", toolCalls });
      for (const callId of callIds)
        messages.push({ role: "tool", callId, toolName: "search", text: "Found." });
      messages.push({ role: "assistant", text: `Answer ${task}`, toolCalls: [] });
    }
    while (owners.length < messages.length) owners.push(`execution_${index + 1}`);
  }
  return messages.map((message, index) => {
    const executionId = ExecutionIdSchema().parse(owners[index]);
    return {
      ...message,
      messageId: createMessageId(executionId, index + 1),
      agentId: AgentIdSchema().parse(`agent_of_${executionId}`),
      executionId,
      ...(message.role === "user" || message.role === "system"
        ? {}
        : { stepId: createStepId(executionId, 1) }),
    };
  });
}
