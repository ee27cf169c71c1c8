// Grants: more budget for an existing account. A grant raises existing limits, and never adds any.

import { checkKeys, mismatch } from "../kernel/argument-checks.ts";
import { MAX_MICRO_USD } from "../kernel/money.ts";
import {
  checkBudget,
  toLedgerLimits,
  toSpendAxis,
  type Budget,
  type SpendLimits,
} from "../policies/budget.ts";
import {
  BUDGET_AXES,
  LEDGER_AXES,
  type AccountGrant,
  type BudgetAxis,
  type LedgerAccount,
  type LedgerAxis,
} from "../protocol/account.ts";

/** More budget, and the name of its granter. */
export interface BudgetGrant {
  readonly budget: Budget;
  readonly by: string;
}

/**
 * Throws `invalid_argument` for an invalid budget, like `checkBudget`, for a budget without an amount
 * above zero, and for an empty `by`.
 */
export function checkGrant(field: string, { budget, by }: BudgetGrant): void {
  checkBudget(`${field}.budget`, budget);
  const { timeMs = 0 } = budget;
  if (timeMs === 0 && Object.values(toLedgerLimits(budget)).every((amount) => amount === 0))
    throw mismatch(
      `${field}.budget`,
      "a budget with at least one amount above 0",
      budget,
      "Set an amount, for example { steps: 10 }.",
    );
  if (typeof by === "string" && by.trim() !== "") return;
  throw mismatch(`${field}.by`, "a non-empty string", by, "Name who grants it.");
}

/** Returns a copy of the grant that its owner cannot change. Throws like `checkGrant`. */
export function copyGrant(field: string, { budget, by }: BudgetGrant): BudgetGrant {
  checkKeys(`${field}.budget`, budget, BUDGET_AXES);
  const copy = { budget: { ...budget }, by };
  checkGrant(field, copy);
  return copy;
}

/** The part of an account that grants need. */
type Limited = Pick<LedgerAccount, "agentPath" | "limits" | "timeLimitMs">;

/** Grant with its time. */
export type Grant = BudgetGrant & Pick<AccountGrant, "atMs">;

/** Throws `invalid_argument`, naming `field`, for an axis on which the account has no limit. */
export function checkRaisable(account: Limited, { budget }: BudgetGrant, field: string): void {
  const axis = findUnlimitedAxis(account, budget);
  if (axis === undefined) return;
  const expected = `left out, since ${account.agentPath} has no own limit on this axis`;
  const advice =
    "Grant an axis that is limited there, or grant it to the agent that has the limit.";
  throw mismatch(`${field}.budget.${axis}`, expected, budget[axis], advice);
}

/** Returns every grant that is contained in the limits of an account. */
export function collectGrants({
  grants,
  grantsBeforeFork = [],
}: LedgerAccount): readonly AccountGrant[] {
  return grantsBeforeFork.length === 0 ? grants : [...grantsBeforeFork, ...grants];
}

/** Returns the sum of the grants on each axis, in the units of the ledger. */
export function sumGrants(grants: readonly AccountGrant[]): SpendLimits {
  const sums: Partial<Record<LedgerAxis, number>> = {};
  for (const { budget } of grants) {
    const raises = toLedgerLimits(budget);
    for (const axis of LEDGER_AXES)
      if (raises[axis] !== undefined) sums[axis] = raiseLimit(sums[axis] ?? 0, raises[axis], axis);
  }
  return sums;
}

/**
 * Returns the first axis of the budget on which the account has no limit that can be raised. A
 * fixed deadline cannot be raised.
 */
function findUnlimitedAxis(account: Limited, budget: Budget): BudgetAxis | undefined {
  if (budget.timeMs !== undefined && account.timeLimitMs === null) return "timeMs";
  const raises = toLedgerLimits(budget);
  const axis = LEDGER_AXES.find(
    (candidate) => raises[candidate] !== undefined && account.limits[candidate] === undefined,
  );
  return axis === undefined ? undefined : toSpendAxis(axis);
}

/** Returns the raised limit, capped so that it can still be counted exactly. */
export function raiseLimit(limit: number, by: number, axis?: LedgerAxis): number {
  const most = axis === "costMicroUsd" ? MAX_MICRO_USD : Number.MAX_SAFE_INTEGER;
  return Math.max(limit, Math.min(limit + by, most));
}
