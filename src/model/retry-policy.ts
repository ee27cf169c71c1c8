// How often a model call may be tried and how long it waits, as a user says it.

import { checkOptions, mustBeFunction, mustBeWhole, type OptionChecks } from "./check-options.ts";

/** How often a model call may be tried, and how long it waits in between. */
export interface RetryPolicy {
  /** Attempts in all, the first one included. 1: no retries. Default: 3. */
  readonly maxAttempts?: number;
  /**
   * The longest wait that a provider may ask for, in milliseconds: a call that is to wait longer fails at once, with that time in the
   * error. Default: 60,000.
   */
  readonly maxDelayMs?: number;
  /**
   * A number from 0 up to 1, by which the waits of calls that failed together differ: a wait of `d` is one of `d / 2` to `d`, one that
   * the provider asked for is up to a tenth longer. Default: `Math.random`.
   */
  readonly random?: () => number;
}

export const DEFAULT_MAX_ATTEMPTS = 3;
export const DEFAULT_LONGEST_WAIT_MS = 60_000;
export const DEFAULT_RANDOM = Math.random;

const CHECKS: OptionChecks<RetryPolicy> = {
  maxAttempts: mustBeWhole("1 means no retries."),
  maxDelayMs: mustBeWhole("Leave it out for a minute."),
  random: mustBeFunction("a function", "Pass a function such as Math.random."),
};

/** Throws `invalid_option` unless `policy` can be used. */
export function checkRetryPolicy(field: string, policy: RetryPolicy): void {
  checkOptions(field, policy, CHECKS);
}
