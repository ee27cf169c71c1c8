// InFlightWork: the work that an agent had begun in the phase in which its process died. Owns the part that is not taken yet.
// D2. What has come to an end is taken from here instead of being done again; a phase that is done once more finds it by its name.

import { stringifyCanonical } from "../kernel/json.ts";
import type { LeaseOutcome } from "../budget/lease.ts";
import type { EventPosition } from "./agent-identity.ts";
import type { MessageContent } from "../protocol/message-content.ts";
import type { EventBody } from "../protocol/event.ts";
import type { AgentId, CallId, LeaseId } from "../protocol/ids.ts";
import type { StopSignal } from "../protocol/stop.ts";

/** What a call has done to a subagent of the agent. */
export interface ChildOperation {
  readonly callId: CallId;
  readonly childId: AgentId;
  /** What it wrote; undefined: it cancelled it. */
  readonly text?: string;
}

/** A subagent that was started, or continued, in the phase. */
export interface InFlightChild {
  readonly childId: AgentId;
  /** Null: it works on a subtask. */
  readonly callId: CallId | null;
  /** Which of the delegations of the call it is, or which of the subtasks. */
  readonly nth: number;
}

/** The lease of a model call, as it was given. */
export type GivenLease = Extract<LeaseOutcome, { readonly type: "granted" }>;

/** Everything here is taken at most once. */
export class InFlightWork {
  /** What effects came to, by their names. */
  readonly outcomes = new Map<string, unknown>();
  /** Calls that had begun and must not be repeated. */
  readonly begun = new Set<string>();
  /** Tool calls that were charged. */
  chargedCalls = 0;
  children: InFlightChild[] = [];
  /** Subagents whose results calls that have ended gave to the agent. */
  readonly reportedAgentIds = new Set<AgentId>();
  /** Tool calls that have ended. */
  readonly over = new Set<CallId>();
  /** The leases of model calls that have ended, by the names of their effects. */
  readonly leases = new Map<string, GivenLease>();
  /** Those of them of which what the call used is booked. */
  readonly settledIds = new Set<LeaseId>();
  /** What calls that have not ended have done to subagents. */
  operations: ChildOperation[] = [];
  /** Stop requests that are not in its log. */
  signals: readonly StopSignal[] = [];
  /** What was written to it and is not in its history. */
  messages: readonly MessageContent[] = [];
  /** Fingerprints of the events of the agent, and how often each was recorded. */
  readonly #recorded = new Map<string, number>();

  /** An event of the agent with this fingerprint was recorded. */
  noteRecorded(print: string): void {
    this.#recorded.set(print, (this.#recorded.get(print) ?? 0) + 1);
  }

  /** What an effect of this name came to; undefined: nothing is known. */
  outcome(name: string): unknown {
    const known = this.outcomes.get(name);
    this.outcomes.delete(name);
    return known;
  }

  /** True while something that had ended, or must not be done twice, is not yet back in the state. */
  get isUnderWay(): boolean {
    const { outcomes, children, begun, leases } = this;
    return outcomes.size + children.length + begun.size + leases.size > 0;
  }

  /** True if the next tool call is charged already. */
  takeCharge(): boolean {
    if (this.chargedCalls === 0) return false;
    this.chargedCalls -= 1;
    return true;
  }

  /** The lease of the model call of this name, if that has ended. */
  takeLease(name: string): GivenLease | undefined {
    const known = this.leases.get(name);
    this.leases.delete(name);
    return known;
  }

  /** The same for what comes before a step, or for its model call. */
  get isBeforeStep(): boolean {
    return this.leases.size > 0 || this.hasChildOf(null);
  }

  /** True if a call had done this before: it is not done twice. */
  takeOperation({ callId, childId, text }: ChildOperation): boolean {
    const isIt = (operation: ChildOperation): boolean =>
      operation.callId === callId && operation.childId === childId && operation.text === text;
    return takeFirst(this.operations, isIt) !== undefined;
  }

  /** True if the event was recorded before the crash: it must not be recorded twice. */
  takeRecorded(body: EventBody, position: EventPosition | undefined): boolean {
    const print = createEventFingerprint(body, position);
    const count = this.#recorded.get(print) ?? 0;
    if (count > 0) this.#recorded.set(print, count - 1);
    return count > 0;
  }

  /** True if a call had started subagents that were not adopted again yet. `nth`: left out, any of them. */
  hasChildOf(callId: CallId | null, nth?: number): boolean {
    return this.children.some(
      (child) => child.callId === callId && (nth === undefined || child.nth === nth),
    );
  }

  /** The subagent that a call had started or continued, as its `nth`. */
  takeChild(callId: CallId | null, nth: number): AgentId | undefined {
    const isIt = (child: InFlightChild): boolean => child.callId === callId && child.nth === nth;
    return takeFirst(this.children, isIt)?.childId;
  }
}

/** Takes out the first match; undefined: there is none. */
export function takeFirst<T>(list: T[], isIt: (one: T) => boolean): T | undefined {
  const at = list.findIndex(isIt);
  return at === -1 ? undefined : list.splice(at, 1)[0];
}

/**
 * The identity of an event, by which it is recognized when it is to be recorded again. What becomes of a lease is recorded once, whatever is left then.
 */
export function createEventFingerprint(
  body: object,
  { stepId = null, callId = null }: { readonly stepId?: unknown; readonly callId?: unknown } = {},
): string {
  return stringifyCanonical([getComparisonKey(body), stepId, callId]);
}

function getComparisonKey(body: object): unknown {
  return "type" in body && "leaseId" in body ? [body.type, body.leaseId] : body;
}
