// What an agent sees of the ledger: its own account, nothing else of the tree.

import type { AnySignal } from "../kernel/cancel.ts";
import type { ModelPrice } from "../model/model-price.ts";
import type { SpendAxis } from "../protocol/account.ts";
import type { z } from "../protocol/late-zod.ts";
import type { LeaseId } from "../protocol/ids.ts";
import type { ModelUsage, Usage, UsageReport } from "../protocol/usage.ts";
import type { OpenStep } from "./agent-state.ts";
import type { RefusalSchema } from "./effects.ts";

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

/** The right to one model call. No call is made without one (B4); settled or released exactly once (B2). */
export interface Lease {
  readonly leaseId: LeaseId;
  readonly inputTokens: number;
  readonly maxOutputTokens: number;
  /** Set if the step is the last that the budget allows, as things stand. */
  readonly lastStep?: LastStep;
  /** Which of the attempts it is that the lease was extended for, from 2. Left out: the first. */
  readonly attempt?: number;
}

/** Whose budget of steps is used up after a step. */
export type LastStep = NonNullable<OpenStep["lastStep"]>;

/** A limit on the path that leaves no room. */
export type BudgetRefusal = Readonly<z.infer<typeof RefusalSchema>>;

/** A limit of the agent's own budget that was passed: providers may report more than a lease holds. */
export type Overshoot = Pick<BudgetRefusal, "accountPath" | "maximum" | "spent"> & {
  readonly axis: SpendAxis;
};

export type LeaseOutcome =
  | { readonly type: "granted"; readonly lease: Lease; readonly waitedMs: number }
  | { readonly type: "refused"; readonly refusal: BudgetRefusal; readonly waitedMs: number }
  /** The agent had to end while it waited. */
  | { readonly type: "cancelled"; readonly waitedMs: number };

/** What is left on the limited axes. */
export type Remaining = Readonly<Record<string, number>>;

/** The agent's own account. */
export interface AccountView extends TimeAccount {
  /**
   * Asks for a lease; waits in line while calls in flight may still make room (X2). Never rejects.
   * `onWait` is called before a wait, with the path of the account that lacks room.
   */
  reserve(
    ask: LeaseAsk,
    signal: AnySignal,
    onWait?: (accountPath: string) => void,
  ): Promise<LeaseOutcome>;
  /** Asks that an open lease cover one more attempt of its call, whose earlier ones are charged; waits for room like `reserve`. */
  extend(
    lease: Lease,
    ask: Partial<Pick<LeaseAsk, "price" | "minOutputTokens">>,
    signal: AnySignal,
    onWait?: (accountPath: string) => void,
  ): Promise<LeaseOutcome>;
  /** Books what an attempt used that has ended, while its call continues. */
  charge(lease: Lease, usage: Usage): void;
  /** What the agent and its subtree have consumed. */
  usage(): UsageReport;
  /**
   * Books what a call really used in all, on this account and every ancestor, and gives the rest of the lease back. `otherModels`: the part
   * of it that other models than the agent's first used.
   */
  settle(lease: Lease, usage: Usage, otherModels?: readonly ModelUsage[]): void;
  /** What other models than the agent's first used of its own usage. */
  readonly otherModels: readonly ModelUsage[];
  /** Gives back, unused, what the agent still holds, and says which leases that were. */
  releaseOpen(): readonly LeaseId[];
  /** Books one tool call, or says which limit forbids it. */
  chargeToolCall(): BudgetRefusal | undefined;
  /** The first limit on the path that is reached, if any: then nothing further may start. */
  exhausted(): BudgetRefusal | undefined;
  /** The limits of its own account that are passed. */
  overshoots(): readonly Overshoot[];
  /** Left to this agent: on each axis the least on its path. */
  remaining(): Remaining;
  /** The same as if an open lease had never been given: what its call may use, and what is left besides. */
  remainingWith(lease: Lease): Remaining;
  /** Left to all new children of the agent together: its reserve is kept. */
  remainingForChildren(): Remaining;
  /** Left to the whole run. */
  runRemaining(): Remaining;
  /** The limit that would keep a new child of the agent from taking even one step, if there is one. */
  exhaustedForChild(): BudgetRefusal | undefined;
}

/** The time of the agent, as its account keeps it. */
export interface TimeAccount {
  /** A limit in time, or a fixed deadline, stands on its path. */
  readonly isTimed: boolean;
  /** For how long its clock has stood still so far. */
  readonly stoodMs: number;
  /** When the agent must have ended, as the clocks on its path have gone so far; null: no limit in time. */
  deadlineAtMs(): number | null;
  /** The deadline at which the agent itself has to be ended; null: there is none, or its ancestors watch it, or it stands still. */
  ownDeadlineAtMs(): number | null;
  /** How much of its own limit in time the agent has spent; undefined: it has none. In milliseconds. */
  timeSpent(): { readonly maximum: number; readonly spent: number } | undefined;
  /** Emits the thresholds of its own limit in time that the agent has reached since it had spent `before` milliseconds of it (X6). */
  emitThresholds(before: number): void;
  /** Its clock stands still from now on, until `resumeTime`. */
  stopTime(): void;
  /** Its clock runs; the time in which it stood is booked. */
  resumeTime(): void;
}
