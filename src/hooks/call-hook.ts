import { type AnySignal, runTimed } from "../kernel/cancel.ts";
import type { Clock } from "../kernel/clock.ts";
import { hookFailed, hookTimedOut, type HookPlace } from "./hook-error.ts";
import type { HookSelf } from "./hook-points.ts";

/** How long hooks may take, and what they may know. */
export interface HookBounds<Context extends HookSelf> {
  /** Aborted when the agent must end. */
  readonly signal: AnySignal;
  readonly clock: Clock;
  /** What each hook has from its call to its end. */
  readonly timeoutMs: number;
  /** What each hook has after `signal` was aborted. Default 5,000. */
  readonly graceMs?: number;
  /** Makes the context of the hook of this name. Its signal is replaced by one that is aborted when the hook's time is up, too. */
  readonly contextFor: (hookName: string) => Context;
}

const DEFAULT_GRACE_MS = 5_000;

/**
 * Calls one hook and waits for it, within bounds. Rejects with `hook_failed` or `hook_timeout`, never later than the bounds say; what
 * comes after that is dropped.
 */
export async function callHook<Context extends HookSelf>(
  place: HookPlace,
  bounds: HookBounds<Context>,
  call: (context: Context) => unknown,
): Promise<unknown> {
  const { timeoutMs, graceMs = DEFAULT_GRACE_MS } = bounds;
  const outcome = await runTimed<unknown>(
    (signal) => call(Object.freeze({ ...bounds.contextFor(place.hook), signal })),
    { ...bounds, graceMs },
  );
  switch (outcome.type) {
    case "returned":
      return outcome.value;
    case "threw":
      throw hookFailed(place, outcome.error);
    case "timed_out":
      throw hookTimedOut(place, timeoutMs);
    case "abandoned":
      throw hookTimedOut(place, graceMs, true);
  }
}
