// How often a model call may be tried, as a user says it.

import { checkKeys, mismatch } from "../kernel/check.ts";

/** How often a model call may be tried. */
export interface RetryPolicy {
  /** Attempts in all, the first one included. 1: no retries. Default: 3. */
  readonly maxAttempts?: number;
}

export const DEFAULT_MAX_ATTEMPTS = 3;

/** Throws `invalid_option` unless `policy` can be used. */
export function checkRetryPolicy(field: string, policy: RetryPolicy): void {
  checkKeys(field, policy, ["maxAttempts"]);
  const { maxAttempts } = policy;
  if (maxAttempts === undefined || (Number.isSafeInteger(maxAttempts) && maxAttempts >= 1)) return;
  throw mismatch(
    `${field}.maxAttempts`,
    "a whole number from 1 up",
    maxAttempts,
    "1 means no retries.",
  );
}
