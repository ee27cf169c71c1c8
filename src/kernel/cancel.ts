// Cancellation runs down the tree by abort signals and is bounded in time: what does not heed its signal is left behind.
// Owns who waits for the abort of each signal, behind one listener on it: the platform searches all listeners of a signal to add or
// to remove one, and ten thousand calls of one agent wait for the same signal.

import type { Clock } from "./clock.ts";

/** Why work was told to end. It is the `reason` of the abort signal that tools and models get. */
export type CancelReason =
  | { readonly type: "cancelled"; readonly message: string; readonly agentId: string }
  /** Only tool calls: their agent stops, and they end with it. */
  | { readonly type: "stopped"; readonly message: string; readonly agentId: string }
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
    (reason.type === "cancelled" || reason.type === "stopped" || reason.type === "deadline")
  );
}

/** The lines in which somebody waits. */
const lines = new WeakMap<AbortSignal, AbortLine>();

/** Those who wait for the abort of one signal, in the order in which they came. */
class AbortLine {
  readonly #signal: AbortSignal;
  readonly #waiting = new Set<() => void>();

  constructor(signal: AbortSignal) {
    this.#signal = signal;
  }

  add(heed: () => void): void {
    if (this.#waiting.size === 0) this.#signal.addEventListener("abort", this);
    this.#waiting.add(heed);
  }

  remove(heed: () => void): void {
    if (this.#waiting.delete(heed) && this.#waiting.size === 0) this.#leave();
  }

  /** What one of them throws is no business of the others: it goes where an error of a listener goes. */
  handleEvent(): void {
    for (const heed of this.#waiting) {
      this.#waiting.delete(heed);
      try {
        heed();
      } catch (cause) {
        queueMicrotask(() => {
          throw cause;
        });
      }
    }
    this.#leave();
  }

  #leave(): void {
    lines.delete(this.#signal);
    this.#signal.removeEventListener("abort", this);
  }
}

/**
 * Calls `heed` once, when the signal is aborted; call the result to take that back. For a signal that is not aborted yet. Costs the
 * same however many wait for the signal.
 */
export function onAbort(signal: AbortSignal, heed: () => void): () => void {
  const line = lines.get(signal) ?? new AbortLine(signal);
  lines.set(signal, line);
  line.add(heed);
  return () => line.remove(heed);
}

/** A controller that is aborted with its parent, never the other way round. Call `unlink` when its work has ended. */
export function linkedController(parent: AbortSignal): {
  readonly controller: AbortController;
  unlink(): void;
} {
  const controller = new AbortController();
  const follow = (): void => controller.abort(parent.reason);
  if (!parent.aborted) return { controller, unlink: onAbort(parent, follow) };
  follow();
  return { controller, unlink: () => undefined };
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
    let letGo: (() => void) | undefined;
    const startGrace = (): void => {
      letGo = bounds.clock.setTimer(bounds.graceMs, () => settle({ type: "abandoned" }));
    };
    const settle = (outcome: BoundedOutcome<T>): void => {
      letGo?.();
      resolve(outcome);
    };
    if (bounds.signal.aborted) startGrace();
    else letGo = onAbort(bounds.signal, startGrace);
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

/** Not an async function: what it would keep while it waits is kept by every call that waits. */
export function invoke<T>(work: () => T | PromiseLike<T>): Promise<T> {
  try {
    return Promise.resolve(work());
  } catch (cause) {
    return Promise.reject(cause);
  }
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
