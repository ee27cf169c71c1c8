// Checks of a budget share as a role defines it.

import { checkKeys, mismatch } from "../kernel/check.ts";
import { deepFreeze, isRecord } from "../kernel/json.ts";
import { checkBudget } from "./budget.ts";
import { COMMON_POOL, type BudgetShare } from "./budget-share.ts";

const TYPES = ["pool", "fixed", "even", "weighted"] as const;
const FIELDS: Readonly<Record<BudgetShare["type"], readonly string[]>> = {
  pool: ["type", "maxShare"],
  fixed: ["type", "budget"],
  even: ["type"],
  weighted: ["type", "weights", "defaultWeight"],
};

/** A frozen copy of what was given. Throws `invalid_option` for a type or a field that does not exist, or an amount that does not fit. */
export function budgetShare(field: string, given: BudgetShare = COMMON_POOL): BudgetShare {
  if (!isRecord(given))
    throw mismatch(field, `an object with a type (${TYPES.join(", ")})`, given, "See BudgetShare.");
  if (!TYPES.includes(given.type))
    throw mismatch(`${field}.type`, `one of ${TYPES.join(", ")}`, given.type, "Choose one.");
  checkKeys(field, given, FIELDS[given.type]);
  switch (given.type) {
    case "pool":
      return given.maxShare === undefined ? COMMON_POOL : deepFreeze(pool(field, given));
    case "fixed":
      return deepFreeze(fixed(field, given));
    case "even":
      return deepFreeze({ type: "even" });
    case "weighted":
      return deepFreeze(weighted(field, given));
  }
}

function pool(
  field: string,
  { maxShare }: Extract<BudgetShare, { type: "pool" }>,
): Extract<BudgetShare, { type: "pool" }> {
  if (maxShare === undefined) return { type: "pool" };
  const fits = typeof maxShare === "number" && maxShare > 0 && maxShare <= 1;
  if (!fits)
    throw mismatch(
      `${field}.maxShare`,
      "a number above 0 and up to 1",
      maxShare,
      "Leave it out for 1: all that is left.",
    );
  return { type: "pool", maxShare };
}

function fixed(
  field: string,
  { budget }: Extract<BudgetShare, { type: "fixed" }>,
): Extract<BudgetShare, { type: "fixed" }> {
  if (!isRecord(budget))
    throw mismatch(`${field}.budget`, "a budget", budget, "Say what each subagent gets.");
  checkBudget(`${field}.budget`, budget);
  return { type: "fixed", budget: { ...budget } };
}

function weighted(
  field: string,
  { weights, defaultWeight }: Extract<BudgetShare, { type: "weighted" }>,
): Extract<BudgetShare, { type: "weighted" }> {
  if (!isRecord(weights))
    throw mismatch(`${field}.weights`, "an object of weights by role", weights, "{ writer: 2 }");
  checkKeys(`${field}.weights`, weights, Object.keys(weights));
  for (const [role, weight] of Object.entries(weights))
    checkWeight(`${field}.weights.${role}`, weight);
  if (defaultWeight !== undefined) checkWeight(`${field}.defaultWeight`, defaultWeight);
  return {
    type: "weighted",
    weights: Object.fromEntries(Object.entries(weights)),
    ...(defaultWeight === undefined ? {} : { defaultWeight }),
  };
}

/** Bounds that keep sums of weights, and parts of them, exact enough. */
const LEAST_WEIGHT = 1e-6;
const MOST_WEIGHT = 1e6;

function checkWeight(field: string, weight: unknown): void {
  if (typeof weight === "number" && weight >= LEAST_WEIGHT && weight <= MOST_WEIGHT) return;
  const advice = "Weights count against each other: 2 is twice as much as 1.";
  throw mismatch(field, `a number from ${LEAST_WEIGHT} to ${MOST_WEIGHT}`, weight, advice);
}
