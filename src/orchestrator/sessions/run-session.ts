// RunSession: the session of a run. Owns the outcome of saving it. The session is written once,
// when the root has ended. The write expects the version at the start of the run, also after a
// pause in another process.

import { EspalierError } from "../../kernel/error.ts";
import { serializeError } from "../../agent/serialize-error.ts";
import { collectAddedMessages, createStoredMessages } from "../../agent/message-tags.ts";
import type { RunId } from "../../protocol/ids.ts";
import type { Usage } from "../../protocol/usage.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import { openSession, type SessionPlace, type SessionWriter } from "./session-writer.ts";
import { hasExecution, type SessionHistory } from "./session-changes.ts";
import type { SessionSettings } from "./session-options.ts";
import type { SessionOutcome } from "./session-outcome.ts";
import type { SessionRef } from "./session-ref.ts";
import { parseMessageStepNumber, type SessionExecution } from "./session-record.ts";

export class RunSession {
  readonly #source: SessionWriter | SessionPlace;
  #ref: SessionRef;
  #outcome: SessionOutcome | undefined;
  #isHolding = false;

  /**
   * Creates the session of a run. `source` is the handle that the run was given, or the place where
   * the session can be found again.
   */
  constructor(ref: SessionRef, source: SessionWriter | SessionPlace) {
    this.#ref = ref;
    this.#source = source;
  }

  get settings(): SessionSettings {
    return this.#ref;
  }

  /**
   * Begins or continues the run. No other user may use the handle until the run has settled. Throws
   * like `SessionWriter.begin`.
   */
  begin(runId: RunId): void {
    if ("begin" in this.#source) this.#source.begin(`run ${runId}`);
    this.#isHolding = true;
  }

  /** Messages with which the root begins, besides its instructions. */
  get opening(): SessionHistory | undefined {
    return "opening" in this.#source ? this.#source.opening : undefined;
  }

  /** Reference to the session, for the run that continues. */
  get ref(): SessionRef {
    return this.#ref;
  }

  get outcome(): SessionOutcome {
    const { sessionId, version } = this.#ref;
    const open = { status: "open", execution: undefined, error: undefined } as const;
    return this.#outcome ?? { sessionId, version, ...open };
  }

  /** Adds the root's messages if the root has ended, and releases the session. Never rejects. */
  async save(root: AgentRuntime, usage: Usage): Promise<void> {
    try {
      const outcome = await this.#store(root, usage);
      this.#outcome = outcome;
      if (outcome?.status === "saved") this.#ref = { ...this.#ref, version: outcome.version };
    } finally {
      this.release();
    }
  }

  /** Releases the session, unless it is released already. */
  release(): void {
    if (this.#isHolding && "release" in this.#source) this.#source.release();
    this.#isHolding = false;
  }

  async #store(root: AgentRuntime, usage: Usage): Promise<SessionOutcome | undefined> {
    const { settled, identity } = root;
    const execution = createExecution(root, usage, this.settings);
    if (settled === undefined || execution === undefined) return undefined;
    const messages = createStoredMessages(settled.conversation, identity.agentId).filter(
      ({ role, note }) => role !== "system" && note !== "boundary",
    );
    const writer = await this.#openWriter(execution);
    return "status" in writer ? writer : await writer.add(execution, messages);
  }

  /** Returns the session as the run knew it. Rejects if it no longer exists. */
  async #openWriter(execution: SessionExecution): Promise<SessionWriter | SessionOutcome> {
    if ("release" in this.#source) return this.#source;
    const { sessionId, version } = this.#ref;
    const missed = { sessionId, version, execution };
    try {
      const writer = await openSession({ ...this.#source, sessionId, settings: this.settings });
      const isSame = writer.version === version;
      if (isSame || hasExecution(writer.record, execution.executionId)) return writer;
      const conflict = createSessionMovedError(this.#ref, writer.version);
      return { ...missed, status: "conflict", error: serializeError(conflict) };
    } catch (cause) {
      return { ...missed, status: "failed", error: serializeError(cause) };
    }
  }
}

/** Returns the error for a session that another process has written. */
export function createSessionMovedError(
  { sessionId, version }: SessionRef,
  storedVersion: number,
): EspalierError {
  return new EspalierError({
    code: "session_conflict",
    message: `Cannot save session ${JSON.stringify(sessionId)}: expected version ${version}, got version ${storedVersion}. Another run has written it. Call merge(result) on the session to add the messages of this run.`,
    data: { sessionId, expected: version, found: storedVersion },
  });
}

function createExecution(
  { settled, identity, role }: AgentRuntime,
  usage: Usage,
  { failedExecutionPolicy }: SessionSettings,
): SessionExecution | undefined {
  if (settled === undefined || settled.status === "paused") return undefined;
  const { status, reason, executionId, conversation, log, telemetry } = settled;
  const { agentId, runId } = identity;
  const replied = collectAddedMessages(conversation, agentId).flatMap((message) =>
    message.role === "assistant" && message.executionId === executionId
      ? [parseMessageStepNumber(message)]
      : [],
  );
  const endedAtMs = telemetry.endedAtMs ?? 0;
  return {
    executionId,
    agentId,
    runId,
    role: role.name,
    status,
    reason,
    startedAtMs: telemetry.startedAtMs ?? endedAtMs,
    endedAtMs,
    stepCount: log.steps.length,
    repliedSteps: replied,
    usage,
    isRemoved: status === "failed" && failedExecutionPolicy === "remove",
  };
}
