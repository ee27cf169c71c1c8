// FoldedAgent: an agent, folded from its journal records. Owns its state, and the effects since the
// last recorded phase.

import type { AgentState } from "../../agent/agent-state.ts";
import { parsePersistedState } from "../../agent/agent-snapshot.ts";
import { markStarted, pauseExecution } from "../../agent/transition.ts";
import { deepFreeze, isRecord, sameJson } from "../../kernel/json.ts";
import { applyDeltaInPlace } from "../../kernel/json-delta.ts";
import { CallEndSchema, type CallEnd } from "../../agent/effect-outcomes.ts";
import type { MessageContent } from "../../protocol/message-content.ts";
import type { AgentId, LeaseId } from "../../protocol/ids.ts";
import type { StopReason, StopSignal } from "../../protocol/stop.ts";
import { getChildName } from "../../agent/agent-identity.ts";
import type { BudgetAccount } from "../../budget/budget-account.ts";
import type { PersistedHold } from "../../budget/ledger-operation.ts";
import type { PausedAgent } from "./paused-run.ts";
import type { RestoredAgent } from "./restored-run.ts";
import type { RecordOf } from "./journal-record.ts";
import {
  createEventFingerprint,
  InFlightWork,
  type ChildOperation,
  takeFirst,
  type GivenLease,
} from "../../agent/in-flight-work.ts";

type CreatedAgent = RecordOf<"agent">["agent"];
type StoredEvent = RecordOf<"event">["event"];

/** Records that belong to one agent. */
export type OwnRecord = RecordOf<"state" | "effect" | "begun" | "signal" | "letter" | "read">;

type GivenHold = Pick<PersistedHold, "lease" | "waitedMs">;

/** Reason of the pause of an agent whose process crashed. */
const INTERRUPTED: StopReason = Object.freeze({
  code: "interrupted",
  message: "The process that ran the agent ended before the agent did.",
  data: {},
});

/** Facts about the run that is restored. */
interface RestoringRun {
  /** Leases that are not settled. */
  readonly openLeases: ReadonlySet<LeaseId>;
  readonly isLiving: (agentId: AgentId) => boolean;
}

export class FoldedAgent {
  #created: CreatedAgent;
  /** Mutated in place, and frozen at the end. */
  #state: unknown;
  #ordinals: Record<string, number> = {};
  /**
   * Start of the present execution, and for how long the clock had been paused by then. `undefined`
   * if it has not begun.
   */
  #started: { readonly atMs: number; readonly pausedMs: number } | undefined;
  /** Effects since the last recorded phase. */
  #work = new InFlightWork();
  /** Leases of the agent. */
  readonly #holds = new Map<LeaseId, GivenHold>();
  /** Leases after the last request of the agent. */
  readonly #unsent = new Set<LeaseId>();
  /** Events since the last phase, which are not emitted again. */
  #recorded: StoredEvent[] = [];
  #signals: StopSignal[] = [];
  #messages: MessageContent[] = [];

  constructor(created: CreatedAgent) {
    this.#created = created;
  }

  /** Creates an agent of a run that was paused before it had a journal. */
  static restore({ state, ordinals, ...created }: PausedAgent): FoldedAgent {
    const agent = new FoldedAgent(created);
    agent.#state = { ...state };
    agent.#ordinals = { ...ordinals };
    return agent;
  }

  get agentId(): AgentId {
    return this.#created.agentId;
  }

  get parentAgentId(): AgentId | null {
    return this.#created.parentAgentId;
  }

  detach(): void {
    this.#created = { ...this.#created, isDetached: true };
  }

  /** Records a subagent that a call, which may not have ended, has started or continued. */
  noteChild(
    child: FoldedAgent,
    { isNew, nth }: { readonly isNew: boolean; readonly nth: number },
  ): void {
    const { agentId: childId, agentPath, role, spawnCallId: callId } = child.#created;
    this.#work.children.push({ childId, callId, nth });
    if (!isNew) return;
    const number = Number(getChildName(agentPath).split("#").at(-1));
    this.#ordinals[role] = Math.max(this.#ordinals[role] ?? 0, number);
  }

  continueExecution(record: RecordOf<"execution">): void {
    const { type: _type, isBackground: _how, nth: _which, ...recorded } = record;
    this.#created = { ...this.#created, ...recorded, isDetached: false };
    this.#started = undefined;
    this.#recorded = [];
  }

  /**
   * Records the end of a phase, whose state contains its effects. Events of `prepare` are emitted
   * again when that phase is repeated.
   */
  #save({ phase, delta }: RecordOf<"state">): void {
    this.#state = applyDeltaInPlace(this.#state, delta);
    this.#work = new InFlightWork();
    if (phase !== "prepare" && phase !== "open") this.#recorded = [];
    if (phase !== "paused" && phase !== "ended") return;
    // An agent that settles receives no unread messages any more.
    this.#signals = [];
    this.#messages = [];
  }

  charge(): void {
    this.#work.chargedCalls += 1;
  }

  /** Adds a lease. */
  addHold(hold: GivenHold): void {
    this.#holds.set(hold.lease.leaseId, hold);
    this.#unsent.add(hold.lease.leaseId);
  }

  /** Returns false if the agent has sent no request since it got this lease. */
  hasSent(leaseId: LeaseId): boolean {
    return !this.#unsent.has(leaseId);
  }

  /** Records that a call has operated on a subagent. */
  noteOperation(operation: ChildOperation): void {
    this.#work.operations.push(operation);
  }

  take(record: OwnRecord): void {
    switch (record.type) {
      case "state":
        this.#save(record);
        return;
      case "effect":
        this.#work.outcomes.set(record.name, record.outcome);
        this.#noteLease(record);
        return;
      case "begun":
        this.#work.unrepeatable.add(record.name);
        return;
      case "signal":
        this.#signals.push(record.signal);
        return;
      case "letter":
        this.#messages.push(record.text);
        return;
      case "read":
        this.#messages.splice(0, record.letters);
    }
  }

  #noteLease({ name, leaseId }: RecordOf<"effect">): void {
    const hold = leaseId === undefined ? undefined : this.#holds.get(leaseId);
    if (hold !== undefined) this.#work.leases.set(name, convertLease(hold));
  }

  takeEvent(event: StoredEvent, account: Pick<BudgetAccount, "pausedMsAt">): void {
    if (event.type === "model.requested") this.#unsent.clear();
    if (event.type === "agent.started") {
      const atMs = Math.floor(event.atMs);
      this.#started = { atMs, pausedMs: account.pausedMsAt(atMs) };
    }
    // The loop has read a stop request.
    if (event.type === "signal.raised")
      takeFirst(this.#signals, (requested) => sameJson(requested, event["signal"]));
    if (!isRecordedAgain(event)) this.#recorded.push(event);
  }

  /** Background subagents that were started by calls which have ended since. */
  get startedAgentIds(): readonly AgentId[] {
    return this.#ends.flatMap((end) => {
      if (end.type === "executed") return end.execution.startedAgentIds ?? [];
      return "startedAgentIds" in end.deferral ? (end.deferral.startedAgentIds ?? []) : [];
    });
  }

  /** Ends of calls that are not in the state. */
  get #ends(): readonly CallEnd[] {
    return [...this.#work.outcomes.values()].flatMap((outcome) => {
      const end = CallEndSchema().safeParse(outcome);
      return end.success ? [end.data] : [];
    });
  }

  /** Returns true if the model call under this lease has ended, and its end is not in the state. */
  hasEnded(leaseId: LeaseId): boolean {
    return [...this.#work.leases.values()].some(({ lease }) => lease.leaseId === leaseId);
  }

  /** False once the agent has ended. */
  get isLiving(): boolean {
    const status = isRecord(this.#state) ? this.#state["status"] : undefined;
    return status === "pending" || status === "running" || status === "paused";
  }

  /** Returns the agent as its journal leaves it. */
  toRestored({ openLeases, isLiving }: RestoringRun): RestoredAgent {
    const persisted = parsePersistedState(deepFreeze(this.#state));
    const inFlight = this.#work;
    const { outcomes, unrepeatable: begun, endedCallIds: over, leases } = inFlight;
    const continuing = new Set(this.startedAgentIds);
    for (const [name, outcome] of outcomes) {
      const end = CallEndSchema().safeParse(outcome).data;
      if (end?.type === "deferred") {
        // The call has not ended: it is resumed as after a pause, and may have begun since.
        const { deferral } = end;
        outcomes.delete(name);
        inFlight.deferrals.set(deferral.callId, deferral);
        if (deferral.type === "question") continue;
        over.add(deferral.callId);
        continuing.add(deferral.childId);
        continue;
      }
      begun.delete(name);
      if (end === undefined) continue;
      const { call, reportedAgentIds = [] } = end.execution;
      over.add(call.callId);
      for (const agentId of reportedAgentIds) inFlight.reportedAgentIds.add(agentId);
    }
    for (const { lease } of leases.values())
      if (!openLeases.has(lease.leaseId)) inFlight.settledIds.add(lease.leaseId);
    // A repeated call may have ended without a subagent that it started earlier. Nothing waits for
    // that subagent, so it stays in the list and is ended (T2).
    inFlight.children = inFlight.children.filter(
      ({ callId, childId }) =>
        callId === null || !over.has(callId) || (isLiving(childId) && !continuing.has(childId)),
    );
    inFlight.operations = inFlight.operations.filter(({ callId }) => !over.has(callId));
    inFlight.signals = this.#signals;
    inFlight.messages = this.#messages;
    for (const event of this.#recorded) inFlight.noteRecorded(fingerprintEvent(event));
    return {
      ...this.#created,
      ordinals: this.#ordinals,
      state: this.#buildSettledState(persisted),
      inFlight,
      persistedState: persisted,
    };
  }

  /**
   * Returns the state as a settled one. A state without events is started if its execution has
   * started, and a running state is paused.
   */
  #buildSettledState(persisted: AgentState): RestoredAgent["state"] {
    const [{ executionId }, started] = [this.#created, this.#started];
    const isBegun = persisted.status === "pending" && started !== undefined;
    const state = isBegun ? markStarted(persisted, { executionId, ...started }) : persisted;
    return state.status === "running" ? pauseExecution(state, INTERRUPTED) : state;
  }
}

/**
 * Returns true for events that are emitted again: `agent.resumed` always, and `message.delivered`
 * unless the state has the messages.
 */
function isRecordedAgain(event: StoredEvent): boolean {
  if (event.type === "message.delivered") return event["origin"] !== "subtask";
  return event.type === "agent.resumed";
}

function convertLease({ lease, waitedMs }: GivenHold): GivenLease {
  return { type: "granted", lease: lease, waitedMs };
}

const STAMPS = new Set([
  "seq",
  "atMs",
  "runId",
  "agentId",
  "parentAgentId",
  "agentPath",
  "depth",
  "executionId",
  "stepId",
  "callId",
  "traceId",
  "spanId",
]);

function fingerprintEvent(event: StoredEvent): string {
  const body = Object.fromEntries(Object.entries(event).filter(([key]) => !STAMPS.has(key)));
  return createEventFingerprint(body, { stepId: event["stepId"], callId: event["callId"] });
}
