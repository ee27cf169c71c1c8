// Foreign work that has a time of its own, besides the signal that ends it.

import {
  invoke,
  linkedController,
  runBounded,
  type BoundedOutcome,
  type Bounds,
} from "./cancel.ts";

/** How work with a time of its own ended. `timed_out`: it had not settled by then, and its signal was aborted. */
export type TimedOutcome<T> = BoundedOutcome<T> | { readonly type: "timed_out" };

/**
 * Runs foreign work that may ignore its signal and may never settle. Always resolves: at the latest `timeoutMs` after the call, or
 * `graceMs` after the signal was aborted.
 */
export function runTimed<T>(
  work: (signal: AbortSignal) => T | PromiseLike<T>,
  bounds: Bounds & { readonly timeoutMs: number },
): Promise<TimedOutcome<T>> {
  // Of the work alone: running out of time aborts it, but starts no grace.
  const inner = linkedController(bounds.signal);
  const over = Promise.withResolvers<never>();
  const racing = (): Promise<T> =>
    Promise.race([over.promise, invoke(() => work(inner.controller.signal))]);
  return new Promise((resolve) => {
    const settle = (outcome: TimedOutcome<T>): void => {
      stopTimer();
      inner.unlink();
      resolve(outcome);
    };
    const stopTimer = bounds.clock.setTimer(bounds.timeoutMs, () => {
      settle({ type: "timed_out" });
      over.reject(new Error("The time is up.")); // No grace period is waited for any more.
      inner.controller.abort(new DOMException("The time is up.", "TimeoutError"));
    });
    void runBounded(racing, bounds).then(settle);
  });
}

/** What foreign work gives. Rejects with what it throws, or with an error if it took too long. */
export async function valueInTime<T>(
  work: (signal: AbortSignal) => T | PromiseLike<T>,
  bounds: Bounds & { readonly timeoutMs: number },
): Promise<T> {
  const outcome = await runTimed(work, bounds);
  if (outcome.type === "threw") throw outcome.error;
  if (outcome.type === "returned") return outcome.value;
  throw new Error(`it did not answer within ${bounds.timeoutMs} ms`);
}
