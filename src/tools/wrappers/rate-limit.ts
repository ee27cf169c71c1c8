// Rate limits: which calls may start now, and which wait for a place. Each run has a line of its own for each limit, kept weakly; all agents of
// the tree stand in it. Time comes with each call.
// Q1. At most `maxCalls` starts lie in any window of `perMs`: a place is free again `perMs` after the start that took it.
// Q2. First come, first served: no call starts while an earlier one waits.
// Q3. A call that leaves the line takes no place with it. A place is kept from the turn to the start, which comes a moment later.

import { checkKeys, misdefinition } from "../../kernel/check.ts";
import type { Clock } from "../../kernel/clock.ts";
import { checkSpan } from "../check-tool-settings.ts";
import { checkAtLeastOne } from "./wrapped-tool.ts";

/** What a rate limit allows. */
export interface RateLimitOptions {
  /** Most calls that start in any span of `perMs`. At least 1. */
  readonly maxCalls: number;
  /** The length of that span. More than 0. */
  readonly perMs: number;
  /** What happens to a call beyond that: it waits for its turn (default), or it fails and the model reads when to try again. */
  readonly whenExceeded?: "wait" | "refuse";
}

/** A limit that several tools may share. Made by {@link rateLimit}. */
export interface RateLimit extends Required<RateLimitOptions> {
  /** What it is known by. */
  readonly kind: "rate_limit";
}

/** By limit, then by run. */
const linesOf = new WeakMap<object, WeakMap<object, RateLine>>();

/**
 * One limit for several tools: their calls count together.
 *
 * @throws EspalierError `invalid_definition` or `invalid_option`.
 */
export function rateLimit(options: RateLimitOptions): RateLimit {
  return limitNamed("rateLimit", options);
}

/** The limit that is given, or a new one as the options say. */
export function limitNamed(field: string, given: RateLimit | RateLimitOptions): RateLimit {
  if (isRateLimit(given)) return given;
  checkKeys(field, given, ["maxCalls", "perMs", "whenExceeded"]);
  const { maxCalls, perMs, whenExceeded = "wait" } = given;
  checkAtLeastOne(`${field}.maxCalls`, maxCalls, "To forbid a tool, use a guard.");
  checkSpan(`${field}.perMs`, perMs);
  if (whenExceeded !== "wait" && whenExceeded !== "refuse")
    throw misdefinition(`${field}.whenExceeded`, '"wait" or "refuse"', whenExceeded, "Choose one.");
  const limit = Object.freeze({ kind: "rate_limit", maxCalls, perMs, whenExceeded } as const);
  linesOf.set(limit, new WeakMap());
  return limit;
}

function isRateLimit(given: RateLimit | RateLimitOptions): given is RateLimit {
  return linesOf.has(given);
}

/** The line of a run before this limit. */
export function lineOf(limit: RateLimit, run: object): RateLine {
  const lines = linesOf.get(limit);
  const line = lines?.get(run) ?? new RateLine(limit);
  lines?.set(run, line);
  return line;
}

/** The line of one run before one limit: its starts within the span, the places that are kept for calls whose turn has come, and the waiters. */
export class RateLine {
  readonly #limit: RateLimit;
  /** Oldest first. With `#kept` never more than `maxCalls`. */
  #startsMs: readonly number[] = [];
  #kept = 0;
  /** Admit a waiting call each, the earliest first. */
  #waiting: readonly (() => void)[] = [];
  #stopTimer: (() => void) | undefined;

  constructor(limit: RateLimit) {
    this.#limit = limit;
  }

  /** Starts now: true. False: there is no place, or an earlier one has not started yet. */
  startAtOnce(nowMs: number): boolean {
    if (this.#kept > 0 || this.#waiting.length > 0 || !this.#hasPlace(nowMs)) return false;
    this.#startsMs = [...this.#startsMs, nowMs];
    return true;
  }

  /** How long it takes until the oldest start leaves the span. */
  freeInMs(nowMs: number): number {
    return Math.max(0, (this.#startsMs[0] ?? nowMs) + this.#limit.perMs - nowMs);
  }

  /** Waits for a turn. True: a place is kept, for `start` or `giveBack`. False: `signal` was aborted before. */
  wait(clock: Clock, signal: AbortSignal): Promise<boolean> {
    return new Promise((resolve) => {
      const admit = (): void => {
        signal.removeEventListener("abort", leave);
        resolve(true);
      };
      const leave = (): void => {
        this.#waiting = this.#waiting.filter((other) => other !== admit);
        if (this.#waiting.length === 0) this.#stopWaiting();
        resolve(false);
      };
      signal.addEventListener("abort", leave, { once: true });
      this.#waiting = [...this.#waiting, admit];
      this.#serve(clock);
    });
  }

  /** Starts in the place that was kept. Its span begins only now. */
  start(clock: Clock): void {
    this.#startsMs = [...this.#startsMs, clock.monotonicMs()];
    this.giveBack(clock);
  }

  /** Leaves the place that was kept to the next in the line. */
  giveBack(clock: Clock): void {
    this.#kept -= 1;
    this.#serve(clock);
  }

  #serve(clock: Clock): void {
    this.#stopWaiting();
    const nowMs = clock.monotonicMs();
    for (const admit of this.#waiting) {
      if (!this.#hasPlace(nowMs)) break;
      this.#waiting = this.#waiting.slice(1);
      this.#kept += 1;
      admit();
    }
    if (this.#waiting.length === 0) return;
    // Where all places are kept, only the calls that will start in them can be waited for.
    if (this.#startsMs.length > 0)
      this.#stopTimer = clock.setTimer(this.freeInMs(nowMs), () => this.#serve(clock));
  }

  #hasPlace(nowMs: number): boolean {
    const { maxCalls, perMs } = this.#limit;
    this.#startsMs = this.#startsMs.filter((startMs) => startMs + perMs > nowMs);
    return this.#startsMs.length + this.#kept < maxCalls;
  }

  #stopWaiting(): void {
    this.#stopTimer?.();
    this.#stopTimer = undefined;
  }
}
