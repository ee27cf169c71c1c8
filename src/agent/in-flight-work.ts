// InFlightWork: the work that an agent had begun in the phase in which its process died. Owns the
// work that has not been taken yet.
//
// D2. Completed work is taken from here instead of being repeated. A phase that is repeated finds
//     it by name.

import { stringifyCanonical } from "../kernel/json.ts";
import type { LeaseOutcome } from "../budget/lease.ts";
import type { EventPosition } from "./agent-identity.ts";
import type { Deferral } from "./agent-state.ts";
import type { MessageContent } from "../protocol/message-content.ts";
import type { EventBody } from "../protocol/event.ts";
import type { AgentId, CallId, LeaseId } from "../protocol/ids.ts";
import type { StopSignal } from "../protocol/stop.ts";

/** An operation of a call on a subagent of the agent. */
export interface ChildOperation {
  readonly callId: CallId;
  readonly childId: AgentId;
  /** The message sent to the subagent. Absent if the call cancelled it. */
  readonly text?: string;
}

/** A subagent that was started or continued in the phase. */
export interface InFlightChild {
  readonly childId: AgentId;
  /** `null` if the subagent works on a subtask. */
  readonly callId: CallId | null;
  /** Index among the delegations of the call, or among the subtasks. */
  readonly nth: number;
}

/** The granted lease of a model call. */
export type GivenLease = Extract<LeaseOutcome, { readonly type: "granted" }>;

/** Recorded work by kind. Each entry is taken at most once. */
export class InFlightWork {
  /** Outcomes of effects, by effect name. */
  readonly outcomes = new Map<string, unknown>();
  /** Calls that had begun and must not be repeated. */
  readonly unrepeatable = new Set<string>();
  /** Number of tool calls that were charged. */
  chargedCalls = 0;
  children: InFlightChild[] = [];
  /** Subagents whose results were returned by completed calls. */
  readonly reportedAgentIds = new Set<AgentId>();
  /** Tool calls that waited for an answer or for a paused subagent. They continue to wait. */
  readonly deferrals = new Map<CallId, Deferral>();
  /** Tool calls that have ended. */
  readonly endedCallIds = new Set<CallId>();
  /** Leases of completed model calls, by effect name. */
  readonly leases = new Map<string, GivenLease>();
  /** Leases in `leases` whose usage was already charged. */
  readonly settledIds = new Set<LeaseId>();
  /** Operations on subagents by calls that have not ended. */
  operations: ChildOperation[] = [];
  /** Stop requests that are not in the agent's log. */
  signals: readonly StopSignal[] = [];
  /** Messages to the agent that are not in its history. */
  messages: readonly MessageContent[] = [];
  /** Number of recorded events of the agent, by fingerprint. */
  readonly #recorded = new Map<string, number>();

  /** Counts a recorded event of the agent by its fingerprint. */
  noteRecorded(fingerprint: string): void {
    this.#recorded.set(fingerprint, (this.#recorded.get(fingerprint) ?? 0) + 1);
  }

  /** Returns and removes the outcome of an effect. `undefined` if it is unknown. */
  takeOutcome(name: string): unknown {
    const known = this.outcomes.get(name);
    this.outcomes.delete(name);
    return known;
  }

  /** True while completed or unrepeatable work is not yet back in the state. */
  get hasWork(): boolean {
    const { outcomes, deferrals, children, unrepeatable, leases } = this;
    const count = outcomes.size + deferrals.size + children.length;
    return count + unrepeatable.size + leases.size > 0;
  }

  /** Returns and removes the deferral of a call. `undefined` if the call was not deferred. */
  takeDeferral(callId: CallId): Deferral | undefined {
    const known = this.deferrals.get(callId);
    this.deferrals.delete(callId);
    return known;
  }

  /** Returns true if the next tool call was already charged, and uses up that charge. */
  takeCharge(): boolean {
    if (this.chargedCalls === 0) return false;
    this.chargedCalls -= 1;
    return true;
  }

  /** Returns and removes the lease of a model call. `undefined` if that call has not ended. */
  takeLease(name: string): GivenLease | undefined {
    const known = this.leases.get(name);
    this.leases.delete(name);
    return known;
  }

  /**
   * True while recorded subtasks from before the step, or its model call, are not yet back in the
   * state.
   */
  get hasWorkBeforeStep(): boolean {
    return this.leases.size > 0 || this.hasChildOf(null);
  }

  /** Returns true if a call had already performed the operation, which must not be repeated. */
  takeOperation({ callId, childId, text }: ChildOperation): boolean {
    const isMatch = (operation: ChildOperation): boolean =>
      operation.callId === callId && operation.childId === childId && operation.text === text;
    return takeFirst(this.operations, isMatch) !== undefined;
  }

  /** Returns true if the event was recorded before the crash, and must not be recorded again. */
  takeRecorded(body: EventBody, position: EventPosition | undefined): boolean {
    const fingerprint = createEventFingerprint(body, position);
    const count = this.#recorded.get(fingerprint) ?? 0;
    if (count > 0) this.#recorded.set(fingerprint, count - 1);
    return count > 0;
  }

  /**
   * True if a call had started subagents that are not adopted yet. Without `nth`, any subagent of
   * the call counts.
   */
  hasChildOf(callId: CallId | null, nth?: number): boolean {
    return this.children.some(
      (child) => child.callId === callId && (nth === undefined || child.nth === nth),
    );
  }

  /** Returns and removes the subagent that a call had started or continued as its `nth`. */
  takeChild(callId: CallId | null, nth: number): AgentId | undefined {
    const isMatch = (child: InFlightChild): boolean => child.callId === callId && child.nth === nth;
    return takeFirst(this.children, isMatch)?.childId;
  }
}

/** Removes and returns the first match, or `undefined` without a match. */
export function takeFirst<T>(list: T[], isMatch: (item: T) => boolean): T | undefined {
  const at = list.findIndex(isMatch);
  return at === -1 ? undefined : list.splice(at, 1)[0];
}

/**
 * Returns the identity of an event, by which a repeated event is recognised. For an event about a
 * lease only its type and lease id count, because a lease is settled once, whatever the remaining
 * budget is.
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
