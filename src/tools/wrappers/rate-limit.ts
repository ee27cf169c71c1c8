// Rate limits: which calls may start now, and which wait for a place. Each run has a queue of its own for each limit, kept weakly; all agents
// of the tree wait in it. Time comes with each call.
// At most `maxCalls` starts lie in any window of `perMs`: a place is free again `perMs` after the start that took it.
// First come, first served: no call starts while an earlier one waits. A call that leaves the queue takes no place with it.

import { checkAtLeastOne, checkKeys, misdefinition } from "../../kernel/check.ts";
import type { Clock } from "../../kernel/clock.ts";
import { TurnQueue } from "../../kernel/turn-queue.ts";
import { checkSpan } from "../tool-settings.ts";
import { timeText } from "../tool-timeout.ts";
import type { ToolContext, ToolRuntime } from "../tool-context.ts";
import { ToolError } from "../tool-error.ts";
import type { FunctionTool, FunctionUse } from "../tool.ts";
import { checkWrappable, endedEarly, withRun } from "./wrapped-tool.ts";

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
const windowsOf = new WeakMap<object, WeakMap<object, RateWindow>>();

/**
 * One limit for several tools: their calls count together.
 *
 * @throws EspalierError `invalid_definition` or `invalid_option`.
 */
export function rateLimit(options: RateLimitOptions): RateLimit {
  return limitNamed("rateLimit", options);
}

/** The limit that is given, or a new one as the options say. */
function limitNamed(field: string, given: RateLimit | RateLimitOptions): RateLimit {
  if (isRateLimit(given)) return given;
  checkKeys(field, given, ["maxCalls", "perMs", "whenExceeded"]);
  const { maxCalls, perMs, whenExceeded = "wait" } = given;
  checkAtLeastOne(`${field}.maxCalls`, maxCalls, "To forbid a tool, use a guard.");
  checkSpan(`${field}.perMs`, perMs);
  if (whenExceeded !== "wait" && whenExceeded !== "refuse")
    throw misdefinition(`${field}.whenExceeded`, '"wait" or "refuse"', whenExceeded, "Choose one.");
  const limit = Object.freeze({ kind: "rate_limit", maxCalls, perMs, whenExceeded } as const);
  windowsOf.set(limit, new WeakMap());
  return limit;
}

function isRateLimit(given: RateLimit | RateLimitOptions): given is RateLimit {
  return windowsOf.has(given);
}

/**
 * The tool, of whose calls only so many start in a span of time, counted over the whole tree of a run; another run counts for itself.
 * Give options for a limit of its own, or a `rateLimit()` that it shares with other tools. Around `withRetries` it counts calls, inside
 * of it attempts; inside of `withTimeout`, waiting for a turn is part of the time. A call that waits keeps its place among the tool calls
 * that run at the same time. A resumed run begins to count anew.
 *
 * @throws EspalierError `invalid_definition` or `invalid_option`.
 */
export function withRateLimit<Context>(
  tool: FunctionTool<Context>,
  limit: RateLimit | RateLimitOptions,
): FunctionTool<Context> {
  checkWrappable("withRateLimit", tool);
  const checked = limitNamed("withRateLimit", limit);
  return withRun(tool, (use, context, runtime) => runInTurn(checked, use, context, runtime));
}

async function runInTurn<Context>(
  limit: RateLimit,
  use: FunctionUse<Context>,
  context: ToolContext<Context>,
  runtime: () => ToolRuntime,
): Promise<unknown> {
  const { clock, toolName, run, endSignal } = runtime();
  if (context.signal.aborted) throw endedEarly(toolName);
  const windows = windowsOf.get(limit);
  const window = windows?.get(run) ?? new RateWindow(limit);
  windows?.set(run, window);
  if (!window.startAtOnce(clock)) {
    if (limit.whenExceeded === "refuse")
      throw tooManyCalls(toolName, limit, window.freeInMs(clock.monotonicMs()));
    const signal = AbortSignal.any([context.signal, endSignal]);
    const startMs = await window.waitForTurn(clock, signal);
    if (startMs !== undefined && signal.aborted) window.giveBack(startMs);
    if (startMs === undefined || signal.aborted) throw endedEarly(toolName);
  }
  return await use.run(context, runtime);
}

/** The starts of one run within the span of one limit, and the calls that wait. */
class RateWindow {
  readonly #limit: RateLimit;
  readonly #queue = new TurnQueue();
  /** Oldest first. */
  #startsMs: readonly number[] = [];
  #waiting = 0;

  constructor(limit: RateLimit) {
    this.#limit = limit;
  }

  /** Starts a call now. Returns false if there is no place, or an earlier call waits. */
  startAtOnce(clock: Clock): boolean {
    return this.#waiting === 0 && this.#take(clock) !== undefined;
  }

  /** Returns how long it takes until the oldest start leaves the span. */
  freeInMs(nowMs: number): number {
    return Math.max(0, (this.#startsMs[0] ?? nowMs) + this.#limit.perMs - nowMs);
  }

  /** Waits for a turn. Returns the time of the start, or undefined if `signal` was aborted before. */
  async waitForTurn(clock: Clock, signal: AbortSignal): Promise<number | undefined> {
    this.#waiting += 1;
    const take = (): number | undefined => this.#take(clock);
    const startTimer = (wake: () => void): (() => void) =>
      clock.setTimer(this.freeInMs(clock.monotonicMs()), wake);
    const startMs = await this.#queue.enter({ take, startTimer }, signal);
    this.#waiting -= 1;
    return startMs;
  }

  /** Leaves the place of a call that did not start to the next one. */
  giveBack(startMs: number): void {
    const place = this.#startsMs.indexOf(startMs);
    this.#startsMs = this.#startsMs.filter((_startMs, index) => index !== place);
    this.#queue.serve();
  }

  #take(clock: Clock): number | undefined {
    const nowMs = clock.monotonicMs();
    const { maxCalls, perMs } = this.#limit;
    this.#startsMs = this.#startsMs.filter((startMs) => startMs + perMs > nowMs);
    if (this.#startsMs.length >= maxCalls) return undefined;
    this.#startsMs = [...this.#startsMs, nowMs];
    return nowMs;
  }
}

function tooManyCalls(toolName: string, limit: RateLimit, freeInMs: number): ToolError {
  const { maxCalls, perMs } = limit;
  const retryAfterMs = Math.ceil(freeInMs);
  const often = maxCalls === 1 ? "once" : `${maxCalls} times`;
  return new ToolError(
    `Not executed: the rate limit of ${toolName}, ${often} within ${timeText(perMs)}, is used up.`,
    {
      hint: `Try again in ${timeText(retryAfterMs)}, or continue without it.`,
      data: { maxCalls, perMs, retryAfterMs },
    },
  );
}
