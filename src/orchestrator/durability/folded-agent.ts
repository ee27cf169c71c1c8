// FoldedAgent: one agent as its journal leaves it. Owns its state, and what it had begun since the last phase that was kept.

import type { AgentState } from "../../agent/agent-state.ts";
import type { ChildOperation } from "../../agent/agent-effects.ts";
import { CallEndSchema } from "../../agent/effect-outcomes.ts";
import { stateFromPersisted } from "../../agent/agent-snapshot.ts";
import { transition } from "../../agent/transition.ts";
import { deepFreeze, sameJson } from "../../kernel/json.ts";
import { changedBy } from "../../kernel/json-delta.ts";
import type { CallEnd } from "../../agent/effects.ts";
import type { AgentId, LeaseId } from "../../protocol/ids.ts";
import type { StopReason, StopSignal } from "../../protocol/stop.ts";
import { childNameOf } from "../../agent/agent-identity.ts";
import type { PersistedHold } from "../budget/ledger-operation.ts";
import type { PausedAgent } from "./paused-run.ts";
import type { RestoredAgent } from "./restored-run.ts";
import type { RecordOf } from "./journal-record.ts";
import { fingerprint, InFlightWork, type PersistedGrant, type InFlightChild } from "./in-flight.ts";

type CreatedAgent = RecordOf<"agent">["agent"];
type StoredEvent = RecordOf<"event">["event"];

/** What is written of one agent alone. */
export type OwnRecord = RecordOf<"state" | "effect" | "begun" | "signal" | "letter" | "read">;

/** Why an agent whose process died stands still. */
const INTERRUPTED: StopReason = Object.freeze({
  code: "interrupted",
  message: "The process that ran the agent ended before the agent did.",
  data: {},
});

export class FoldedAgent {
  #created: CreatedAgent;
  /** Changed in place, and frozen at the end. */
  #state: unknown;
  #children = 0;
  #ordinals: Record<string, number> = {};
  /** When its present execution began; undefined: it has not. */
  #startedAtMs: number | undefined;
  #outcomes = new Map<string, unknown>();
  #begun = new Set<string>();
  #chargedCalls = 0;
  #recorded: string[] = [];
  #inFlightChildren: InFlightChild[] = [];
  /** Leases that it was given, and those that its model calls were made with, by the names of their effects. */
  #leases = new Map<LeaseId, PersistedHold>();
  #leaseIds = new Map<string, LeaseId>();
  #operations: ChildOperation[] = [];
  #signals: StopSignal[] = [];
  #messages: string[] = [];

  constructor(created: CreatedAgent) {
    this.#created = created;
  }

  /** One of a run that had been paused before it had a journal. */
  static restored({ state, children, ordinals, ...created }: PausedAgent): FoldedAgent {
    const agent = new FoldedAgent(created);
    agent.#state = { ...state };
    agent.#children = children;
    agent.#ordinals = { ...ordinals };
    agent.#startedAtMs = created.startedAtMs;
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

  /** It started this one, or let it continue, by a call that may not have ended. */
  lead(
    child: FoldedAgent,
    { isNew, nth }: { readonly isNew: boolean; readonly nth: number },
  ): void {
    const { agentId: childId, agentPath, role, spawnCallId: callId } = child.#created;
    this.#inFlightChildren.push({ childId, callId, nth });
    if (!isNew) return;
    this.#children += 1;
    const number = Number(childNameOf(agentPath).split("#").at(-1));
    this.#ordinals[role] = Math.max(this.#ordinals[role] ?? 0, number);
  }

  continueExecution({
    executionId,
    execution,
    task,
    spawnCallId,
    spawnStepId,
  }: RecordOf<"execution">): void {
    const recorded = { executionId, execution, task, spawnCallId, spawnStepId };
    this.#created = { ...this.#created, ...recorded, isDetached: false };
    this.#startedAtMs = undefined;
    this.#recorded = [];
  }

  /** A phase is over: what it had begun is in the state. Events of prepare are emitted again when it is done once more. */
  #save({ phase, delta }: RecordOf<"state">): void {
    this.#state = changedBy(this.#state, delta);
    this.#outcomes = new Map();
    this.#begun = new Set();
    this.#chargedCalls = 0;
    this.#inFlightChildren = [];
    this.#leases = new Map();
    this.#leaseIds = new Map();
    this.#operations = [];
    if (phase !== "prepare" && phase !== "open") this.#recorded = [];
    if (phase !== "paused" && phase !== "ended") return;
    // An agent that settles gets nothing more of what it has not read.
    this.#signals = [];
    this.#messages = [];
  }

  charge(): void {
    this.#chargedCalls += 1;
  }

  /** It was given a lease. */
  hold(hold: PersistedHold): void {
    this.#leases.set(hold.lease.leaseId, hold);
  }

  /** A call of it has done something to a subagent. */
  act(act: ChildOperation): void {
    this.#operations.push(act);
  }

  take(record: OwnRecord): void {
    switch (record.type) {
      case "state":
        this.#save(record);
        return;
      case "effect":
        this.#outcomes.set(record.name, record.outcome);
        if (record.leaseId !== undefined) this.#leaseIds.set(record.name, record.leaseId);
        return;
      case "begun":
        this.#begun.add(record.name);
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

  takeEvent(event: StoredEvent): void {
    if (event.type === "agent.started") this.#startedAtMs = Math.floor(event.atMs);
    if (event.type === "signal.raised") this.#hear(event["signal"]);
    if (!isRecordedAgain(event)) this.#recorded.push(fingerprintOf(event));
  }

  /** The loop has taken a stop request. */
  #hear(signal: unknown): void {
    const at = this.#signals.findIndex((one) => sameJson(one, signal));
    if (at >= 0) this.#signals.splice(at, 1);
  }

  /** Subagents in the background that calls started which have ended since. */
  get startedIds(): readonly AgentId[] {
    return this.#ends.flatMap((end) =>
      end.type === "executed"
        ? (end.execution.startedIds ?? [])
        : "startedIds" in end.deferral
          ? (end.deferral.startedIds ?? [])
          : [],
    );
  }

  /** How calls ended that are not in the state. */
  get #ends(): readonly CallEnd[] {
    return [...this.#outcomes.values()].flatMap((outcome) => {
      const end = CallEndSchema.safeParse(outcome);
      return end.success ? [end.data] : [];
    });
  }

  /** True if the model call under this lease has ended, and its end is not in the state. */
  hasEnded(leaseId: LeaseId): boolean {
    return [...this.#leaseIds.values()].includes(leaseId);
  }

  /** The leases of model calls that have ended. `open`: those of the agent that are not settled. */
  #ended(open: readonly PersistedHold[]): ReadonlyMap<string, PersistedGrant> {
    const known = new Map([...open].map((hold) => [hold.lease.leaseId, hold] as const));
    return new Map(
      [...this.#leaseIds].flatMap(([name, leaseId]) => {
        const hold = known.get(leaseId) ?? this.#leases.get(leaseId);
        if (hold === undefined) return [];
        return [[name, { grant: grantOf(hold), isSettled: !known.has(leaseId) }] as const];
      }),
    );
  }

  /** The agent as it stands. `open`: leases of it that are not settled. */
  toRestored(open: readonly PersistedHold[]): RestoredAgent {
    const kept = stateFromPersisted(deepFreeze(this.#state));
    const state = this.#atRest(kept);
    const ends = this.#ends;
    const over = new Set(
      ends.map((end) => (end.type === "executed" ? end.execution.call : end.deferral).callId),
    );
    const reported = ends.flatMap((end) =>
      end.type === "executed" ? (end.execution.reportedIds ?? []) : [],
    );
    const inFlight = new InFlightWork({
      outcomes: this.#outcomes,
      begun: new Set([...this.#begun].filter((name) => !this.#outcomes.has(name))),
      chargedCalls: this.#chargedCalls,
      recorded: this.#recorded,
      children: this.#inFlightChildren.filter(({ callId }) => callId === null || !over.has(callId)),
      over,
      reportedIds: new Set(reported),
      leases: this.#ended(open),
      operations: this.#operations.filter(({ callId }) => !over.has(callId)),
      signals: this.#signals,
      messages: this.#messages,
    });
    return {
      ...this.#created,
      children: this.#children,
      ordinals: this.#ordinals,
      state,
      inFlight,
      kept,
    };
  }

  #atRest(kept: AgentState): RestoredAgent["state"] {
    const state = begun(kept, this.#created, this.#startedAtMs);
    if (state.status !== "running") return state;
    const paused = transition(state, { type: "pause", reason: INTERRUPTED });
    if (paused.status !== "paused") throw new TypeError("A pause pauses.");
    return paused;
  }
}

/** A state that nothing has happened to, though its execution has begun. */
function begun(
  state: AgentState,
  created: CreatedAgent,
  startedAtMs: number | undefined,
): AgentState {
  if (state.status !== "pending" || startedAtMs === undefined) return state;
  const { executionId } = created;
  return transition(state, { type: "markStarted", executionId, atMs: startedAtMs });
}

/** That an agent continues is emitted each time; that it has read its messages is persisted with the state in which it has. */
function isRecordedAgain({ type, ...event }: StoredEvent): boolean {
  return (
    type === "agent.resumed" || (type === "message.delivered" && event["origin"] !== "subtask")
  );
}

function grantOf({ lease, waitedMs }: PersistedHold) {
  return {
    type: "granted",
    lease: { ...lease, lastStep: lease.lastStep },
    waitedMs,
  } as const;
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

function fingerprintOf(event: StoredEvent): string {
  const body = Object.fromEntries(Object.entries(event).filter(([key]) => !STAMPS.has(key)));
  return fingerprint(body, { stepId: event["stepId"] ?? null, callId: event["callId"] ?? null });
}
