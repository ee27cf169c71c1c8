// RunJournal: writes the records of a run's agents. Owns the last written state of each.

import { nextTick } from "node:process";
import type { AgentState } from "../../agent/agent-state.ts";
import type { Persistence } from "../../agent/persistence.ts";
import { diffJson } from "../../kernel/json-delta.ts";
import { waitForTurnEnd } from "../../kernel/throttle.ts";
import type { EspalierEvent } from "../../protocol/event.ts";
import type { LedgerAccount } from "../../protocol/account.ts";
import type { AgentId } from "../../protocol/ids.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import { createAgentRecord, getPersistedTask } from "./agent-record.ts";
import type { JournalWriter } from "./journal.ts";
import type { JournalRecord } from "./journal-record.ts";
import type { InFlightWork } from "../../agent/in-flight-work.ts";
import type { RestoredAgent } from "./restored-run.ts";
import { INTERRUPTED } from "../../agent/tool-calls/call-outcome.ts";

interface Created {
  readonly account: LedgerAccount;
  readonly isBackground: boolean;
  /** Index of the delegation within its call, from 0; for a subtask, its place in the queue. */
  readonly nth?: number;
}

/**
 * Creates the effects of an agent. `inFlight` contains its effects in flight when its process
 * crashed.
 */
export type MakeEffects = (
  journal: RunJournal,
  agent: AgentRuntime,
  inFlight: InFlightWork | undefined,
) => Persistence;

export interface KeepingOptions {
  /** Creates the effects of an agent. */
  readonly effects: MakeEffects;
  /** `false` if no agent ends by the clock. */
  readonly hasDeadlines: boolean;
}

/** Implements `EventJournal` for an `EventRecorder`. */
export class RunJournal {
  /** Journal that persists the records. */
  readonly writer: JournalWriter;
  readonly #options: KeepingOptions;
  readonly #states = new Map<AgentId, object>();
  /** Effects in flight of restored agents that have no effects yet. */
  readonly #inFlight = new Map<AgentId, InFlightWork>();
  /** True while the synchronous continuation of the last record runs. */
  #isInTurn = false;
  readonly #endTurn = (): void => {
    this.#isInTurn = false;
  };
  /** Number of model calls and user functions in progress, except while they wait for a slot. */
  #workCount = 0;
  #rest: (() => void) | undefined;

  constructor(writer: JournalWriter, options: KeepingOptions) {
    this.writer = writer;
    this.#options = options;
  }

  append(record: JournalRecord): void {
    this.writer.append(
      !this.#isInTurn && isExternalRequest(record) ? { ...record, isApart: true } : record,
    );
    if (this.#isInTurn) return;
    this.#isInTurn = true;
    // A tick that is requested in a microtask runs after all microtasks: the continuation of this
    // record has run by then.
    queueMicrotask(() => nextTick(this.#endTurn));
  }

  /** Records that a model call or a user function begins. */
  beginWork(): void {
    this.#workCount += 1;
  }

  /** Records that a model call or a user function has ended and its outcome is recorded. */
  endWork(): void {
    this.#workCount -= 1;
    if (this.#workCount === 0) this.#rest?.();
  }

  /** Resolves once no model call or user function is in progress. */
  async whenIdle(): Promise<void> {
    await waitForTurnEnd(); // Work that may begin does so before this point.
    if (this.#workCount === 0) return;
    const idle = Promise.withResolvers<void>();
    this.#rest = idle.resolve;
    await idle.promise;
  }

  /** Records an event of the run. */
  emit(event: EspalierEvent): void {
    this.append({ type: "event", event: { ...event } });
  }

  get hasGivenUp(): boolean {
    return this.writer.hasGivenUp;
  }

  /** Records the creation of an agent, with its account. */
  recordCreation(node: AgentRuntime, { nth = 0, ...recorded }: Created): void {
    this.append({ type: "agent", agent: createAgentRecord(node), nth, ...recorded });
    this.save(node, "born", node.currentState);
  }

  /** Records that an agent that had ended begins another execution. */
  recordContinuation(node: AgentRuntime, isBackground: boolean, nth = 0): void {
    const { identity, execution, facts } = node;
    const { spawnCallId = null, spawnStepId = null } = facts;
    const { agentId, executionId } = identity;
    this.append({
      type: "execution",
      agentId,
      executionId,
      execution,
      task: getPersistedTask(node),
      spawnCallId,
      spawnStepId,
      isBackground,
      nth,
    });
    this.save(node, "born", node.currentState);
  }

  /** Records the state at the end of a phase. */
  recordPhase(node: AgentRuntime, phase: string, state: AgentState): void {
    this.save(node, phase, state);
    if (phase === "decide" && !hasInterruptedCall(state)) this.writer.noteProgress();
  }

  /**
   * Records the changes of an agent's state, and the number of external messages that the agent has
   * read since its state was last saved.
   */
  save({ identity: { agentId }, mailbox }: AgentRuntime, phase: string, state: AgentState): void {
    const letters = mailbox?.takeLetterCount() ?? 0;
    if (letters > 0) this.append({ type: "read", agentId, letters });
    const delta = diffJson(this.#states.get(agentId), state);
    this.#states.set(agentId, state);
    if (delta !== undefined) this.append({ type: "state", agentId, phase, delta });
  }

  /**
   * Records that a deadline was reached. Returns `false` in a replay, in which the recorded
   * deadline ends the agent, not the clock.
   */
  recordDeadline(agentId: AgentId, deadlineAtMs: number): boolean {
    const { hasDeadlines } = this.#options;
    if (hasDeadlines) this.append({ type: "deadline", agentId, deadlineAtMs });
    return hasDeadlines;
  }

  /**
   * Notes a restored agent, whose state is written already, in the journal or in the paused run.
   */
  noteRestored({ agentId, state, persistedState = state, inFlight }: RestoredAgent): void {
    this.#states.set(agentId, persistedState);
    if (inFlight !== undefined) this.#inFlight.set(agentId, inFlight);
  }

  /** Returns the persistence of an agent's effects. */
  createPersistence(agent: AgentRuntime): Persistence {
    const { agentId } = agent.identity;
    const inFlight = this.#inFlight.get(agentId);
    this.#inFlight.delete(agentId);
    return this.#options.effects(this, agent, inFlight);
  }
}

/**
 * Returns true if a crash interrupted a call of the last step: completing such a step is not
 * progress.
 */
function hasInterruptedCall({ log }: AgentState): boolean {
  const { executions = [] } = log.steps.at(-1)?.tools ?? {};
  return executions.some(({ errorCode }) => errorCode === INTERRUPTED.errorCode);
}

/** Request of the caller or the clock to the run. */
export type ExternalRequest = Extract<JournalRecord, { isApart?: true }>;

export function isExternalRequest(record: JournalRecord): record is ExternalRequest {
  if (record.type === "ledger") return record.done.operation === "grant";
  return EXTERNAL_REQUESTS.has(record.type);
}

const EXTERNAL_REQUESTS: ReadonlySet<string> = new Set([
  "cancel",
  "deadline",
  "letter",
  "pause",
  "skip",
  "stop",
]);
