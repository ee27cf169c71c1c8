// generateWithRetries: one logical model call, its attempts counted and added up. The only place that retries model calls, and that goes from
// one model of a fallback to the next.

import { sleep, type AnySignal } from "../kernel/cancel.ts";
import { defined } from "../kernel/json.ts";
import { askModel, askWithinLimits, type AskOptions } from "./ask-model.ts";
import { signedReply } from "./check-reply.ts";
import { chanceBy, delayBefore, waitTooLong, type FailedAttempt } from "./failed-attempt.ts";
import { fallbackOf, moreHopeful, requestFor } from "./fallback.ts";
import type { Model, ModelReply, ModelRequest } from "./model.ts";
import type { ModelError } from "./model-error.ts";
import type { ReportedInput } from "./token-usage.ts";
import {
  DEFAULT_LONGEST_WAIT_MS,
  DEFAULT_MAX_ATTEMPTS,
  DEFAULT_RANDOM,
  type RetryPolicy,
} from "./retry-policy.ts";

/** After a retry, and with another model, the reply that `onDelta` has begins anew. */
export interface RetryOptions extends AskOptions {
  /** Keeps the first request from being sent. Default: `signal`. */
  readonly startSignal?: AnySignal;
  readonly policy: RetryPolicy;
  /** Called before each wait, and before another model of a fallback is asked. Must not throw. */
  onRetry(retry: PlannedRetry): void;
  /**
   * Called after an attempt broke although it is paid for. Gives the request of the next one, once that
   * is paid for; undefined: it is not. Default: the same request.
   */
  payAgain?(error: ModelError, log: AttemptLog): Promise<ModelRequest | undefined>;
}

export interface PlannedRetry {
  /** The attempt that failed, from 1. */
  readonly attempt: number;
  readonly error: ModelError;
  /** How long the next one will be waited for. */
  readonly delayMs: number;
  /** Set if the attempt continues with this model of a fallback. */
  readonly nextModel?: Model;
}

/** What was lost with attempts that broke. */
export interface AttemptLoss {
  /** Output tokens that attempts wrote and that are lost, by estimate. */
  readonly lostOutputTokens: number;
  /** Attempts without a reply whose answer had begun, and whose input is therefore paid for. */
  readonly brokenAttempts: number;
  /** The input of those of them for which their provider reported it. */
  readonly lostInputs?: readonly ReportedInput[];
}

/** What a call cost besides its reply. */
export interface AttemptLog extends AttemptLoss {
  /** Attempts that were begun. */
  readonly attempts: number;
  /** The same by the models of a fallback. Left out: there is none. */
  readonly lossOf?: ReadonlyMap<Model, AttemptLoss>;
}

export type GenerateOutcome =
  | (AttemptLog & {
      readonly type: "replied";
      readonly reply: ModelReply;
      /** Which model of a fallback did. Left out: there is none. */
      readonly answeredBy?: Model;
    })
  | (AttemptLog & { readonly type: "failed"; readonly error: ModelError })
  /** An attempt broke, and another one was not paid for. */
  | (AttemptLog & { readonly type: "unpaid"; readonly error: ModelError })
  /** The signal was aborted. During an attempt: it counts as broken even if its answer had not begun, since it may be paid for. */
  | (AttemptLog & { readonly type: "aborted" });

/**
 * Calls the model until it replies, fails for good, has failed too often, or is not paid for once more. Never rejects; resolves soon
 * after the signal was aborted, at once if that happens between two attempts. An attempt at a fallback asks its models one after another,
 * without a wait, until one replies.
 */
export async function generateWithRetries(
  model: Model,
  given: ModelRequest,
  options: RetryOptions,
): Promise<GenerateOutcome> {
  const { signal, clock, policy } = options;
  const { longestWaitMs = DEFAULT_LONGEST_WAIT_MS } = policy;
  // Only a fallback has keys of several models.
  const fallback = "replayKeys" in model ? fallbackOf(model) : undefined;
  let request = given;
  let startSignal = options.startSignal ?? signal;
  let log: AttemptLog = { attempts: 0, ...NO_LOSS };
  let error: ModelError | undefined; // What failed last.
  let left: readonly Model[] = NONE; // Models of a fallback that the attempt has not asked yet.
  let hopeful: ModelError | undefined; // What the attempt fails with if none of those replies.
  while (!signal.aborted) {
    const before = log;
    if (left.length === 0) {
      if (error !== undefined) await backOff(error, log.attempts, options);
      if (signal.aborted) break;
      log = { ...log, attempts: log.attempts + 1 };
      left = fallback?.inOrder(request, clock) ?? [model];
    } else if (error !== undefined)
      options.onRetry({
        attempt: log.attempts,
        error,
        delayMs: 0,
        ...defined({ nextModel: left[0] }),
      });
    const [asked = model, ...others] = left;
    left = others;
    const shown = fallback === undefined ? request : requestFor(request, asked);
    const patienceMs = others.length > 0 ? 0 : longestWaitMs;
    const end =
      asked.limits === undefined
        ? await askModel(asked, shown, options, { signal: startSignal, sinceMs: clock.nowMs() })
        : await askWithinLimits(asked, shown, options, { startSignal, longestWaitMs: patienceMs });
    if (end.type !== "failed" || end.isUnsent !== true) startSignal = signal;
    switch (end.type) {
      case "unasked":
        return { type: "aborted", ...before };
      case "abandoned":
      case "aborted": {
        const { lostOutputTokens = 0 } = end;
        const lost = { ...end, lostOutputTokens };
        return { type: "aborted", ...withLoss(log, asked, lost, fallback) };
      }
      case "replied":
        return fallback === undefined
          ? { type: "replied", reply: end.reply, ...log }
          : { type: "replied", reply: signedReply(end.reply, asked), answeredBy: asked, ...log };
      case "failed":
        log = withLoss(log, asked, end, fallback);
        error = end.error;
        hopeful = moreHopeful(hopeful, error);
    }
    const hasNext = fallback?.continuesAfter(asked, error, clock) === true && left.length > 0;
    if (!hasNext) {
      error = hopeful;
      left = NONE;
      hopeful = undefined;
      const final = finalError(error, log.attempts, policy);
      if (final !== undefined) return { type: "failed", error: final, ...log };
    }
    if (end.lostOutputTokens === undefined || options.payAgain === undefined) continue;
    const paid = await options.payAgain(error, log);
    if (paid === undefined) return { type: "unpaid", error, ...log };
    request = paid;
  }
  return { type: "aborted", ...log };
}

const NONE: readonly Model[] = Object.freeze([]);
const NO_LOSS: AttemptLoss = Object.freeze({ lostOutputTokens: 0, brokenAttempts: 0 });

/** With what the call fails after its attempt; undefined: it is to be tried again. */
function finalError(
  error: ModelError,
  attempts: number,
  { maxAttempts = DEFAULT_MAX_ATTEMPTS, longestWaitMs = DEFAULT_LONGEST_WAIT_MS }: RetryPolicy,
): ModelError | undefined {
  if (!error.isRetryable || attempts >= maxAttempts) return error;
  return (error.retryAfterMs ?? 0) > longestWaitMs ? waitTooLong(error, longestWaitMs) : undefined;
}

async function backOff(error: ModelError, attempt: number, options: RetryOptions): Promise<void> {
  const { clock, signal, policy } = options;
  const { random = DEFAULT_RANDOM } = policy;
  const delayMs = delayBefore(attempt, error, chanceBy(random));
  options.onRetry({ attempt, error, delayMs });
  await sleep(clock, delayMs, signal);
}

function withLoss(
  log: AttemptLog,
  model: Model,
  lost: Lost,
  fallback: object | undefined,
): AttemptLog {
  if (lost.lostOutputTokens === undefined) return log;
  const added = plusLoss(log, lost);
  if (fallback === undefined) return { ...log, ...added };
  const { lossOf = [] } = log;
  const losses = new Map(lossOf);
  losses.set(model, plusLoss(losses.get(model) ?? NO_LOSS, lost));
  return { ...log, ...added, lossOf: losses };
}

type Lost = Pick<FailedAttempt, "lostOutputTokens" | "lostInput">;

function plusLoss(loss: AttemptLoss, { lostOutputTokens = 0, lostInput }: Lost): AttemptLoss {
  return {
    lostOutputTokens: loss.lostOutputTokens + lostOutputTokens,
    brokenAttempts: loss.brokenAttempts + 1,
    ...(lostInput === undefined ? {} : { lostInputs: [...(loss.lostInputs ?? []), lostInput] }),
  };
}
