// Values that pass between an agent and its budget account: requests for leases, leases and
// refusals.

import type { ModelPrice } from "../model/model-price.ts";
import type { BudgetAxis, RefusalSchema } from "../protocol/account.ts";
import type { z } from "zod";
import type { AgentId, LeaseId } from "../protocol/ids.ts";
import type { LedgerOperation } from "./ledger-operation.ts";

/** The request for a model call: its counted input, and its output cap. */
export interface LeaseAsk {
  readonly inputTokens: number;
  /** Clamped to the least room on the path, in which at least `minOutputTokens` must fit. */
  readonly maxOutputTokens: number;
  /** The lowest output cap that the model accepts. Default 1. */
  readonly minOutputTokens?: number | undefined;
  readonly price: ModelPrice | undefined;
  /** 0 for a further attempt of a step that was already counted. Default 1. */
  readonly steps?: 0 | 1;
}

/**
 * The reservation for a model call. No call is made without a lease, which is settled or released
 * exactly once.
 */
export interface Lease {
  readonly leaseId: LeaseId;
  readonly inputTokens: number;
  readonly maxOutputTokens: number;
  /** Present if this is the last step that the budget allows at the moment. */
  readonly lastStep?: LastStep;
  /**
   * Number of the attempt for which the lease was extended, from 2. Absent for the first attempt.
   */
  readonly attempt?: number;
}

/** Limit of steps that is reached after a step. */
export interface LastStep {
  readonly accountPath: string;
  readonly maximum: number;
}

/**
 * Limit on the path whose unspent part is smaller than the least amount that the call needs, or
 * whose time is over. Its `spent` is the `current` of stop signals and of `SpawnRefusal`: a budget is
 * spent, while those also report counts such as depth.
 */
export type BudgetRefusal = Readonly<z.infer<ReturnType<typeof RefusalSchema>>>;

export type LeaseOutcome =
  | { readonly type: "granted"; readonly lease: Lease; readonly waitedMs: number }
  | { readonly type: "refused"; readonly refusal: BudgetRefusal; readonly waitedMs: number }
  /** The agent was cancelled or asked to stop. */
  | { readonly type: "cancelled"; readonly waitedMs: number };

/** Room on the limited axes, in the units of a budget. */
export type Remaining = Readonly<Partial<Record<BudgetAxis, number>>>;

/** Reached threshold of a limit, in the units of a budget. */
export interface ReachedThreshold {
  /** The agent that has the limit. */
  readonly agentId: AgentId;
  readonly accountPath: string;
  readonly axis: BudgetAxis;
  readonly threshold: number;
  readonly spent: number;
  readonly maximum: number;
}

/** Listens to a ledger. Must not throw. */
export interface LedgerWatch {
  /** Called once for each threshold of each limit, after the usage is booked. */
  readonly onThreshold?: ((reached: ReachedThreshold) => void) | undefined;
  /** Called with each operation, after it is done. */
  readonly onOperation?: ((done: LedgerOperation) => void) | undefined;
}
