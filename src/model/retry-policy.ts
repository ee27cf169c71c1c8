// The option for retries of model calls, and its checks.

import { checkOptions, mustBeFunction, mustBeWhole, type OptionChecks } from "./check-options.ts";

/**
 * Number of attempts of a model call, and the waits between them. Waits double from 0.5 to 8
 * seconds, with jitter.
 *
 * @example
 * ```ts
 * const orchestrator = new Orchestrator({ retryPolicy: { maxAttempts: 5, maxDelayMs: 120_000 } });
 * ```
 */
export interface RetryPolicy {
  /**
   * Largest number of attempts, including the first. 1 disables retries.
   *
   * @default 3
   */
  readonly maxAttempts?: number;
  /**
   * Longest wait that a provider may request, in milliseconds. A call that would wait longer fails
   * at once with the requested time in its error.
   *
   * @default 60_000
   */
  readonly maxDelayMs?: number;
  /**
   * Returns a number from 0 to 1 for the jitter. A backoff of `d` becomes `d / 2` to `d`. A wait
   * that the provider requested becomes up to a tenth longer.
   *
   * @default Math.random
   */
  readonly random?: () => number;
}

export const DEFAULT_MAX_ATTEMPTS = 3;
export const DEFAULT_MAX_DELAY_MS = 60_000;
export const DEFAULT_RANDOM = Math.random;

const CHECKS: OptionChecks<RetryPolicy> = {
  maxAttempts: mustBeWhole("1 means no retries."),
  maxDelayMs: mustBeWhole("Leave it out for a minute."),
  random: mustBeFunction("a function", "Pass a function such as Math.random."),
};

/** Throws `invalid_argument` unless `policy` can be used. */
export function checkRetryPolicy(field: string, policy: RetryPolicy): void {
  checkOptions(field, policy, CHECKS);
}
