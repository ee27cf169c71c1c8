// Limits of an agent and its subtree, and the thresholds at which a limit is reported as nearly
// used up. Does not own consumption, which is in the ledger.

import { checkAmount, checkCount, checkKeys, NO_LIMIT_ADVICE } from "../kernel/argument-checks.ts";
import { adviseOnOption } from "../kernel/option-names.ts";
import { floorMicroUsd, toUsd } from "../kernel/money.ts";
import {
  BUDGET_AXES,
  LEDGER_AXES,
  type Account,
  type LedgerAccount,
  type LedgerAxis,
  type BudgetAxis,
} from "../protocol/account.ts";

/**
 * Upper limits for an agent and all its descendants. An omitted axis has no limit here. The limits
 * of ancestors apply as well: the tightest on the path wins.
 *
 * A limit of `n` steps allows step `n` and refuses step `n + 1`. A limit of 0 allows nothing.
 *
 * @example
 * ```ts
 * const budget: Budget = { steps: 20, totalTokens: 200_000, costUsd: 1.5, timeMs: 10 * 60_000 };
 * ```
 */
export interface Budget {
  /** Input tokens of all model calls, including those read from a cache. */
  readonly inputTokens?: number;
  /**
   * Input tokens that the provider reads from its cache, which is a part of `inputTokens`. Each
   * call reserves its whole input on this axis, since all input may be cached.
   */
  readonly cachedInputTokens?: number;
  /** Output tokens of all model calls, including reasoning. */
  readonly outputTokens?: number;
  /** Sum of input and output tokens. */
  readonly totalTokens?: number;
  /** Cost of all model calls in US dollars. Requires a price for every model in the tree. */
  readonly costUsd?: number;
  /** Completed steps. A step is one model call with the tool calls of its reply. */
  readonly steps?: number;
  /**
   * Tool calls with a known tool and valid arguments, delegations included. Calls of `Finish` do
   * not count.
   */
  readonly toolCalls?: number;
  /**
   * Milliseconds from the start of the agent, including its subagents. The clock stops while the
   * run is paused, and while an open question blocks all work below the agent.
   *
   * At the limit, signals are aborted. A tool that ignores its signal is abandoned after the
   * `graceMs` of the orchestrator, and keeps running in the background.
   */
  readonly timeMs?: number;
}

/** An amount on every axis of the ledger. */
export type Amounts = Readonly<Record<LedgerAxis, number>>;
/** Zero on every axis. */
export const NO_AMOUNTS: Amounts = Object.freeze({
  steps: 0,
  totalTokens: 0,
  inputTokens: 0,
  cachedInputTokens: 0,
  outputTokens: 0,
  costMicroUsd: 0,
  toolCalls: 0,
});
/** Limits on some axes of the ledger. */
export type SpendLimits = Readonly<Partial<Record<LedgerAxis, number>>>;

/**
 * Throws `invalid_argument` if the budget has an unknown axis, or a limit is negative, fractional or
 * not a number.
 */
export function checkBudget(field: string, budget: Budget): void {
  checkKeys(field, budget, BUDGET_AXES, adviseOnOption);
  for (const axis of BUDGET_AXES) {
    const limit = budget[axis];
    if (limit === undefined) continue;
    if (axis === "costUsd" || axis === "timeMs")
      checkAmount(`${field}.${axis}`, limit, NO_LIMIT_ADVICE);
    else checkCount(`${field}.${axis}`, limit, NO_LIMIT_ADVICE);
  }
}

/** Returns the limits of a budget in the units of the ledger. */
export function toLedgerLimits(budget: Budget): SpendLimits {
  const limits: Partial<Record<LedgerAxis, number>> = {};
  for (const axis of LEDGER_AXES) {
    const limit = axis === "costMicroUsd" ? budget.costUsd : budget[axis];
    if (limit !== undefined) limits[axis] = axis === "costMicroUsd" ? floorMicroUsd(limit) : limit;
  }
  return limits;
}

/** Returns the axis of a budget on which the ledger axis counts. */
export function toSpendAxis(axis: LedgerAxis | "timeMs"): BudgetAxis {
  return axis === "costMicroUsd" ? "costUsd" : axis;
}

/** Returns an amount of the ledger in the unit of a budget. */
export function toSpendAmount(axis: LedgerAxis | "timeMs", amount: number): number {
  return axis === "costMicroUsd" ? toUsd(amount) : amount;
}

/** Returns the account as users see it: with dollars in place of micro-dollars. */
export function toPublicAccount(account: LedgerAccount): Account {
  const { limits, reserve, reserved, excess } = account;
  return {
    ...account,
    limits: toSpendAmounts(limits),
    reserve: toSpendAmounts(reserve),
    reserved: toSpendAmounts(reserved),
    excess: toSpendAmounts(excess),
  };
}

/** Returns amounts of the ledger in the units of a budget. */
export function toSpendAmounts(amounts: Amounts): Account["reserved"];
export function toSpendAmounts(amounts: SpendLimits): Account["limits"];
export function toSpendAmounts({ costMicroUsd, ...others }: SpendLimits): Account["limits"] {
  return costMicroUsd === undefined ? others : { ...others, costUsd: toUsd(costMicroUsd) };
}

/** Returns the tighter of two limits on each axis. */
export function tightenLimits(left: SpendLimits, right: SpendLimits): SpendLimits {
  const limits: Partial<Record<LedgerAxis, number>> = {};
  for (const axis of LEDGER_AXES) {
    const limit = Math.min(left[axis] ?? Infinity, right[axis] ?? Infinity);
    if (limit !== Infinity) limits[axis] = limit;
  }
  return limits;
}

/** Fractions of a limit that are reported when they are reached, in ascending order. */
const BUDGET_THRESHOLDS = [0.8, 0.95] as const;

const HUNDRED = 100;

/** Returns true if no threshold of the limit is reached yet. */
export function isEarly(maximum: number, spent: number): boolean {
  return spent * HUNDRED < maximum * Math.round(BUDGET_THRESHOLDS[0] * HUNDRED);
}

/**
 * Returns the least amount above `spent` that reaches a threshold of the limit. `undefined` if all
 * are reached.
 */
export function findNextThreshold(maximum: number, spent: number): number | undefined {
  return BUDGET_THRESHOLDS.map((threshold) =>
    Math.ceil((maximum * Math.round(threshold * HUNDRED)) / HUNDRED),
  ).find((amount) => amount > spent);
}

/**
 * Returns the thresholds of a limit that spending reached between `before` and `spent`. Whole
 * amounts are compared exactly.
 */
export function findReachedThresholds(
  maximum: number,
  before: number,
  spent: number,
): readonly number[] {
  return BUDGET_THRESHOLDS.filter((threshold) => {
    const bound = maximum * Math.round(threshold * HUNDRED);
    return before * HUNDRED < bound && spent * HUNDRED >= bound;
  });
}
