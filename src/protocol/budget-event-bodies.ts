// The bodies of events about budgets, by their type. Part of `EventBodies`.

import type { AccountGrant } from "./account.ts";
import type { LeaseId } from "./ids.ts";
import type { ModelUsage, Usage } from "./usage.ts";

/** The content of each event about a budget, by its type. Part of `EventBodies`. */
export interface BudgetEventBodies {
  /**
   * A model call waits until calls in flight give budget back: before its first request, or before
   * another attempt. The wait ends with `budget.reserved`, `budget.denied` or `budget.dequeued`.
   */
  readonly "budget.queued": {
    /** The agent whose budget lacks room. */
    readonly accountPath: string;
  };
  /**
   * A wait for budget is over: of another attempt, or of a further call that a hook makes of one
   * step. Also of a first request, if its agent had to end during the wait.
   */
  readonly "budget.dequeued": {
    /** `cancelled`: the agent, or the hook that asked for the call, ended during the wait. */
    readonly outcome: "granted" | "refused" | "cancelled";
  };
  /** A model call has its lease: room for its input and its output, of the agent's account and of all above it. */
  readonly "budget.reserved": {
    /** The lease. */
    readonly leaseId: LeaseId;
    /** Room for the input of the call, as it was counted. */
    readonly inputTokens: number;
    /** Room for the output: the cap of the call. */
    readonly maxOutputTokens: number;
    /** Milliseconds in which it waited until other calls gave room back. */
    readonly waitedMs: number;
  };
  /** A model call is over, with a reply or without: what it used is charged, and the rest of its lease is back. */
  readonly "budget.settled": {
    /** The lease. */
    readonly leaseId: LeaseId;
    /** What was charged, also to every ancestor. */
    readonly usage: Usage;
    /** Part of `usage`: of other models of a fallback than the first. */
    readonly otherModels?: readonly ModelUsage[] | undefined;
    /** Left to this agent after the settlement. Limited axes only. */
    readonly remaining: Readonly<Record<string, number>>;
    /** Left to the whole run after the settlement. Limited axes only. */
    readonly runRemaining: Readonly<Record<string, number>>;
    /** Set if it was under way when its process died: its end is unknown. Which model was asked. */
    readonly lostCall?: Pick<ModelUsage, "provider" | "model"> | undefined;
  };
  /** A lease went back unused: the agent stopped before the call. */
  readonly "budget.released": {
    /** The lease. */
    readonly leaseId: LeaseId;
  };
  /** A model call does not fit what is left of a budget on the path: the agent gets no lease. */
  readonly "budget.denied": {
    /** The axis of that budget. Amounts are in its unit: tokens, US dollars, milliseconds. */
    readonly axis: keyof AccountGrant["budget"];
    /** The ancestor whose limit refused. */
    readonly accountPath: string;
    /** The limit of the ancestor. */
    readonly maximum: number;
    /** What of it is spent. */
    readonly spent: number;
    /** The amount that the call requested. */
    readonly requested: number;
    /** The part of the rest that the ancestor keeps for its own answer. */
    readonly reserve?: number | undefined;
  };
  /** So much of a limit is spent: of the account of the agent that the event is about. Once for each threshold of each limit. */
  readonly "budget.threshold_reached": {
    /** The axis of the limit. Amounts are in its unit: tokens, US dollars, milliseconds. */
    readonly axis: keyof AccountGrant["budget"];
    /** The agent whose limit it is. */
    readonly accountPath: string;
    /** A part of the limit: 0.8 or 0.95. */
    readonly threshold: number;
    /** What of it is spent. */
    readonly spent: number;
    /** The limit. */
    readonly maximum: number;
  };
  /** Limits of an account were raised while the tree ran or stood. */
  readonly "budget.granted": {
    /** The agent whose limits were raised. */
    readonly accountPath: string;
    /** What was added. */
    readonly budget: AccountGrant["budget"];
    /** Who granted it, in the words of the caller. */
    readonly by: string;
    /** Left to the agent afterwards. Limited axes only. */
    readonly remaining: Readonly<Record<string, number>>;
  };
}
