// Rate limits: decide which calls may start now, and queue the others. Each run has its own queue
// per limit, held weakly and shared by all agents of the tree. Each call passes its clock.
// - At most `maxCalls` calls start in any window of `windowMs`. A place is free `windowMs` after
//   the start that took it.
// - FIFO: no call starts while an earlier one waits. A call that leaves the queue takes no place.

import { checkAtLeastOne, checkKeys, mismatch } from "../../kernel/argument-checks.ts";
import type { Clock } from "../../kernel/clock.ts";
import { TurnQueue } from "../../kernel/turn-queue.ts";
import { checkSpan } from "../tool-settings.ts";
import { formatExactDuration } from "../tool-timeout.ts";
import type { ToolContext, ToolRuntime } from "../tool-context.ts";
import { ToolError } from "../tool-error.ts";
import type { FunctionTool, FunctionUse } from "../tool.ts";
import { checkWrappable, createEndedEarlyError, replaceRun } from "./wrapped-tool.ts";

/**
 * Options of a rate limit: a sliding window over the starts of calls.
 *
 * @example
 * ```ts
 * const options: RateLimitOptions = { maxCalls: 20, windowMs: 1_000, exceededPolicy: "refuse" };
 * ```
 */
export interface RateLimitOptions {
  /** Maximum number of calls that start within any window of `windowMs`. At least 1. */
  readonly maxCalls: number;
  /** Length of the window in milliseconds. Greater than 0. */
  readonly windowMs: number;
  /**
   * The treatment of a call beyond the limit. `"wait"` delays it in a FIFO queue. `"refuse"` fails
   * it, and the model reads when to try again.
   *
   * @default "wait"
   */
  readonly exceededPolicy?: "wait" | "refuse";
}

/** A rate limit that several tools may share, created by `rateLimit`. */
export interface RateLimit extends Required<RateLimitOptions> {
  /** Distinguishes a rate limit from its options. */
  readonly kind: "rate_limit";
}

/** The windows by limit and by run. */
const windowsByLimit = new WeakMap<object, WeakMap<object, RateWindow>>();

/**
 * Creates one rate limit for several tools. Their calls count together.
 *
 * @throws EspalierError `invalid_argument` if `exceededPolicy` is unknown.
 * @throws EspalierError `invalid_argument` if a field is unknown, or a number is out of range.
 *
 * @example
 * ```ts
 * const api = rateLimit({ maxCalls: 20, windowMs: 1_000 });
 * const limitedSearch = withRateLimit(search, api); // other tools may share `api`
 * ```
 */
export function rateLimit(options: RateLimitOptions): RateLimit {
  return resolveRateLimit("rateLimit", options);
}

/** Returns the given limit, or a new one with the given options. */
function resolveRateLimit(field: string, input: RateLimit | RateLimitOptions): RateLimit {
  if (isRateLimit(input)) return input;
  checkKeys(field, input, ["maxCalls", "windowMs", "exceededPolicy"]);
  const { maxCalls, windowMs, exceededPolicy = "wait" } = input;
  checkAtLeastOne(`${field}.maxCalls`, maxCalls, "To forbid a tool, use a guard.");
  checkSpan(`${field}.windowMs`, windowMs);
  if (exceededPolicy !== "wait" && exceededPolicy !== "refuse")
    throw mismatch(`${field}.exceededPolicy`, '"wait" or "refuse"', exceededPolicy, "Choose one.");
  const limit = Object.freeze({ kind: "rate_limit", maxCalls, windowMs, exceededPolicy } as const);
  windowsByLimit.set(limit, new WeakMap());
  return limit;
}

function isRateLimit(value: RateLimit | RateLimitOptions): value is RateLimit {
  return windowsByLimit.has(value);
}

/**
 * Returns the tool with a rate limit on its calls. The limit counts the calls of all agents of a
 * run. Each run counts for itself, and a resumed run starts at 0.
 *
 * Around `withRetries` it counts calls, inside it attempts. Inside `withTimeout`, the waiting time
 * counts toward the timeout. A waiting call occupies a slot of `concurrency.toolCalls`.
 *
 * @throws EspalierError `invalid_argument` if the tool has no `execute` of its own, or
 * `exceededPolicy` is unknown.
 * @throws EspalierError `invalid_argument` if a field is unknown, or a number is out of range.
 *
 * @example
 * ```ts
 * const politeSearch = withRateLimit(search, { maxCalls: 5, windowMs: 60_000 });
 * ```
 */
export function withRateLimit<Context>(
  tool: FunctionTool<Context>,
  limit: RateLimit | RateLimitOptions,
): FunctionTool<Context> {
  checkWrappable("withRateLimit", tool);
  const checked = resolveRateLimit("withRateLimit", limit);
  return replaceRun(tool, (use, context, runtime) => runInTurn(checked, use, context, runtime));
}

async function runInTurn<Context>(
  limit: RateLimit,
  use: FunctionUse<Context>,
  context: ToolContext<Context>,
  runtime: () => ToolRuntime,
): Promise<unknown> {
  const { clock, toolName, run, endSignal } = runtime();
  if (context.signal.aborted) throw createEndedEarlyError(toolName);
  const windows = windowsByLimit.get(limit);
  const window = windows?.get(run) ?? new RateWindow(limit);
  windows?.set(run, window);
  if (!window.startAtOnce(clock)) {
    if (limit.exceededPolicy === "refuse")
      throw createRateLimitError(toolName, limit, window.freeInMs(clock.monotonicMs()));
    const signal = AbortSignal.any([context.signal, endSignal]);
    const startMs = await window.waitForTurn(clock, signal);
    if (startMs !== undefined && signal.aborted) window.giveBack(startMs);
    if (startMs === undefined || signal.aborted) throw createEndedEarlyError(toolName);
  }
  return await use.run(context, runtime);
}

/** The starts of a run within the window of a limit, and the waiting calls. */
class RateWindow {
  readonly #limit: RateLimit;
  readonly #queue = new TurnQueue();
  /** Oldest first. */
  #startsMs: readonly number[] = [];
  #waiting = 0;

  constructor(limit: RateLimit) {
    this.#limit = limit;
  }

  /** Starts a call now. Returns false if the window is full, or an earlier call waits. */
  startAtOnce(clock: Clock): boolean {
    return this.#waiting === 0 && this.#take(clock) !== undefined;
  }

  /** Returns the milliseconds until the oldest start leaves the window. */
  freeInMs(nowMs: number): number {
    return Math.max(0, (this.#startsMs[0] ?? nowMs) + this.#limit.windowMs - nowMs);
  }

  /**
   * Waits for a turn. Returns the time of the start, or `undefined` if `signal` was aborted before.
   */
  async waitForTurn(clock: Clock, signal: AbortSignal): Promise<number | undefined> {
    this.#waiting += 1;
    const take = (): number | undefined => this.#take(clock);
    const startTimer = (wake: () => void): (() => void) =>
      clock.setTimer(this.freeInMs(clock.monotonicMs()), wake);
    const startMs = await this.#queue.enter({ take, startTimer }, signal);
    this.#waiting -= 1;
    return startMs;
  }

  /** Passes the place of a call that did not start to the next one. */
  giveBack(startMs: number): void {
    const place = this.#startsMs.indexOf(startMs);
    this.#startsMs = this.#startsMs.filter((_startMs, index) => index !== place);
    this.#queue.serve();
  }

  #take(clock: Clock): number | undefined {
    const nowMs = clock.monotonicMs();
    const { maxCalls, windowMs } = this.#limit;
    this.#startsMs = this.#startsMs.filter((startMs) => startMs + windowMs > nowMs);
    if (this.#startsMs.length >= maxCalls) return undefined;
    this.#startsMs = [...this.#startsMs, nowMs];
    return nowMs;
  }
}

function createRateLimitError(toolName: string, limit: RateLimit, freeInMs: number): ToolError {
  const { maxCalls, windowMs } = limit;
  const retryAfterMs = Math.ceil(freeInMs);
  const frequency = maxCalls === 1 ? "once" : `${maxCalls} times`;
  return new ToolError(
    `Not executed: the rate limit of ${toolName}, ${frequency} within ${formatExactDuration(windowMs)}, is used up.`,
    {
      hint: `Try again in ${formatExactDuration(retryAfterMs)}, or continue without it.`,
      data: { maxCalls, windowMs, retryAfterMs },
    },
  );
}
