// More budget for an account that exists (X7). Pure. Only limits that are there can be raised: a grant never makes a new one.

import { SPEND_AXES, spendLimitsOf, type Budget, type BudgetAxis } from "../../policies/budget.ts";
import type { SpendAxis } from "../../policies/budget.ts";
import type { Account } from "../../protocol/account.ts";

/** Who grants what, and when. */
export interface Grant {
  readonly budget: Budget;
  readonly by: string;
  readonly atMs: number;
}

/** The first axis of the budget on which the account has no limit that could be raised. A fixed deadline is none. */
export function unlimitedAxis(account: Account, budget: Budget): BudgetAxis | undefined {
  if (budget.wallTimeMs !== undefined && account.timeLimitMs === null) return "wallTimeMs";
  const raises = spendLimitsOf(budget);
  const axis = SPEND_AXES.find(
    (one) => raises[one] !== undefined && account.limits[one] === undefined,
  );
  return axis === "costMicroUsd" ? "costUsd" : axis;
}

/** The account with its limits raised by the budget, and the grant on record. */
export function granted(account: Account, { budget, by, atMs }: Grant): Account {
  const raises = spendLimitsOf(budget);
  const limits: Partial<Record<SpendAxis, number>> = {};
  for (const axis of SPEND_AXES) {
    const limit = account.limits[axis];
    if (limit !== undefined) limits[axis] = raised(limit, raises[axis] ?? 0);
  }
  const { timeLimitMs, grants } = account;
  const given = Object.entries(budget).filter(([, amount]) => amount !== undefined && amount > 0);
  return {
    ...account,
    limits,
    timeLimitMs: timeLimitMs === null ? null : raised(timeLimitMs, budget.wallTimeMs ?? 0),
    grants: [...grants, { by, atMs, budget: Object.fromEntries(given) }],
  };
}

/** A sum that stays a number that can be stored and counted with. */
function raised(limit: number, by: number): number {
  return Math.max(limit, Math.min(limit + by, Number.MAX_SAFE_INTEGER));
}
