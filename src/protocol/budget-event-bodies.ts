// Bodies of budget events, by type. Part of `EventBodies`.

import type { AccountGrant } from "./account.ts";
import type { LeaseId } from "./ids.ts";
import type { ModelUsage, Usage } from "./usage.ts";

/**
 * Maps each budget event type to the fields that events of this type have. Part of {@link
 * EventBodies}.
 *
 * @example
 * ```ts
 * for await (const event of run.events())
 *   if (event.type === "budget.refused")
 *     console.error(`${event.accountPath}: ${event.requested} ${event.axis} do not fit.`);
 * ```
 */
export interface BudgetEventBodies {
  /**
   * A model call waits until other calls release budget, before its first request or a further
   * attempt.
   *
   * The wait ends with `budget.reserved`, `budget.refused` or `budget.dequeued`.
   */
  readonly "budget.queued": {
    /** Path of the agent whose budget lacks room. */
    readonly accountPath: string;
  };
  /**
   * A wait for budget has ended, of a further attempt or of a further call by a hook.
   *
   * A first request has this event only if its agent had to end during the wait.
   */
  readonly "budget.dequeued": {
    /** Outcome of the wait. `cancelled` means that the agent or the hook ended during the wait. */
    readonly outcome: "granted" | "refused" | "cancelled";
  };
  /**
   * Budget was reserved for the input and output of a model call, on the agent's account and all
   * its ancestors'.
   */
  readonly "budget.reserved": {
    /** Id of the reservation. */
    readonly leaseId: LeaseId;
    /** Reserved input tokens. */
    readonly inputTokens: number;
    /** Reserved output tokens: the maximum output of the call. */
    readonly maxOutputTokens: number;
    /** Milliseconds that the call waited for other calls to release budget. */
    readonly waitedMs: number;
  };
  /**
   * A model call has ended. Its usage was charged, and the rest of the reservation released.
   *
   * @example
   * ```ts
   * for await (const event of run.events())
   *   if (event.type === "budget.settled")
   *     console.log(event.usage.costUsd, "left:", event.runRemaining.costUsd);
   * ```
   */
  readonly "budget.settled": {
    /** Id of the reservation. */
    readonly leaseId: LeaseId;
    /** Charged usage, also charged to every ancestor. */
    readonly usage: Usage;
    /** Part of `usage` by fallback models, without the first model. */
    readonly otherModels?: readonly ModelUsage[] | undefined;
    /**
     * Remaining budget of the agent by axis, in the units of `Budget`. Contains limited axes only.
     */
    readonly remaining: AccountGrant["budget"];
    /**
     * Remaining budget of the run by axis, in the units of `Budget`. Contains limited axes only.
     */
    readonly runRemaining: AccountGrant["budget"];
    /** Requested model, if the process died during the call and the usage is an estimate. */
    readonly lostCall?: Pick<ModelUsage, "provider" | "model"> | undefined;
  };
  /** A reservation was released unused, because the agent stopped before the call. */
  readonly "budget.released": {
    /** Id of the reservation. */
    readonly leaseId: LeaseId;
  };
  /** A model call exceeds the unspent budget of the agent or an ancestor, and is not made. */
  readonly "budget.refused": {
    /** Axis of the exceeded budget. All amounts are in its unit, as in `Budget`. */
    readonly axis: keyof AccountGrant["budget"];
    /** Path of the agent whose budget is exceeded. */
    readonly accountPath: string;
    /** Limit of that agent. */
    readonly maximum: number;
    /** Amount already spent. */
    readonly spent: number;
    /** Least amount that the call needs. It may have asked for a longer reply. */
    readonly requested: number;
    /** Amount that the ancestor reserves for its own answer. */
    readonly reserve?: number | undefined;
  };
  /**
   * An agent has spent a share of a limit. The event occurs once per threshold and limit.
   *
   * @example
   * ```ts
   * for await (const event of run.events())
   *   if (event.type === "budget.threshold_reached")
   *     console.warn(`${event.accountPath}: ${event.spent} of ${event.maximum} ${event.axis}`);
   * ```
   */
  readonly "budget.threshold_reached": {
    /** Axis of the limit. All amounts are in its unit, as in `Budget`. */
    readonly axis: keyof AccountGrant["budget"];
    /** Path of the agent whose limit it is. */
    readonly accountPath: string;
    /** Reached share of the limit: 0.8 or 0.95. */
    readonly threshold: number;
    /** Amount already spent. */
    readonly spent: number;
    /** Limit of the agent. */
    readonly maximum: number;
  };
  /** Limits of an account were raised, during the run or a pause. */
  readonly "budget.granted": {
    /** Path of the agent whose limits were raised. */
    readonly accountPath: string;
    /** Added budget by axis. */
    readonly budget: AccountGrant["budget"];
    /** Name of the grantor, as the caller passed it. */
    readonly by: string;
    /** Remaining budget of the agent after the grant. Contains limited axes only. */
    readonly remaining: AccountGrant["budget"];
  };
}
