// RunJournal: what is written of one run's agents. Owns the last state that was written of each.

import { nextTick } from "node:process";
import type { AgentState } from "../../agent/agent-state.ts";
import type { Persistence } from "../../agent/persistence.ts";
import { deltaOf } from "../../kernel/json-delta.ts";
import { endOfTurn } from "../../kernel/throttle.ts";
import type { EspalierEvent } from "../../protocol/event.ts";
import type { LedgerAccount } from "../../protocol/account.ts";
import type { AgentId } from "../../protocol/ids.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import { agentRecord, taskToKeep } from "./agent-record.ts";
import type { JournalWriter } from "./journal.ts";
import type { JournalRecord } from "./journal-record.ts";
import type { InFlightWork } from "../../agent/in-flight.ts";
import type { RestoredAgent } from "./restored-run.ts";
import { INTERRUPTED } from "../../agent/tool-calls/call-outcome.ts";

interface Created {
  readonly account: LedgerAccount;
  readonly isBackground: boolean;
  /** Which of the delegations of its call it is, from 0; of a subtask: its place in the queue. */
  readonly nth?: number;
}

/** `inFlight`: what the agent had begun when its process died. */
export type MakeEffects = (
  journal: RunJournal,
  agent: AgentRuntime,
  inFlight: InFlightWork | undefined,
) => Persistence;

export interface KeepingOptions {
  /** Makes the effects of an agent. */
  readonly effects: MakeEffects;
  /** False: no agent ends by the clock. */
  readonly hasDeadlines: boolean;
}

/** Fits where an `EventRecorder` takes its `EventJournal`. */
export class RunJournal {
  /** Keeps what is written. */
  readonly writer: JournalWriter;
  readonly #options: KeepingOptions;
  readonly #states = new Map<AgentId, object>();
  /** Of agents that are restored and have no effects yet. */
  readonly #inFlight = new Map<AgentId, InFlightWork>();
  /** True while what follows at once from the last record is under way. */
  #isInTurn = false;
  /** Model calls and functions that are under way; not those that wait for a slot. */
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
    // A tick that is asked for out of a microtask comes after all microtasks: what follows from this record at once has happened by then.
    queueMicrotask(() => nextTick(() => (this.#isInTurn = false)));
  }

  /** A model call, or a function of the user's, begins. */
  workBegins(): void {
    this.#workCount += 1;
  }

  /** One of them has ended, and what it came to is recorded. */
  workEnds(): void {
    this.#workCount -= 1;
    if (this.#workCount === 0) this.#rest?.();
  }

  /** Resolves once none of them is under way. */
  async whenIdle(): Promise<void> {
    await endOfTurn(); // What has learned that it may begin does so first.
    if (this.#workCount > 0) await new Promise<void>((resolve) => (this.#rest = resolve));
  }

  /** Records an event of the run. */
  emit(event: EspalierEvent): void {
    this.append({ type: "event", event: { ...event } });
  }

  get hasGivenUp(): boolean {
    return this.writer.hasGivenUp;
  }

  /** An agent was created, with its account. */
  created(node: AgentRuntime, { nth = 0, ...recorded }: Created): void {
    this.append({ type: "agent", agent: agentRecord(node), nth, ...recorded });
    this.save(node, "born", node.currentState);
  }

  /** An agent that had ended begins a further execution. */
  continued(node: AgentRuntime, isBackground: boolean, nth = 0): void {
    const { identity, execution, facts } = node;
    const { spawnCallId = null, spawnStepId = null } = facts;
    const { agentId, executionId } = identity;
    this.append({
      type: "execution",
      agentId,
      executionId,
      execution,
      task: taskToKeep(node),
      spawnCallId,
      spawnStepId,
      isBackground,
      nth,
    });
    this.save(node, "born", node.currentState);
  }

  /** A phase of an agent has ended with this state. */
  phaseOver(node: AgentRuntime, phase: string, state: AgentState): void {
    this.save(node, phase, state);
    if (phase === "decide" && !wasInterrupted(state)) this.writer.noteProgress();
  }

  /** Records what changed in the state of an agent, and how many messages from outside it has read since it was last saved. */
  save({ identity: { agentId }, mailbox }: AgentRuntime, phase: string, state: AgentState): void {
    const letters = mailbox?.takeLetterCount() ?? 0;
    if (letters > 0) this.append({ type: "read", agentId, letters });
    const delta = deltaOf(this.#states.get(agentId), state);
    this.#states.set(agentId, state);
    if (delta !== undefined) this.append({ type: "state", agentId, phase, delta });
  }

  /** False: a replay, in which the recorded deadline ends the agent, not the clock. */
  deadlineReached(agentId: AgentId, deadlineAtMs: number): boolean {
    const { hasDeadlines } = this.#options;
    if (hasDeadlines) this.append({ type: "deadline", agentId, deadlineAtMs });
    return hasDeadlines;
  }

  /** An agent is to be restored. Its state is written already: as the journal, or the paused run, has it. */
  restoring({ agentId, state, kept = state, inFlight }: RestoredAgent): void {
    this.#states.set(agentId, kept);
    if (inFlight !== undefined) this.#inFlight.set(agentId, inFlight);
  }

  /** What keeps the effects of an agent. */
  persistenceOf(agent: AgentRuntime): Persistence {
    const { agentId } = agent.identity;
    const inFlight = this.#inFlight.get(agentId);
    this.#inFlight.delete(agentId);
    return this.#options.effects(this, agent, inFlight);
  }
}

/** True if the last step has a call that a crash cut off: completing such a step is no progress. */
function wasInterrupted({ log }: AgentState): boolean {
  const { executions = [] } = log.steps.at(-1)?.tools ?? {};
  return executions.some(({ errorCode }) => errorCode === INTERRUPTED.errorCode);
}

/** What the caller or the clock asks of the run. */
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
