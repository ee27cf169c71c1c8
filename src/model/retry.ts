// generateWithRetries: one logical model call, with the sum of its attempts. Only this file retries
// model calls, and continues with the next model of a fallback.

import { sleep, type AnySignal } from "../kernel/cancel-signal.ts";
import {
  askModel,
  askWithinLimits,
  type RequestEnd,
  type ModelCallOptions,
  clampRandom,
  computeRetryDelay,
  createLongWaitError,
  type FailedAttempt,
} from "./ask-model.ts";
import { signReply } from "./check-reply.ts";
import { asFallback, chooseHopeful, narrowRequest, type Fallback } from "./fallback.ts";
import type { Model, ModelReply, ModelRequest } from "./model.ts";
import type { ModelError } from "./model-error.ts";
import type { ReportedInput } from "./token-usage.ts";
import {
  DEFAULT_MAX_DELAY_MS,
  DEFAULT_MAX_ATTEMPTS,
  DEFAULT_RANDOM,
  type RetryPolicy,
} from "./retry-policy.ts";

/** After a retry, and with another model, the reply that `onDelta` receives starts again. */
export interface RetryOptions extends ModelCallOptions {
  /** Prevents the first request once it is aborted. Defaults to `signal`. */
  readonly noStartSignal?: AnySignal;
  readonly policy: RetryPolicy;
  /** Called before each wait, and before the next model of a fallback is called. Must not throw. */
  onRetry(retry: PlannedRetry): void;
  /**
   * Called after an attempt broke although it is charged. Reserves budget for the next attempt and
   * resolves to its request, or to `undefined` if it is refused. By default the request is
   * repeated.
   */
  payAgain?(log: AttemptLog): Promise<ModelRequest | undefined>;
}

export interface PlannedRetry {
  /** The attempt that failed, from 1. */
  readonly attempt: number;
  readonly error: ModelError;
  /** Delay before the next attempt. */
  readonly delayMs: number;
  /** Set if the attempt continues with this model of a fallback. */
  readonly nextModel?: Model;
}

/** The losses of broken attempts. */
export interface AttemptLoss {
  /** Estimated output tokens of broken attempts, which are lost. */
  readonly lostOutputTokens: number;
  /** Attempts without a reply whose answer had begun, so that their input is charged. */
  readonly brokenAttempts: number;
  /** The input of broken attempts whose provider reported it. */
  readonly lostInputs?: readonly ReportedInput[];
}

/** The cost of a call in addition to its reply. */
export interface AttemptLog extends AttemptLoss {
  /** Attempts that were begun. */
  readonly attempts: number;
  /** The losses by model of a fallback, or absent without a fallback. */
  readonly lossOf?: ReadonlyMap<Model, AttemptLoss>;
}

export type GenerateOutcome =
  | (AttemptLog & {
      readonly type: "replied";
      readonly reply: ModelReply;
      /** The model of a fallback that replied, or absent without a fallback. */
      readonly repliedBy?: Model;
    })
  | (AttemptLog & { readonly type: "failed"; readonly error: ModelError })
  /** An attempt broke, and the budget for another one was refused. */
  | (AttemptLog & { readonly type: "refused"; readonly error: ModelError })
  /**
   * The signal was aborted. If that was during an attempt, the attempt counts as broken even if its
   * answer had not begun, since the provider may charge it.
   */
  | (AttemptLog & { readonly type: "aborted" });

/** State of a call before its next request. */
interface RetriedCall {
  readonly options: RetryOptions;
  /** `undefined` if the model is not a fallback. */
  readonly fallback: Fallback | undefined;
  request: ModelRequest;
  /** Prevents the next request once it is aborted. */
  noStartSignal: AnySignal;
  log: AttemptLog;
}

/** The end of an attempt. Its losses are in the log of the call. */
type AttemptEnd =
  | Pick<Extract<GenerateOutcome, { readonly type: "replied" }>, "type" | "reply" | "repliedBy">
  | (FailedAttempt & { readonly type: "failed" })
  | { readonly type: "refused"; readonly error: ModelError }
  | { readonly type: "aborted" };

const NO_LOSS: AttemptLoss = Object.freeze({ lostOutputTokens: 0, brokenAttempts: 0 });
const ABORTED = Object.freeze({ type: "aborted" } as const);

/**
 * Calls the model until it replies, fails for good, has failed too often, or gets no budget for
 * another attempt. Never rejects. Resolves soon after the signal is aborted, at once between two
 * attempts. One attempt of a fallback calls its models in order, without a wait, until one replies.
 */
export async function generateWithRetries(
  model: Model,
  request: ModelRequest,
  options: RetryOptions,
): Promise<GenerateOutcome> {
  const { signal, clock, policy, noStartSignal = signal } = options;
  const { maxDelayMs = DEFAULT_MAX_DELAY_MS } = policy;
  // Only a fallback has keys of several models.
  const fallback = "replayKeys" in model ? asFallback(model) : undefined;
  const ask = model.limits === undefined ? askModel : askWithinLimits;
  const log = { attempts: 0, ...NO_LOSS };
  const call: RetriedCall = { options, fallback, request, noStartSignal, log };
  let error: ModelError | undefined; // The failure of the last attempt.
  while (!signal.aborted) {
    if (error !== undefined) await waitBeforeRetry(error, call.log.attempts, options);
    if (signal.aborted) break;
    const terms = { noStartSignal: call.noStartSignal, sinceMs: clock.nowMs(), maxDelayMs };
    const end =
      fallback === undefined
        ? countRequest(call, model, await ask(model, call.request, options, terms))
        : await askInOrder(call, fallback);
    if (end.type !== "failed") return { ...end, ...call.log };
    error = end.error;
    if (!error.isRetryable || call.log.attempts >= (policy.maxAttempts ?? DEFAULT_MAX_ATTEMPTS))
      return { type: "failed", error, ...call.log };
    if ((error.retryAfterMs ?? 0) > maxDelayMs)
      return { type: "failed", error: createLongWaitError(error, maxDelayMs), ...call.log };
    if (end.lostOutputTokens !== undefined && !(await chargeNextRequest(call)))
      return { type: "refused", error, ...call.log };
  }
  return { type: "aborted", ...call.log };
}

/**
 * Makes an attempt of a fallback. Returns the failure that is most likely to succeed on a retry.
 */
async function askInOrder(call: RetriedCall, fallback: Fallback): Promise<AttemptEnd> {
  const { options } = call;
  const { signal, clock, policy } = options;
  const { maxDelayMs = DEFAULT_MAX_DELAY_MS } = policy;
  const models = fallback.orderModels(call.request, clock);
  let hopeful: ModelError | undefined;
  for (const [index, model] of models.entries()) {
    const nextModel = models[index + 1];
    const terms = {
      noStartSignal: call.noStartSignal,
      sinceMs: clock.nowMs(),
      maxDelayMs: nextModel === undefined ? maxDelayMs : 0,
    };
    const request = narrowRequest(call.request, model);
    const ask = model.limits === undefined ? askModel : askWithinLimits;
    const requestEnd = await ask(model, request, options, terms);
    const end = countRequest(call, model, requestEnd, index === 0);
    if (end.type === "replied")
      return { ...end, reply: signReply(end.reply, model), repliedBy: model };
    if (end.type !== "failed") return end;
    const { error } = end;
    hopeful = chooseHopeful(hopeful, error);
    const isContinued = fallback.decideFallback(model, error, clock);
    if (!isContinued || nextModel === undefined) return { ...end, error: hopeful };
    if (end.lostOutputTokens !== undefined && !(await chargeNextRequest(call)))
      return { type: "refused", error };
    if (signal.aborted) break;
    options.onRetry({ attempt: call.log.attempts, error, delayMs: 0, nextModel });
  }
  return ABORTED;
}

/** Counts the attempt and the losses of a request that has ended, and returns its end. */
function countRequest(
  call: RetriedCall,
  model: Model,
  end: RequestEnd,
  isFirst = true,
): Exclude<AttemptEnd, { readonly type: "refused" }> {
  if (end.type === "unasked") return ABORTED;
  if (isFirst) call.log = { ...call.log, attempts: call.log.attempts + 1 };
  if (end.type !== "failed" || end.isUnsent !== true) call.noStartSignal = call.options.signal;
  if (end.type === "replied") return end;
  if (end.type === "failed") {
    if (end.lostOutputTokens !== undefined) call.log = addModelLoss(call, model, end);
    return end;
  }
  const { lostOutputTokens = 0 } = end;
  call.log = addModelLoss(call, model, { ...end, lostOutputTokens });
  return ABORTED;
}

/**
 * Reserves budget for the next request after a request whose answer had begun. Returns false if it
 * is refused.
 */
async function chargeNextRequest(call: RetriedCall): Promise<boolean> {
  const { options, log } = call;
  if (options.payAgain === undefined) return true;
  const paid = await options.payAgain(log);
  call.request = paid ?? call.request;
  return paid !== undefined;
}

async function waitBeforeRetry(
  error: ModelError,
  attempt: number,
  options: RetryOptions,
): Promise<void> {
  const { clock, signal, policy } = options;
  const delayMs = computeRetryDelay(attempt, error, clampRandom(policy.random ?? DEFAULT_RANDOM));
  options.onRetry({ attempt, error, delayMs });
  await sleep(clock, delayMs, signal);
}

function addModelLoss({ log, fallback }: RetriedCall, model: Model, lost: LostTokens): AttemptLog {
  const added = addLoss(log, lost);
  if (fallback === undefined) return { ...log, ...added };
  const losses = new Map(log.lossOf);
  losses.set(model, addLoss(losses.get(model) ?? NO_LOSS, lost));
  return { ...log, ...added, lossOf: losses };
}

type LostTokens = Pick<FailedAttempt, "lostOutputTokens" | "lostInput">;

function addLoss(loss: AttemptLoss, { lostOutputTokens = 0, lostInput }: LostTokens): AttemptLoss {
  return {
    lostOutputTokens: loss.lostOutputTokens + lostOutputTokens,
    brokenAttempts: loss.brokenAttempts + 1,
    ...(lostInput === undefined ? {} : { lostInputs: [...(loss.lostInputs ?? []), lostInput] }),
  };
}
