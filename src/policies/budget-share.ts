// Division of an agent's remaining budget among its subagents. A share is a limit, not a
// reservation: the part that a subagent does not use was never taken from any account.

import type { Tightening } from "../protocol/context-manifest.ts";
import {
  checkBudget,
  toLedgerLimits,
  toSpendAmount,
  toSpendAxis,
  tightenLimits,
  type Budget,
  type SpendLimits,
} from "./budget.ts";
import { LEDGER_AXES, type LedgerAxis } from "../protocol/account.ts";
import { checkFields, checkKeys, mismatch, type FieldChecks } from "../kernel/argument-checks.ts";
import { deepFreeze, isRecord } from "../kernel/json.ts";

/**
 * The division of a parent's remaining budget, without its `reserve`, among its subagents. Shares
 * are limits, not reservations: an unused share stays with the parent.
 *
 * - `pool`: subagents share everything. `maxShare` limits each to a fraction, above 0 and up to 1.
 * - `fixed`: each subagent gets the amounts of `budget`, or the rest if that is less. Other axes
 *   are shared.
 * - `even`: the subagents that one reply starts get equal parts.
 * - `weighted`: the subagents that one reply starts get parts by the weight of their role. A role
 *   that is not listed has `defaultWeight`.
 *
 * @example
 * ```ts
 * const half: BudgetShare = { type: "pool", maxShare: 0.5 };
 * const each: BudgetShare = { type: "fixed", budget: { totalTokens: 20_000, steps: 5 } };
 * const byRole: BudgetShare = { type: "weighted", weights: { researcher: 3 }, defaultWeight: 1 };
 * ```
 */
export type BudgetShare =
  /**
   * All of the remaining budget, shared with the siblings. `maxShare` is a fraction, 1 by default.
   */
  | { readonly type: "pool"; readonly maxShare?: number }
  /** These amounts for each subagent, or the rest if that is less. */
  | { readonly type: "fixed"; readonly budget: Budget }
  /** Equal parts for the subagents that one reply starts. */
  | { readonly type: "even" }
  /**
   * Parts by the weight of the role. Weights are from 0.000001 to 1,000,000, and `defaultWeight` is
   * 1 by default.
   */
  | {
      readonly type: "weighted";
      readonly weights: Readonly<Record<string, number>>;
      readonly defaultWeight?: number;
    };

type WeightedShare = Extract<BudgetShare, { readonly type: "weighted" }>;

/** The default share. */
export const COMMON_POOL: BudgetShare = Object.freeze({ type: "pool" });

/** The facts that determine a subagent's share. */
export interface ShareFacts {
  readonly share: BudgetShare;
  /** The budget of the subagent's own role. */
  readonly definition: Budget;
  /** The parent's remaining budget for subagents at the time of the reply, on limited axes only. */
  readonly left: Budget;
  readonly role: string;
  /**
   * The roles of all delegations in the reply, including this one. A role is listed once per
   * delegation.
   */
  readonly delegatedRoles: readonly string[];
  /** Path of the parent. */
  readonly source: string;
}

/** The limits of a subagent's account. */
export interface ChildLimits {
  readonly spendLimits: SpendLimits;
  readonly timeMs: number | undefined;
  /** The limits of the role that were lowered, in the fields and units of its definition. */
  readonly tightened: readonly Tightening[];
}

/**
 * Returns the limits of a subagent: on each axis the tighter of its role's budget and its share.
 * Amounts are rounded down, and time is never divided. Axes without a limit on the path of the
 * parent are not shared.
 */
export function computeChildLimits(facts: ShareFacts): ChildLimits {
  const { share, definition, source } = facts;
  const [requestedLimits, left] = [toLedgerLimits(definition), toLedgerLimits(facts.left)];
  const spendLimits = tightenLimits(requestedLimits, divideBudget(facts, left));
  const tightened: Tightening[] = [];
  for (const axis of LEDGER_AXES) {
    const requested = requestedLimits[axis];
    if (requested === undefined) continue;
    const granted = Math.min(spendLimits[axis] ?? Infinity, left[axis] ?? Infinity);
    if (granted >= requested) continue;
    tightened.push({
      field: `budget.${toSpendAxis(axis)}`,
      requested: toSpendAmount(axis, requested),
      granted: toSpendAmount(axis, granted),
      source,
    });
  }
  const fixedMs = share.type === "fixed" ? share.budget.timeMs : undefined;
  const timeMs = Math.min(definition.timeMs ?? Infinity, fixedMs ?? Infinity);
  // The time left above is not a limit of the subagent itself: the ancestor that has this limit
  // ends the subagent together with itself.
  const givenMs = Math.min(timeMs, facts.left.timeMs ?? Infinity);
  if (definition.timeMs !== undefined && givenMs < definition.timeMs) {
    const field = "budget.timeMs";
    tightened.push({ field, requested: definition.timeMs, granted: givenMs, source });
  }
  return { spendLimits, timeMs: timeMs === Infinity ? undefined : timeMs, tightened };
}

/**
 * Returns the limits of the share alone. A pool without `maxShare` needs none, since the ledger
 * enforces the limits of the parent.
 */
function divideBudget({ share, role, delegatedRoles }: ShareFacts, left: SpendLimits): SpendLimits {
  switch (share.type) {
    case "pool": {
      const { maxShare = 1 } = share;
      return maxShare === 1 ? {} : divideLimits(left, (amount) => takePart(amount, maxShare));
    }
    case "fixed":
      return divideLimits(toLedgerLimits(share.budget), (amount, axis) =>
        Math.min(amount, Math.max(0, left[axis] ?? Infinity)),
      );
    case "even": {
      const count = Math.max(1, delegatedRoles.length);
      return divideLimits(left, (amount) => Math.floor(amount / count));
    }
    case "weighted": {
      const sum = delegatedRoles.reduce((weight, other) => weight + getWeight(share, other), 0);
      const ownWeight = getWeight(share, role);
      return divideLimits(left, (amount) => takePart(amount, ownWeight / Math.max(ownWeight, sum)));
    }
  }
}

function getWeight({ weights, defaultWeight = 1 }: WeightedShare, role: string): number {
  return Object.hasOwn(weights, role) ? (weights[role] ?? defaultWeight) : defaultWeight;
}

/** Returns the part of each amount, on the limited axes. */
function divideLimits(
  left: SpendLimits,
  part: (amount: number, axis: LedgerAxis) => number,
): SpendLimits {
  const limits: Partial<Record<LedgerAxis, number>> = {};
  for (const axis of LEDGER_AXES) {
    const amount = left[axis];
    if (amount !== undefined) limits[axis] = part(Math.max(0, amount), axis);
  }
  return limits;
}

// Slack for rounding errors: 10 × 0.7 / (0.1 + 0.7 + 0.2) is 6.99…, which must not round down to 6.
// Large amounts lose more than the slack in a multiplication. Their part is made slightly smaller
// instead, so that the sum of all parts never exceeds the whole.
const SLACK = 1e-6;
const MOST_EXACT = 1e9;
const SMALLER = 1 - 1e-12;

function takePart(amount: number, part: number): number {
  if (part === 1) return amount;
  return amount <= MOST_EXACT
    ? Math.min(amount, Math.floor(amount * part + SLACK))
    : Math.floor(amount * part * SMALLER);
}

// Checks of a budget share as a role defines it.

/** Accepts any value. These required fields are checked separately. */
const ALLOW_ANY = (): void => undefined;

const CHECKS: Readonly<Record<BudgetShare["type"], FieldChecks>> = {
  pool: { type: ALLOW_ANY, maxShare: checkShare },
  fixed: { type: ALLOW_ANY, budget: ALLOW_ANY },
  even: { type: ALLOW_ANY },
  weighted: { type: ALLOW_ANY, weights: ALLOW_ANY, defaultWeight: checkWeight },
};

/**
 * Returns a frozen copy of a share. Throws `invalid_argument` if a type or a field is unknown, or an
 * amount is invalid.
 */
export function copyBudgetShare(field: string, share: BudgetShare): BudgetShare {
  const types = Object.keys(CHECKS);
  if (!isRecord(share))
    throw mismatch(field, `an object with a type (${types.join(", ")})`, share, "See BudgetShare.");
  if (!types.includes(share.type))
    throw mismatch(`${field}.type`, `one of ${types.join(", ")}`, share.type, "Choose one.");
  checkFields(field, share, CHECKS[share.type]);
  if (share.type === "fixed") checkAmounts(`${field}.budget`, share.budget);
  if (share.type === "weighted") checkWeights(`${field}.weights`, share.weights);
  if (share.type === "pool" && share.maxShare === undefined) return COMMON_POOL;
  return deepFreeze(structuredClone(share));
}

function checkShare(field: string, part: unknown): void {
  if (typeof part === "number" && part > 0 && part <= 1) return;
  const advice = "Leave it out for 1: all that is left.";
  throw mismatch(field, "a number above 0 and up to 1", part, advice);
}

function checkAmounts(field: string, budget: Budget): void {
  if (!isRecord(budget))
    throw mismatch(field, "a budget", budget, "Set the budget of each subagent.");
  checkBudget(field, budget);
}

function checkWeights(field: string, weights: unknown): void {
  if (!isRecord(weights))
    throw mismatch(field, "an object of weights by role", weights, "For example { writer: 2 }.");
  checkKeys(field, weights, Object.keys(weights));
  for (const [role, weight] of Object.entries(weights)) checkWeight(`${field}.${role}`, weight);
}

/** Bounds within which sums and fractions of weights are exact enough. */
const LEAST_WEIGHT = 1e-6;
const MOST_WEIGHT = 1e6;

function checkWeight(field: string, weight: unknown): void {
  if (typeof weight === "number" && weight >= LEAST_WEIGHT && weight <= MOST_WEIGHT) return;
  const advice = "Weights are relative: 2 is twice as much as 1.";
  throw mismatch(field, `a number from ${LEAST_WEIGHT} to ${MOST_WEIGHT}`, weight, advice);
}
