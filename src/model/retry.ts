// generateWithRetries: one logical model call, its attempts counted and added up. The only place that retries model calls.

import { abortSignalOf, sleep, type AnySignal } from "../kernel/cancel.ts";
import type { Clock } from "../kernel/clock.ts";
import { defined } from "../kernel/json.ts";
import { checkReply } from "./check-reply.ts";
import { tokensInBytes } from "./count-tokens.ts";
import { chanceBy, delayBefore, failedAttempt, waitTooLong } from "./failed-attempt.ts";
import type { CacheKey, Model, ModelReply, ModelRequest } from "./model.ts";
import type { ModelError } from "./model-error.ts";
import type { ModelDelta } from "../protocol/stream-piece.ts";
import {
  DEFAULT_LONGEST_WAIT_MS,
  DEFAULT_MAX_ATTEMPTS,
  DEFAULT_RANDOM,
  type RetryPolicy,
} from "./retry-policy.ts";

export interface RetryOptions {
  readonly signal: AnySignal;
  readonly clock: Clock;
  readonly policy: RetryPolicy;
  /** How long the request is, as it was counted. */
  readonly inputTokens: number;
  /** As `GenerateOptions.onDelta`. After a retry the reply begins anew. */
  readonly onDelta?: (delta: ModelDelta) => void;
  /** As `GenerateOptions.cacheKey`. */
  readonly cacheKey?: CacheKey;
  /** The attempt that broke last, if the call continues after one: how `broken` came out. */
  readonly after?: BrokenAttempt | undefined;
  /** Called before each wait. Must not throw. */
  readonly onRetry: (retry: PlannedRetry) => void;
}

export interface PlannedRetry {
  /** The attempt that failed, from 1. */
  readonly attempt: number;
  readonly error: ModelError;
  /** How long the next one will be waited for. */
  readonly delayMs: number;
}

/** An attempt that broke although it is paid for, and what all attempts so far have cost. */
export interface BrokenAttempt {
  readonly error: ModelError;
  readonly log: AttemptLog;
}

/** What a call cost besides its reply. */
export interface AttemptLog {
  /** Attempts that were begun. */
  readonly attempts: number;
  /** Output tokens that attempts wrote in vain, by estimate. */
  readonly lostOutputTokens: number;
  /** Attempts without a reply whose answer had begun, and whose input is therefore paid for. */
  readonly brokenAttempts: number;
}

export type GenerateOutcome =
  | (AttemptLog & { readonly type: "replied"; readonly reply: ModelReply })
  | (AttemptLog & { readonly type: "failed"; readonly error: ModelError })
  /** An attempt broke that is paid for. Once another one is, call again, with `after`. */
  | (BrokenAttempt & { readonly type: "broken" })
  /** The signal was aborted. `isInFlight`: during an attempt, so that it may be paid for even if its answer had not begun. */
  | (AttemptLog & { readonly type: "aborted"; readonly isInFlight: boolean });

/**
 * Calls the model until it replies, fails for good, has failed too often, or has to be paid for once more. Never rejects; resolves soon
 * after the signal was aborted, at once if that happens between two attempts.
 */
export async function generateWithRetries(
  model: Model,
  request: ModelRequest,
  options: RetryOptions,
): Promise<GenerateOutcome> {
  const { signal, policy, after, inputTokens, onDelta, cacheKey } = options;
  const { maxAttempts = DEFAULT_MAX_ATTEMPTS, longestWaitMs = DEFAULT_LONGEST_WAIT_MS } = policy;
  const size = { inputTokens, maxOutputTokens: request.maxOutputTokens };
  let { log = NO_ATTEMPTS, error } = after ?? {};
  while (!signal.aborted) {
    if (error !== undefined) {
      await backOff(error, log.attempts, options);
      if (signal.aborted) break;
    }
    log = { ...log, attempts: log.attempts + 1 };
    const arriving = onDelta === undefined ? undefined : new ArrivingReply(onDelta);
    try {
      const reply = await model.generate(request, {
        signal: abortSignalOf(signal),
        ...defined({ onDelta: arriving?.take, cacheKey }),
      });
      return { type: "replied", reply: checkReply(model, reply, size), ...log };
    } catch (thrown) {
      const arrived = arriving?.tokens;
      const failed = failedAttempt(model, thrown, { size, arrived });
      const { lostOutputTokens } = failed;
      if (signal.aborted)
        return { type: "aborted", isInFlight: true, ...withLoss(log, lostOutputTokens ?? arrived) };
      ({ error } = failed);
      log = withLoss(log, lostOutputTokens);
      const isLast = log.attempts >= maxAttempts;
      if (!error.isRetryable || isLast) return { type: "failed", error, ...log };
      if ((error.retryAfterMs ?? 0) > longestWaitMs)
        return { type: "failed", error: waitTooLong(error, longestWaitMs), ...log };
      if (lostOutputTokens !== undefined) return { type: "broken", error, log };
    } finally {
      arriving?.close();
    }
  }
  return { type: "aborted", isInFlight: false, ...log };
}

const NO_ATTEMPTS: AttemptLog = { attempts: 0, lostOutputTokens: 0, brokenAttempts: 0 };

/** The reply of one attempt as it arrives, which is measured: what comes after the attempt has ended is dropped. */
class ArrivingReply {
  readonly #onDelta: (delta: ModelDelta) => void;
  #bytes = 0;
  #isOver = false;

  constructor(onDelta: (delta: ModelDelta) => void) {
    this.#onDelta = onDelta;
  }

  readonly take = (delta: ModelDelta): void => {
    if (this.#isOver) return;
    if ("text" in delta) this.#bytes += Buffer.byteLength(delta.text);
    this.#onDelta(delta);
  };

  /** Undefined: none has come. */
  get tokens(): number | undefined {
    return this.#bytes === 0 ? undefined : tokensInBytes(this.#bytes);
  }

  close(): void {
    this.#isOver = true;
  }
}

async function backOff(
  error: ModelError,
  attempt: number,
  { clock, signal, policy: { random = DEFAULT_RANDOM }, onRetry }: RetryOptions,
): Promise<void> {
  const delayMs = delayBefore(attempt, error, chanceBy(random));
  onRetry({ attempt, error, delayMs });
  await sleep(clock, delayMs, signal);
}

function withLoss(log: AttemptLog, lostOutputTokens: number | undefined): AttemptLog {
  if (lostOutputTokens === undefined) return log;
  return {
    ...log,
    lostOutputTokens: log.lostOutputTokens + lostOutputTokens,
    brokenAttempts: log.brokenAttempts + 1,
  };
}
