// RunJournal: what is written of one run's agents, and by whom. Owns the last state that was written of each.

import { nextTick } from "node:process";
import type { AgentState } from "../../agent/agent-state.ts";
import type { AgentEffects } from "../../agent/agent-effects.ts";
import { deltaOf } from "../../kernel/json-delta.ts";
import type { EventSink } from "../../protocol/event-sink.ts";
import type { Account } from "../../protocol/account.ts";
import type { AgentId } from "../../protocol/ids.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import { agentRecord } from "./agent-record.ts";
import type { JournalWriter } from "./journal.ts";
import type { JournalRecord } from "./journal-record.ts";
import type { InFlightWork } from "./in-flight.ts";

interface Created {
  readonly account: Account;
  readonly isBackground: boolean;
  /** Which of the delegations of its call it is, from 0; of a subtask: its place in the queue. */
  readonly nth?: number;
}

/** `inFlight`: what the agent had begun when its process died. */
export type MakeEffects = (
  journal: RunJournal,
  agent: AgentRuntime,
  inFlight: InFlightWork | undefined,
) => AgentEffects;

export interface KeepingOptions {
  /** Makes the effects of an agent. */
  readonly effects: MakeEffects;
  /** False: no agent ends by the clock. */
  readonly hasDeadlines: boolean;
}

export class RunJournal {
  readonly #journal: JournalWriter;
  readonly #options: KeepingOptions;
  readonly #states = new Map<AgentId, object>();
  /** Of agents that are restored and have no effects yet. */
  readonly #inFlight = new Map<AgentId, InFlightWork>();
  /** What follows from the last record at once is under way. */
  #isInTurn = false;

  constructor(journal: JournalWriter, options: KeepingOptions) {
    this.#journal = journal;
    this.#options = options;
  }

  append(record: JournalRecord): void {
    this.#journal.append(
      !this.#isInTurn && isExternalRequest(record) ? { ...record, isApart: true } : record,
    );
    if (this.#isInTurn) return;
    this.#isInTurn = true;
    // A tick that is asked for out of a microtask comes after all microtasks: what follows from this record at once has happened by then.
    queueMicrotask(() => nextTick(() => (this.#isInTurn = false)));
  }

  /** Rejects when nothing can be kept any more. */
  get broken(): Promise<never> {
    return this.#journal.broken;
  }

  /** Resolves once the store has given the right to write, never if it does not; undefined: it has. */
  claimed(): Promise<void> | undefined {
    return this.#journal.claimed();
  }

  /** Keeps all events of the run. */
  get sink(): EventSink {
    return { take: (event) => this.append({ type: "event", event: { ...event } }) };
  }

  /** An agent was created, with its account. */
  created(node: AgentRuntime, { nth = 0, ...recorded }: Created): void {
    this.append({ type: "agent", agent: agentRecord(node), nth, ...recorded });
    this.#save(node, "born", node.currentState);
  }

  /** An agent that had ended begins a further execution. */
  continued(node: AgentRuntime, isBackground: boolean, nth = 0): void {
    const { identity, execution, task, spawnCallId = null, spawnStepId = null } = node;
    const { agentId, executionId } = identity;
    this.append({
      type: "execution",
      agentId,
      executionId,
      execution,
      task,
      spawnCallId,
      spawnStepId,
      isBackground,
      nth,
    });
    this.#save(node, "born", node.currentState);
  }

  /** A phase of an agent is over, and this is what it left. Messages that it took in it are read with it. */
  phaseOver(node: AgentRuntime, phase: string, state: AgentState): void {
    const letters = node.mailbox?.countTaken() ?? 0;
    if (letters > 0) this.append({ type: "read", agentId: node.identity.agentId, letters });
    this.#save(node, phase, state);
  }

  /** A model call is to be made: the step that it opens is over at some time, whatever happens (L4). */
  stepOpened(node: AgentRuntime, state: AgentState): void {
    this.#save(node, "open", state);
  }

  #save({ identity: { agentId } }: AgentRuntime, phase: string, state: AgentState): void {
    const delta = deltaOf(this.#states.get(agentId), state);
    this.#states.set(agentId, state);
    if (delta !== undefined) this.append({ type: "state", agentId, phase, delta });
  }

  /** What is known to be written of an agent already: the state in which a paused run has it. */
  knows(agentId: AgentId, state: AgentState): void {
    this.#states.set(agentId, state);
  }

  /** False: the agent does not end by the clock, but when it is asked to. */
  deadlineReached(agentId: AgentId, deadlineAtMs: number): boolean {
    const { hasDeadlines } = this.#options;
    if (hasDeadlines) this.append({ type: "deadline", agentId, deadlineAtMs });
    return hasDeadlines;
  }

  /** Resolves once all that has happened so far is kept. */
  kept(): Promise<void> {
    return this.#journal.kept();
  }

  /** Takes nothing more: the run stops where it is. */
  abandon(): void {
    this.#journal.abandon();
  }

  async close(status: "paused" | "ended"): Promise<void> {
    await this.#journal.close(status);
  }

  /** An agent is to be restored that had begun something when its process died. */
  restoring(agentId: AgentId, inFlight: InFlightWork): void {
    this.#inFlight.set(agentId, inFlight);
  }

  /** The effects of an agent, as they are kept. */
  effectsOf(agent: AgentRuntime): AgentEffects {
    const { agentId } = agent.identity;
    const inFlight = this.#inFlight.get(agentId);
    this.#inFlight.delete(agentId);
    return this.#options.effects(this, agent, inFlight);
  }
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
