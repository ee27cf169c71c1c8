// The values that pass between an agent and its budget account: requests for leases, leases and refusals.

import type { ModelPrice } from "../model/model-price.ts";
import type { BudgetAxis, RefusalSchema } from "../protocol/account.ts";
import type { z } from "zod";
import type { AgentId, LeaseId } from "../protocol/ids.ts";
import type { LedgerOperation } from "./ledger-operation.ts";

/** What one model call asks for: its counted input, and room to answer. */
export interface LeaseAsk {
  readonly inputTokens: number;
  /** Clamped to what the tightest account on the path has left; at least `minOutputTokens` must fit. */
  readonly maxOutputTokens: number;
  /** The model takes no lower cap. Default 1. */
  readonly minOutputTokens?: number | undefined;
  readonly price: ModelPrice | undefined;
  /** Default 1. 0: one more attempt of a step that is counted already. */
  readonly steps?: 0 | 1;
}

/** The right to one model call. No call is made without one; settled or released exactly once. */
export interface Lease {
  readonly leaseId: LeaseId;
  readonly inputTokens: number;
  readonly maxOutputTokens: number;
  /** Set if the step is the last that the budget allows, as things stand. */
  readonly lastStep?: LastStep;
  /** Which of the attempts it is that the lease was extended for, from 2. Left out: the first. */
  readonly attempt?: number;
}

/** The limit of steps that is used up after a step. */
export interface LastStep {
  readonly accountPath: string;
  readonly maximum: number;
}

/** A limit on the path that leaves no room. */
export type BudgetRefusal = Readonly<z.infer<ReturnType<typeof RefusalSchema>>>;

export type LeaseOutcome =
  | { readonly type: "granted"; readonly lease: Lease; readonly waitedMs: number }
  | { readonly type: "refused"; readonly refusal: BudgetRefusal; readonly waitedMs: number }
  /** The agent was cancelled or asked to stop. */
  | { readonly type: "cancelled"; readonly waitedMs: number };

/** What is left on the limited axes, in the units of a budget. */
export type Remaining = Readonly<Partial<Record<BudgetAxis, number>>>;

/** A part of a limit that is spent by now, in the units of a budget. */
export interface ReachedThreshold {
  /** The agent whose limit it is. */
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
