// How many failed tool calls an execution may have, of which kind, and what is done about single ones: as a definition says.

import { checkCount, checkKeys, defaultAdvice, misdefinition } from "../kernel/check.ts";
import { defined } from "../kernel/json.ts";

/** How many failed tool calls one execution may have: N are within it, N + 1 stop it (C46). */
export interface ErrorBudget {
  /** Failed and blocked calls in all. Default 5. */
  readonly maxToolErrors: number;
  /** Failed and blocked calls with no successful one between them. Default 3. */
  readonly maxConsecutiveErrors: number;
  /** Requests for a corrected call, over all tools. Default 10. */
  readonly maxRetryErrors: number;
}

/** What is done about single failures. */
export interface ErrorPolicy {
  /** When a guard, a hook or an approver denies a call, or whether to ask cannot be found out: the agent continues (default), or stops with `blocked` (R71). */
  readonly onBlocked: "continue" | "stop";
  /** When a tool was retried as often as it allows: the agent stops with `retry_limit` (default), or continues without the call (R110). */
  readonly onRetryLimit: "stop" | "continue";
}

/** The error budget of a role, where its definition gives none. */
export const DEFAULT_ERROR_BUDGET: ErrorBudget = Object.freeze({
  maxToolErrors: 5,
  maxConsecutiveErrors: 3,
  maxRetryErrors: 10,
});

const DEFAULT_ERROR_POLICY: ErrorPolicy = Object.freeze({
  onBlocked: "continue",
  onRetryLimit: "stop",
});

/** The error budget of a definition. Throws `invalid_option` for what it cannot be. */
export function errorBudget(field: string, given: Partial<ErrorBudget>): ErrorBudget {
  checkKeys(field, given, Object.keys(DEFAULT_ERROR_BUDGET));
  for (const limit of ["maxToolErrors", "maxConsecutiveErrors", "maxRetryErrors"] as const) {
    const advice = defaultAdvice(DEFAULT_ERROR_BUDGET[limit]);
    if (given[limit] !== undefined) checkCount(`${field}.${limit}`, given[limit], advice);
  }
  return Object.freeze({ ...DEFAULT_ERROR_BUDGET, ...defined(given) });
}

/** The error policy of a definition. Throws `invalid_option` or `invalid_definition` for what it cannot be. */
export function errorPolicy(field: string, given: Partial<ErrorPolicy>): ErrorPolicy {
  checkKeys(field, given, Object.keys(DEFAULT_ERROR_POLICY));
  for (const [key, value] of Object.entries(given)) {
    if (value === undefined || value === "continue" || value === "stop") continue;
    throw misdefinition(`${field}.${key}`, '"continue" or "stop"', value, "Choose one.");
  }
  return Object.freeze({ ...DEFAULT_ERROR_POLICY, ...defined(given) });
}
