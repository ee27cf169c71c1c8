// InFlightWork: what an agent had begun in the phase in which its process died, according to its journal. Owns what of it is not taken yet.
// D2. What has come to an end is taken from here instead of being done again; a phase that is done once more finds it by its name.

import { canonicalJson } from "../../kernel/json.ts";
import type { LeaseOutcome } from "../../agent/account-view.ts";
import type { ChildOperation } from "../../agent/agent-effects.ts";
import type { EventBody } from "../../protocol/event.ts";
import type { AgentId, CallId, LeaseId, StepId } from "../../protocol/ids.ts";
import type { StopSignal } from "../../protocol/stop.ts";

/** A subagent that was started, or continued, in the phase. */
export interface InFlightChild {
  readonly childId: AgentId;
  /** Null: it works on a subtask. */
  readonly callId: CallId | null;
  /** Which of the delegations of the call it is, or which of the subtasks. */
  readonly nth: number;
}

/** The lease of a model call that has ended. `isSettled`: what the call used is booked. */
export interface PersistedGrant {
  readonly grant: Extract<LeaseOutcome, { readonly type: "granted" }>;
  readonly isSettled: boolean;
}

/** Where in an execution an event belongs. */
interface RecordedPosition {
  readonly stepId?: StepId | null;
  readonly callId?: CallId | null;
}

export interface InFlightFacts {
  /** What effects came to, by their names. */
  readonly outcomes: ReadonlyMap<string, unknown>;
  /** Calls that had begun and must not be repeated. */
  readonly begun: ReadonlySet<string>;
  /** Tool calls that were charged. */
  readonly chargedCalls: number;
  /** Fingerprints of the events of the agent, each as often as it was recorded. */
  readonly recorded: readonly string[];
  readonly children: readonly InFlightChild[];
  /** Subagents whose results calls that have ended gave to the agent. */
  readonly reportedIds: ReadonlySet<AgentId>;
  /** Tool calls that have ended. */
  readonly over: ReadonlySet<CallId>;
  /** The leases of model calls that have ended, by the names of their effects. */
  readonly leases: ReadonlyMap<string, PersistedGrant>;
  /** What calls that have not ended have done to subagents. */
  readonly operations: readonly ChildOperation[];
  /** Stop requests that are not in its log. */
  readonly signals: readonly StopSignal[];
  /** What was written to it and is not in its history. */
  readonly messages: readonly string[];
}

export class InFlightWork {
  readonly facts: InFlightFacts;
  readonly #outcomes: Map<string, unknown>;
  readonly #recorded = new Map<string, number>();
  #children: readonly InFlightChild[];
  #chargedCalls: number;
  #operations: readonly ChildOperation[];
  readonly #begun: Set<string>;
  readonly #leases: Map<string, PersistedGrant>;

  constructor(facts: InFlightFacts) {
    this.facts = facts;
    this.#outcomes = new Map(facts.outcomes);
    for (const print of facts.recorded)
      this.#recorded.set(print, (this.#recorded.get(print) ?? 0) + 1);
    this.#children = facts.children;
    this.#chargedCalls = facts.chargedCalls;
    this.#operations = facts.operations;
    this.#begun = new Set(facts.begun);
    this.#leases = new Map(facts.leases);
  }

  /** What an effect of this name came to; undefined: nothing is known. */
  outcome(name: string): unknown {
    const known = this.#outcomes.get(name);
    this.#outcomes.delete(name);
    return known;
  }

  /** True while something that had come to an end, or that must not be done twice, is not in the state again. */
  get isUnderWay(): boolean {
    return this.#outcomes.size + this.#children.length + this.#begun.size + this.#leases.size > 0;
  }

  /** True if a call that must not be repeated had begun. */
  takeBegun(name: string): boolean {
    return this.#begun.delete(name);
  }

  /** True if the end of a tool call is known. */
  isOver(callId: CallId): boolean {
    return this.facts.over.has(callId);
  }

  /** True if the next tool call is charged already. */
  takeCharge(): boolean {
    if (this.#chargedCalls === 0) return false;
    this.#chargedCalls -= 1;
    return true;
  }

  /** The lease of the model call of this name, if that has ended. */
  takeLease(name: string): PersistedGrant["grant"] | undefined {
    const known = this.#leases.get(name);
    this.#leases.delete(name);
    return known?.grant;
  }

  /** True while that holds for what goes before a step, or for its model call. */
  get isBeforeStep(): boolean {
    return this.#leases.size > 0 || this.hasChildOf(null);
  }

  /** True if what a model call used was booked before the process died. */
  isSettled(leaseId: LeaseId): boolean {
    return [...this.facts.leases.values()].some(
      ({ grant, isSettled }) => isSettled && grant.lease.leaseId === leaseId,
    );
  }

  /** True if a call had done this before: it is not done twice. */
  takeOperation({ callId, childId, text }: ChildOperation): boolean {
    const known = this.#operations.find(
      (act) => act.callId === callId && act.childId === childId && act.text === text,
    );
    this.#operations = this.#operations.filter((act) => act !== known);
    return known !== undefined;
  }

  /** True if the event was recorded before the crash: it must not be emitted twice (E3). */
  takeRecorded(body: EventBody, place: RecordedPosition | undefined): boolean {
    const print = fingerprint(body, {
      stepId: place?.stepId ?? null,
      callId: place?.callId ?? null,
    });
    const count = this.#recorded.get(print) ?? 0;
    if (count > 0) this.#recorded.set(print, count - 1);
    return count > 0;
  }

  /** Subagents that were not adopted again yet. */
  get childIds(): readonly AgentId[] {
    return this.#children.map(({ childId }) => childId);
  }

  /** True if a call had started subagents that were not adopted again yet. `nth`: left out, any of them. */
  hasChildOf(callId: CallId | null, nth?: number): boolean {
    return this.#children.some(
      (child) => child.callId === callId && (nth === undefined || child.nth === nth),
    );
  }

  /** The subagent that a call had started, or let continue, as its `nth`. */
  takeChild(callId: CallId | null, nth: number): AgentId | undefined {
    const known = this.#children.find((child) => child.callId === callId && child.nth === nth);
    this.#children = this.#children.filter((child) => child !== known);
    return known?.childId;
  }
}

/**
 * The identity of an event, by which it is known when it is emitted again. What becomes of a lease is recorded once, whatever is left then,
 * and so is the end of an execution, of which early releases recorded less.
 */
export function fingerprint(
  body: object,
  { stepId, callId }: { readonly stepId: unknown; readonly callId: unknown },
): string {
  return canonicalJson([essence(body), stepId, callId]);
}

function essence(body: object): unknown {
  if (!("type" in body)) return body;
  if ("leaseId" in body) return [body.type, body.leaseId];
  return body.type === "agent.ended" ? body.type : body;
}
