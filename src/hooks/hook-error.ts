// The three ways in which a hook can go wrong. Each names the point and the hook, for its author.

import { EspalierError, messageOf } from "../kernel/error.ts";

/** Which hook, and where it was called. */
export interface HookPlace {
  /** A point, or `wrapModelCall`, `wrapToolCall`, `processStep`. */
  readonly point: string;
  readonly hook: string;
}

/** `hook_failed`: the hook threw. */
export function hookFailed({ point, hook }: HookPlace, cause: unknown): EspalierError {
  return new EspalierError({
    code: "hook_failed",
    message: `The hook "${hook}" failed at ${point}: ${messageOf(cause)}`,
    data: { point, hook },
    cause,
  });
}

/** `hook_timeout`: the hook did not settle in time. */
export function hookTimedOut({ point, hook }: HookPlace, timeoutMs: number): EspalierError {
  return new EspalierError({
    code: "hook_timeout",
    message: `Expected the hook "${hook}" at ${point} to settle within ${timeoutMs} ms, got nothing. Obey its signal, or give it more time.`,
    data: { point, hook, timeoutMs, wasCancelled: false },
  });
}

/** `hook_timeout`, too: the hook did not settle within the grace period after its agent had to end. */
export function hookAbandoned({ point, hook }: HookPlace, graceMs: number): EspalierError {
  return new EspalierError({
    code: "hook_timeout",
    message: `Expected the hook "${hook}" at ${point} to settle within ${graceMs} ms after its agent was told to end, got nothing. Obey its signal.`,
    data: { point, hook, graceMs, wasCancelled: true },
  });
}

/** How a hook broke its contract. */
export interface Breach {
  /** Left out if the whole is wrong. */
  readonly field?: string;
  readonly expected: string;
  readonly got: string;
  readonly advice: string;
  readonly cause?: unknown;
}

/** `hook_contract`: the hook gave what it may not give at this point (R80). */
export function hookContract({ point, hook }: HookPlace, breach: Breach): EspalierError {
  const { field, expected, got, advice, cause } = breach;
  return new EspalierError({
    code: "hook_contract",
    message: `Expected the hook "${hook}" at ${point} to ${expected}, got ${got}. ${advice}`,
    data: { point, hook, ...(field === undefined ? {} : { field }), expected, got },
    ...(cause === undefined ? {} : { cause }),
  });
}
