// Abort signals, and the grace period after an abort: work that ignores its signal is abandoned.
// Owns the abort handlers of each foreign signal, behind one listener on the signal. The platform
// searches all listeners to add or remove one, and ten thousand calls of an agent may wait for the
// same signal.

import type { Clock } from "./clock.ts";

/**
 * Reason of the abort signal that tools, models and hooks receive. Narrow it by `type`.
 *
 * - `cancelled`: the agent was cancelled.
 * - `stopped`: the agent stops, and its tool calls with it. Tool calls only.
 * - `deadline`: a time limit has passed, at `deadlineAtMs` milliseconds since the epoch.
 *
 * @example
 * ```ts
 * function describe(reason: CancelReason): string {
 *   return reason.type === "deadline"
 *     ? `deadline ${new Date(reason.deadlineAtMs).toISOString()}`
 *     : reason.message;
 * }
 * ```
 */
export type CancelReason =
  /** The agent was cancelled. `agentId` is the agent on which the cancellation began. */
  | { readonly type: "cancelled"; readonly message: string; readonly agentId: string }
  /** The agent stops, and aborts its tool calls. Models do not receive this reason. */
  | { readonly type: "stopped"; readonly message: string; readonly agentId: string }
  /** A time limit of the agent `agentId` has passed. */
  | {
      readonly type: "deadline";
      readonly message: string;
      /** Deadline in milliseconds since the epoch. */
      readonly deadlineAtMs: number;
      /** Milliseconds that the limit allowed. */
      readonly maximumMs: number;
      readonly agentId: string;
      readonly agentPath: string;
    };

/** A signal of espalier or of the platform. */
export type AnySignal = AbortSignal | CancelSignal;

/**
 * A signal that its owner aborts once. Costs a fraction of an `AbortSignal`, which is created only
 * for foreign code that needs one.
 */
export class CancelSignal {
  // Written by `abort` only. Plain fields instead of getters, since every step reads them many
  // times.
  aborted = false;
  reason: unknown;
  #line: Set<() => void> | undefined;
  #controller: AbortController | undefined;

  /** Platform signal for foreign code. */
  get abortSignal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.aborted) this.#controller.abort(this.reason);
      owners.set(this.#controller.signal, this);
    }
    return this.#controller.signal;
  }

  abort(reason: unknown): void {
    if (this.aborted) return;
    this.aborted = true;
    this.reason = reason;
    this.#controller?.abort(reason); // Before the handlers, because they may read this signal.
    if (this.#line !== undefined) callAll(this.#line);
    this.#line = undefined;
  }

  /** Calls `handle` once, when the signal is aborted. */
  onAbort(handle: () => void): () => void {
    this.#line ??= new Set();
    this.#line.add(handle);
    return () => this.offAbort(handle);
  }

  /** Removes a handler by its reference. */
  offAbort(handle: () => void): void {
    this.#line?.delete(handle);
  }
}

export function getAbortSignal(signal: AnySignal): AbortSignal {
  return signal instanceof CancelSignal ? signal.abortSignal : signal;
}

/**
 * Returns the reason of an aborted signal of espalier. `undefined` if the signal is not aborted or
 * is foreign.
 */
export function findCancelReason(signal: AnySignal): CancelReason | undefined {
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

/**
 * The `CancelSignal` behind each platform signal that was created for foreign code. If foreign code
 * passes the platform signal back, handlers wait on the `CancelSignal`, which takes a third of the
 * memory.
 */
const owners = new WeakMap<AbortSignal, CancelSignal>();
/** Abort handlers of foreign signals, in registration order. */
const lines = new WeakMap<EventTarget, Set<() => void>>();

/**
 * Calls `handle` once, when the signal is aborted. Returns a function that removes the handler. The
 * signal must not be aborted yet. The cost does not depend on the number of handlers.
 */
export function addAbortHandler(signal: AnySignal, handle: () => void): () => void {
  if (signal instanceof CancelSignal) return signal.onAbort(handle);
  const owner = owners.get(signal);
  if (owner !== undefined) return owner.onAbort(handle);
  const line = lines.get(signal) ?? openLine(signal);
  line.add(handle);
  return () => removeAbortHandler(signal, handle);
}

/**
 * Removes a handler of `onAbort` by reference. A caller with many handlers stores only the
 * reference.
 */
export function removeAbortHandler(signal: AnySignal, handle: () => void): void {
  if (signal instanceof CancelSignal) return signal.offAbort(handle);
  const owner = owners.get(signal);
  if (owner !== undefined) return owner.offAbort(handle);
  const line = lines.get(signal);
  if (line?.delete(handle) === true && line.size === 0) close(signal);
}

function openLine(signal: AbortSignal): Set<() => void> {
  const line = new Set<() => void>();
  lines.set(signal, line);
  signal.addEventListener("abort", callLine);
  return line;
}

function close(signal: EventTarget): void {
  lines.delete(signal);
  signal.removeEventListener("abort", callLine);
}

function callLine({ target }: Event): void {
  if (target === null) return;
  callAll(lines.get(target) ?? new Set());
  close(target);
}

/** Calls all handlers. Errors of handlers are reported like errors of event listeners. */
function callAll(line: Set<() => void>): void {
  for (const handle of line) {
    line.delete(handle);
    try {
      handle();
    } catch (cause) {
      queueMicrotask(() => {
        throw cause;
      });
    }
  }
}

/**
 * Resolves after `delayMs`, or at once when `signal` is aborted. Never rejects: read the signal to
 * see which happened.
 */
export function sleep(clock: Clock, delayMs: number, signal?: AnySignal): Promise<void> {
  if (signal?.aborted === true || delayMs <= 0) return Promise.resolve();
  return new Promise((resolve) => {
    const finish = (): void => {
      stopTimer();
      stopListening?.();
      resolve();
    };
    const stopTimer = clock.setTimer(delayMs, finish);
    const stopListening = signal === undefined ? undefined : addAbortHandler(signal, finish);
  });
}

/**
 * Returns a controller that is aborted with its parent, but not the reverse. Call `unlink` when the
 * work has ended.
 */
export function createLinkedController(parent: AnySignal): {
  readonly controller: AbortController;
  unlink(): void;
} {
  const controller = new AbortController();
  const follow = (): void => controller.abort(parent.reason);
  if (!parent.aborted) return { controller, unlink: addAbortHandler(parent, follow) };
  follow();
  return { controller, unlink: () => undefined };
}

/**
 * Outcome of bounded work. `abandoned` means that it did not end within the grace period after its
 * signal was aborted. A late result is dropped.
 */
export type BoundedOutcome<T> =
  | { readonly type: "returned"; readonly value: T }
  | { readonly type: "threw"; readonly error: unknown }
  | { readonly type: "abandoned" };

export interface Bounds {
  readonly signal: AnySignal;
  readonly clock: Clock;
  /** Milliseconds that the work may continue after its signal was aborted. */
  readonly graceMs: number;
}

/**
 * Runs foreign work that may ignore its signal. Always resolves, at the latest `graceMs` after the
 * signal was aborted.
 */
export function runBounded<T>(
  work: () => T | PromiseLike<T>,
  bounds: Bounds,
): Promise<BoundedOutcome<T>> {
  return awaitWithinBounds(invoke(work), bounds);
}

/** Bounds work that has already begun. */
export function awaitWithinBounds<T>(
  working: Promise<T>,
  { signal, clock, graceMs }: Bounds,
): Promise<BoundedOutcome<T>> {
  return new Promise((resolve) => {
    let stopTimer: (() => void) | undefined;
    const startGrace = (): void => {
      stopTimer = clock.setTimer(graceMs, () => resolve({ type: "abandoned" }));
    };
    const settle = (outcome: BoundedOutcome<T>): void => {
      removeAbortHandler(signal, startGrace);
      stopTimer?.();
      resolve(outcome);
    };
    if (signal.aborted) startGrace();
    else addAbortHandler(signal, startGrace);
    working.then(
      (value) => settle({ type: "returned", value }),
      (error: unknown) => settle({ type: "threw", error }),
    );
  });
}

/** Returns true for promises, of this realm or another. */
export function isPromiseLike(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === "object" &&
    value !== null &&
    "then" in value &&
    typeof value.then === "function"
  );
}

/**
 * Calls `work`, and returns a rejected promise if it throws. Not an async function, which would
 * hold more memory for every waiting call.
 */
export function invoke<T>(work: () => T | PromiseLike<T>): Promise<T> {
  try {
    return Promise.resolve(work());
  } catch (cause) {
    return Promise.reject(cause);
  }
}

/** Bounds of work that has a time limit as well. */
export interface TimedBounds extends Bounds {
  readonly timeoutMs: number;
}

/**
 * Outcome of work with a time limit. `timed_out` means that it had not settled in time, and its
 * signal was aborted.
 */
export type TimedOutcome<T> = BoundedOutcome<T> | { readonly type: "timed_out" };

/**
 * Runs foreign work that may ignore its signal and may never settle. Always resolves: at the latest
 * `timeoutMs` after the call, or `graceMs` after the signal was aborted.
 */
export function runTimed<T>(
  work: (signal: AbortSignal) => T | PromiseLike<T>,
  bounds: TimedBounds,
): Promise<TimedOutcome<T>> {
  // Aborts the work alone: a timeout does not start the grace period.
  const inner = createLinkedController(bounds.signal);
  const over = Promise.withResolvers<never>();
  const race = (): Promise<T> =>
    Promise.race([over.promise, invoke(() => work(inner.controller.signal))]);
  return new Promise((resolve) => {
    const settle = (outcome: TimedOutcome<T>): void => {
      stopTimer();
      inner.unlink();
      resolve(outcome);
    };
    const stopTimer = bounds.clock.setTimer(bounds.timeoutMs, () => {
      settle({ type: "timed_out" });
      over.reject(new Error("The time is up.")); // Ends the race at once, without a grace period.
      inner.controller.abort(new DOMException("The time is up.", "TimeoutError"));
    });
    void runBounded(race, bounds).then(settle);
  });
}

/** Returns the result of foreign code. Rejects with its error, or with a timeout error. */
export async function runUntilTimeout<T>(
  work: (signal: AbortSignal) => T | PromiseLike<T>,
  bounds: TimedBounds,
): Promise<T> {
  const outcome = await runTimed(work, bounds);
  if (outcome.type === "threw") throw outcome.error;
  if (outcome.type === "returned") return outcome.value;
  throw new Error(`it did not answer within ${bounds.timeoutMs} ms`);
}
