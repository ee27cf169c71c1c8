// How often a model call may be tried, as a user says it.

import { checkOptions, mustBeWhole, type OptionChecks } from "./check-options.ts";

/** How often a model call may be tried. */
export interface RetryPolicy {
  /** Attempts in all, the first one included. 1: no retries. Default: 3. */
  readonly maxAttempts?: number;
}

export const DEFAULT_MAX_ATTEMPTS = 3;

const CHECKS: OptionChecks<RetryPolicy> = {
  maxAttempts: mustBeWhole("1 means no retries."),
};

/** Throws `invalid_option` unless `policy` can be used. */
export function checkRetryPolicy(field: string, policy: RetryPolicy): void {
  checkOptions(field, policy, CHECKS);
}
