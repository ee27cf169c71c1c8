// Cancellation runs down the tree by abort signals and is bounded in time: what does not heed its signal is left behind.

import type { Clock } from "./clock.ts";

/** Why work was told to end. It is the `reason` of the abort signal that tools and models get. */
export type CancelReason =
  | { readonly type: "cancelled"; readonly message: string; readonly agentId: string }
  | {
      readonly type: "deadline";
      readonly message: string;
      readonly deadlineAtMs: number;
      readonly agentId: string;
    };

/** The typed reason behind an aborted signal of ours; undefined if the signal is not aborted or not ours. */
export function cancelReasonOf(signal: AbortSignal): CancelReason | undefined {
  const reason: unknown = signal.reason;
  return isCancelReason(reason) ? reason : undefined;
}

function isCancelReason(reason: unknown): reason is CancelReason {
  return (
    typeof reason === "object" &&
    reason !== null &&
    "type" in reason &&
    (reason.type === "cancelled" || reason.type === "deadline")
  );
}

/** A controller that is aborted with its parent, never the other way round. Call `unlink` when its work has ended. */
export function linkedController(parent: AbortSignal): {
  readonly controller: AbortController;
  unlink(): void;
} {
  const controller = new AbortController();
  const follow = (): void => controller.abort(parent.reason);
  if (parent.aborted) follow();
  else parent.addEventListener("abort", follow, { once: true });
  return { controller, unlink: () => parent.removeEventListener("abort", follow) };
}

/** How bounded work ended. `abandoned`: it was told to stop and did not within the grace period; its late result goes nowhere. */
export type BoundedOutcome<T> =
  | { readonly type: "returned"; readonly value: T }
  | { readonly type: "threw"; readonly error: unknown }
  | { readonly type: "abandoned" };

export interface Bounds {
  readonly signal: AbortSignal;
  readonly clock: Clock;
  /** How long the work may go on after its signal was aborted. */
  readonly graceMs: number;
}

/** Runs foreign work that may ignore its signal. Always resolves, at the latest `graceMs` after the signal was aborted (X33). */
export function runBounded<T>(
  work: () => T | PromiseLike<T>,
  bounds: Bounds,
): Promise<BoundedOutcome<T>> {
  return new Promise((resolve) => {
    let stopTimer: (() => void) | undefined;
    const startGrace = (): void => {
      stopTimer = bounds.clock.setTimer(bounds.graceMs, () => settle({ type: "abandoned" }));
    };
    const settle = (outcome: BoundedOutcome<T>): void => {
      stopTimer?.();
      bounds.signal.removeEventListener("abort", startGrace);
      resolve(outcome);
    };
    if (bounds.signal.aborted) startGrace();
    else bounds.signal.addEventListener("abort", startGrace, { once: true });
    invoke(work).then(
      (value) => settle({ type: "returned", value }),
      (error: unknown) => settle({ type: "threw", error }),
    );
  });
}

/** True for promises, of this realm or another. */
export function isPromiseLike(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === "object" &&
    value !== null &&
    "then" in value &&
    typeof value.then === "function"
  );
}

async function invoke<T>(work: () => T | PromiseLike<T>): Promise<T> {
  return await work();
}

/** The same for work that also has a time of its own. `timed_out`: it had not settled by then, and its signal was aborted. */
export type TimedOutcome<T> = BoundedOutcome<T> | { readonly type: "timed_out" };

/**
 * Runs foreign work that may ignore its signal and may never settle. Always resolves: at the latest `timeoutMs` after the call, or
 * `graceMs` after the signal was aborted.
 */
export function runTimed<T>(
  work: (signal: AbortSignal) => T | PromiseLike<T>,
  bounds: Bounds & { readonly timeoutMs: number },
): Promise<TimedOutcome<T>> {
  const { clock, timeoutMs, graceMs } = bounds;
  // Two controllers: running out of time aborts the work's signal, but starts no grace.
  const heard = linkedController(bounds.signal);
  const waited = linkedController(bounds.signal);
  const over = Promise.withResolvers<never>();
  const racing = (): Promise<T> =>
    Promise.race([over.promise, invoke(() => work(heard.controller.signal))]);
  return new Promise((resolve) => {
    const settle = (outcome: TimedOutcome<T>): void => {
      stopTimer();
      heard.unlink();
      waited.unlink();
      resolve(outcome);
    };
    const stopTimer = clock.setTimer(timeoutMs, () => {
      settle({ type: "timed_out" });
      over.reject(new Error("The time is up.")); // Nobody waits for a grace period any more.
      heard.controller.abort(new DOMException("The time is up.", "TimeoutError"));
    });
    const limits = { signal: waited.controller.signal, clock, graceMs };
    void runBounded(racing, limits).then(settle);
  });
}

/** What a foreign promise comes to. Rejects with what it rejects with, or says that it took too long. */
export async function valueInTime(
  given: PromiseLike<unknown>,
  bounds: Bounds & { readonly timeoutMs: number },
): Promise<unknown> {
  const outcome = await runTimed(() => given, bounds);
  if (outcome.type === "threw") throw outcome.error;
  if (outcome.type === "returned") return outcome.value;
  throw new Error(`it did not answer within ${bounds.timeoutMs} ms`);
}
