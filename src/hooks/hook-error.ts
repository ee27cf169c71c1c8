// Errors of hooks: thrown, timed out, or invalid result. Each names the point and the hook.

import { EspalierError, getErrorMessage } from "../kernel/error.ts";
import { omitUndefined } from "../kernel/json.ts";

/** The point and the name of a hook. */
export interface HookPlace {
  /** A point, or `wrapModelCall`, `wrapToolCall`, `processStep`. */
  readonly point: string;
  readonly hook: string;
}

/** Creates `hook_failed`: the hook threw. */
export function createHookFailedError({ point, hook }: HookPlace, cause: unknown): EspalierError {
  return new EspalierError({
    code: "hook_failed",
    message: `The hook "${hook}" failed at ${point}: ${getErrorMessage(cause)}`,
    data: { point, hook },
    cause,
  });
}

/**
 * Creates `hook_timeout`: the hook did not settle in time. `wasCancelled`: it did not settle within
 * the grace period of an agent that must end.
 */
export function createHookTimeoutError(
  { point, hook }: HookPlace,
  limitMs: number,
  wasCancelled = false,
): EspalierError {
  const since = wasCancelled ? " after its agent was stopped" : "";
  const advice = wasCancelled
    ? "Make it react to its signal."
    : "Make it react to its signal, or raise hookTimeoutMs.";
  return new EspalierError({
    code: "hook_timeout",
    message: `Expected the hook "${hook}" at ${point} to settle within ${limitMs} ms${since}, got nothing. ${advice}`,
    data: { point, hook, [wasCancelled ? "graceMs" : "timeoutMs"]: limitMs, wasCancelled },
  });
}

/** Violation of the contract of a hook point. */
export interface Breach {
  /** Absent if the whole value is invalid. */
  readonly field?: string;
  readonly expected: string;
  readonly got: string;
  readonly advice: string;
  readonly cause?: unknown;
}

/** Creates `invalid_hook_result`: the hook returned something that its point does not allow. */
export function createHookResultError({ point, hook }: HookPlace, breach: Breach): EspalierError {
  const { field, expected, got, advice, cause } = breach;
  return new EspalierError({
    code: "invalid_hook_result",
    message: `Expected the hook "${hook}" at ${point} to ${expected}, got ${got}. ${advice}`,
    data: { point, hook, ...omitUndefined({ field }), expected, got },
    cause,
  });
}
