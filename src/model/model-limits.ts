// Rate limits of a provider, and the queue of the calls that share them.

import { mismatch } from "../kernel/argument-checks.ts";
import { omitUndefined } from "../kernel/json.ts";
import { checkOptions, mustBeWhole, type OptionChecks } from "./check-options.ts";
import type { AnySignal } from "../kernel/cancel-signal.ts";
import type { Clock } from "../kernel/clock.ts";
import { TurnQueue, type RoomRequest } from "../kernel/turn-queue.ts";

/**
 * Rate limits of a provider, shared by the models that the provider counts together. Created by
 * {@link modelLimits}.
 */
export interface ModelLimits {
  /** Type tag. */
  readonly kind: "model_limits";
  /** Requests per minute, from 1. Each attempt counts. `undefined` for no limit. */
  readonly requestsPerMinute?: number;
  /**
   * Tokens per minute, from 1. A request counts its input and its output cap until the reply
   * reports its usage. `undefined` for no limit.
   *
   * A request larger than the whole limit is sent alone, when no other is in flight, with an event
   * `model.warned`.
   */
  readonly tokensPerMinute?: number;
  /** Requests in flight at once, from 1. `undefined` for no limit. */
  readonly maxConcurrentRequests?: number;
}

type Limits = Omit<ModelLimits, "kind">;

const CHECKS: OptionChecks<Limits> = {
  requestsPerMinute: mustBeWhole("Leave it out for no such limit."),
  tokensPerMinute: mustBeWhole("Leave it out for no such limit."),
  maxConcurrentRequests: mustBeWhole("Leave it out for no such limit."),
};

const gates = new WeakMap<object, LimitsGate>();

/**
 * Creates rate limits for the option `limits` of `openai()` and `aiSdkModel()`, or of your own
 * `Model`. At least one limit is required.
 *
 * Share one object among all models that the provider counts together. It holds for all runs and
 * orchestrators of this process, first come, first served. Other processes are not counted.
 *
 * A call waits before it takes a slot in its run; `queuedMs` of `model.replied` reports the wait.
 * It stops waiting when its agent must end. A `Retry-After` of the provider pauses all calls that
 * share the limits.
 *
 * @throws EspalierError `invalid_argument` if no limit is given, or if a limit is not a positive
 * integer.
 *
 * @example
 * ```ts
 * const limits = modelLimits({ requestsPerMinute: 500, tokensPerMinute: 200_000 });
 * const large = openai("gpt-5.6", { limits });
 * const small = openai("gpt-5.6-mini", { limits });
 * ```
 */
export function modelLimits(options: Omit<ModelLimits, "kind">): ModelLimits {
  checkOptions("modelLimits", options, CHECKS);
  const { requestsPerMinute, tokensPerMinute, maxConcurrentRequests } = options;
  const limitOptions = omitUndefined({ requestsPerMinute, tokensPerMinute, maxConcurrentRequests });
  if (Object.keys(limitOptions).length === 0) {
    const advice = "Set at least one limit, or leave limits out.";
    throw mismatch("modelLimits", "given a limit", "none", advice);
  }
  const limits = Object.freeze({ kind: "model_limits", ...limitOptions } as const);
  gates.set(limits, new LimitsGate(limitOptions));
  return limits;
}

/** Throws `invalid_argument` unless `modelLimits` created the value. */
export function checkModelLimits(field: string, limits: unknown): void {
  findLimitsGate(field, limits);
}

/** Returns the gate of these limits. Throws as `checkModelLimits`. */
export function findLimitsGate(field: string, limits: unknown): LimitsGate {
  const isObject = typeof limits === "object" && limits !== null;
  const gate = isObject ? gates.get(limits) : undefined;
  if (gate !== undefined) return gate;
  const advice = "Create it once with modelLimits({ … }), and share it.";
  throw mismatch(field, "a result of modelLimits()", limits, advice);
}

// LimitsGate: the rate limits of a provider, for all calls of the process that share them. Owns the
// used part of the limits. Each call uses the clock of its run.
// - FIFO: no call passes while an earlier one waits.
// - A call that stops waiting has used nothing. Unused tokens of a call are returned when it ends.
// - A call never starts a wait that exceeds its maximum. It is refused at once, or at its turn.

const MS_PER_MINUTE = 60_000;

/** A call that asks for a place. */
interface LimitsRequest {
  /** Counted input plus the cap. */
  readonly tokens: number;
  readonly clock: Clock;
  /** Like `RetryPolicy.maxDelayMs`. */
  readonly maxDelayMs: number;
}

/** A place in the limits. It is left once. */
interface LimitsPlace {
  /** Problem of the request, in words for the user. */
  readonly warning: string | undefined;
  /** `used`: the tokens that the request really used, or `undefined` if it was not sent. */
  leave(used: number | undefined): void;
}

/**
 * Result of asking for a place.
 * - `paused`: the limits are paused for longer than the call may wait.
 * - `cancelled`: the signal was aborted.
 */
type LimitsResult =
  | { readonly type: "place"; readonly place: LimitsPlace }
  | { readonly type: "paused"; readonly pausedMs: number }
  | { readonly type: "cancelled" };

/**
 * Token bucket that is refilled per minute. A request larger than the available amount leaves a
 * debt.
 */
class Bucket {
  readonly perMinute: number;
  #level: number;
  #atMs = -Infinity;

  constructor(perMinute: number) {
    this.perMinute = perMinute;
    this.#level = perMinute;
  }

  /**
   * Returns the time until the amount, or the capacity if that is less, is available, in
   * milliseconds. 0 if it is available now.
   */
  computeWaitMs(amount: number, nowMs: number): number {
    const missing = Math.min(amount, this.perMinute) - this.#computeLevel(nowMs);
    return missing <= 0 ? 0 : Math.ceil((missing * MS_PER_MINUTE) / this.perMinute);
  }

  take(amount: number): void {
    this.#level -= amount;
  }

  giveBack(amount: number): void {
    this.#level = Math.min(this.perMinute, this.#level + amount);
  }

  #computeLevel(nowMs: number): number {
    const passedMs = Math.max(0, nowMs - this.#atMs);
    // Rounds, so that a floating-point error does not make a request wait a millisecond.
    const level = this.#level + (passedMs * this.perMinute) / MS_PER_MINUTE;
    this.#level = Math.min(this.perMinute, Math.round(level * 1e6) / 1e6);
    this.#atMs = Math.max(this.#atMs, nowMs);
    return this.#level;
  }
}

const CANCELLED: LimitsResult = Object.freeze({ type: "cancelled" });

class LimitsGate {
  readonly #maxConcurrentRequests: number;
  readonly #requests: Bucket | undefined;
  readonly #tokens: Bucket | undefined;
  readonly #queue = new TurnQueue();
  #inFlight = 0;
  /** True while a request larger than a minute's tokens is in flight. */
  #isAlone = false;
  #pausedUntilMs = -Infinity;

  constructor({ requestsPerMinute, tokensPerMinute, maxConcurrentRequests }: Limits) {
    this.#maxConcurrentRequests = maxConcurrentRequests ?? Infinity;
    if (requestsPerMinute !== undefined) this.#requests = new Bucket(requestsPerMinute);
    if (tokensPerMinute !== undefined) this.#tokens = new Bucket(tokensPerMinute);
  }

  /** Waits for a place. */
  async enter(ask: LimitsRequest, signal: AnySignal): Promise<LimitsResult> {
    const request: RoomRequest<LimitsResult> = {
      take: () => this.#take(ask),
      // Wakes the first call when the elapsed time may let it pass.
      startTimer: (wake) => {
        const waitMs = this.#computeWaitMs(ask);
        return waitMs > 0 ? ask.clock.setTimer(waitMs, wake) : undefined;
      },
    };
    return (await this.#queue.enter(request, signal)) ?? CANCELLED;
  }

  /** Pauses all calls for the time that the provider requested. */
  pause(ms: number, clock: Clock): void {
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, clock.monotonicMs() + ms);
    this.#queue.serve();
  }

  /** Returns the rest of the pause. */
  computePausedMs(clock: Clock): number {
    return Math.max(0, this.#pausedUntilMs - clock.monotonicMs());
  }

  /**
   * Returns a place, or the refusal of a wait that is too long, or `undefined` if the call waits.
   */
  #take(ask: LimitsRequest): LimitsResult | undefined {
    const { tokens, clock, maxDelayMs } = ask;
    const pausedMs = this.computePausedMs(clock);
    if (pausedMs > maxDelayMs) return { type: "paused", pausedMs };
    const most = this.#tokens?.perMinute ?? Infinity;
    const isTooLarge = tokens > most;
    const isFull = this.#isAlone || this.#inFlight >= this.#maxConcurrentRequests;
    if (isFull || (isTooLarge && this.#inFlight > 0) || this.#computeWaitMs(ask) > 0)
      return undefined;
    this.#inFlight += 1;
    this.#isAlone = isTooLarge;
    this.#requests?.take(1);
    this.#tokens?.take(tokens);
    const warning = isTooLarge
      ? `A request counts ${tokens} tokens with its cap, above limits.tokensPerMinute (${most}): it is sent alone. Lower maxOutputTokens, or raise the limit.`
      : undefined;
    const leave = (used: number | undefined): void => {
      this.#inFlight -= 1;
      if (isTooLarge) this.#isAlone = false;
      if (used === undefined) this.#requests?.giveBack(1);
      this.#tokens?.giveBack(tokens - (used ?? 0));
      this.#queue.serve();
    };
    return { type: "place", place: { warning, leave } };
  }

  /** Returns the time until the pause and the rates allow the request. */
  #computeWaitMs({ tokens, clock }: LimitsRequest): number {
    const nowMs = clock.monotonicMs();
    return Math.max(
      this.#pausedUntilMs - nowMs,
      this.#requests?.computeWaitMs(1, nowMs) ?? 0,
      this.#tokens?.computeWaitMs(tokens, nowMs) ?? 0,
      0,
    );
  }
}
