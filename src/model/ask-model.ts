// Sends one request to one model: waits for its rate limits and its slot, and returns its reply or
// failure.

import { getAbortSignal, awaitWithinBounds, type AnySignal } from "../kernel/cancel-signal.ts";
import type { Clock } from "../kernel/clock.ts";
import { omitUndefined } from "../kernel/json.ts";
import { type CallSize, checkLoss, checkLostInput, checkReply } from "./check-reply.ts";
import { estimateTokensFromBytes } from "./count-tokens.ts";
import type { CacheKey, Model, ModelReply, ModelRequest } from "./model.ts";
import { findLimitsGate } from "./model-limits.ts";
import type { EventScope } from "../protocol/event.ts";
import type { ModelDelta } from "../protocol/stream-part.ts";
import type { Tracing } from "../protocol/tracing.ts";
import { EspalierError, getErrorMessage } from "../kernel/error.ts";
import { joinSentences } from "../kernel/sentence.ts";
import { ModelError } from "./model-error.ts";
import type { ReportedInput } from "./token-usage.ts";

/** A model that is about to be called. */
export interface PlannedRequest {
  /** Prevents the call once it is aborted. */
  readonly noStartSignal: AnySignal;
  /** The time since which it has waited for its limits. */
  readonly sinceMs: number;
  /** Warning of its limits. */
  readonly warning?: string | undefined;
}

/** Options shared by all requests of a call. */
export interface ModelCallOptions {
  readonly signal: AnySignal;
  readonly clock: Clock;
  /** The counted tokens of the request. */
  readonly inputTokens: number;
  readonly onDelta?: ((delta: ModelDelta) => void) | undefined;
  readonly cacheKey?: CacheKey | undefined;
  /**
   * Called before each model call. The model is not called if it returns false. By default the
   * model is called unless `noStartSignal` was aborted.
   */
  enter?(asking: PlannedRequest): boolean | Promise<boolean>;
  /** The place of the requests in a run. Undefined: they belong to no run. */
  readonly place?: { readonly scope: EventScope; readonly recorder: Pick<Tracing, "runInSpan"> };
  /** How long a model may continue after the signal is aborted. Undefined: until it ends. */
  readonly graceMs?: number;
}

/** Terms of a request to a model that may have limits. */
interface RequestTerms extends PlannedRequest {
  /**
   * The longest pause of the limits that the request waits for, or 0 if it can use another model.
   */
  readonly maxDelayMs: number;
}

/**
 * The end of a request.
 * - `unasked`: the signal was aborted before the model was called.
 * - `abandoned`: the signal was aborted and the model exceeded `graceMs`. `lostOutputTokens`: the
 *   output received by then, if known.
 */
export type RequestEnd =
  | { readonly type: "replied"; readonly reply: ModelReply }
  /** `isUnsent`: its limits are paused for longer than it may wait. */
  | ({ readonly type: "failed"; readonly isUnsent?: true } & FailedAttempt)
  | ({ readonly type: "aborted" } & FailedAttempt)
  | { readonly type: "abandoned"; readonly lostOutputTokens: number | undefined }
  | { readonly type: "unasked" };

/** Calls a model once the limits of its provider allow it. Never rejects. */
export async function askWithinLimits(
  model: Model,
  request: ModelRequest,
  options: ModelCallOptions,
  { noStartSignal, sinceMs, maxDelayMs }: RequestTerms,
): Promise<RequestEnd> {
  const { clock } = options;
  const { maxOutputTokens } = request;
  const size = { inputTokens: options.inputTokens, maxOutputTokens };
  const gate = findLimitsGate("model.limits", model.limits);
  const tokens = size.inputTokens + maxOutputTokens;
  const entered = await gate.enter({ tokens, clock, maxDelayMs }, noStartSignal);
  if (entered.type === "cancelled") return { type: "unasked" };
  if (entered.type === "paused")
    return {
      type: "failed",
      isUnsent: true,
      error: createPausedError(model, entered.pausedMs),
      lostOutputTokens: undefined,
    };
  const { place } = entered;
  let end: RequestEnd = { type: "unasked" };
  try {
    end = await askModel(model, request, options, {
      noStartSignal,
      sinceMs,
      warning: place.warning,
    });
    // Pauses before it leaves the gate, so that the next call does not pass.
    if (end.type === "failed" && end.error.code === "model_rate_limited")
      gate.pause(end.error.retryAfterMs ?? 0, clock);
  } finally {
    place.leave(countLimitTokens(end, size));
  }
  return end;
}

/** Calls a model once. Never rejects. */
export async function askModel(
  model: Model,
  request: ModelRequest,
  options: ModelCallOptions,
  asking: PlannedRequest,
): Promise<RequestEnd> {
  const { signal, clock, cacheKey, onDelta, place, graceMs = Infinity } = options;
  const entering = options.enter?.(asking) ?? !asking.noStartSignal.aborted;
  const mayAsk = typeof entering === "boolean" ? entering : await entering;
  if (!mayAsk) return { type: "unasked" };
  const arriving = onDelta && measureReply(onDelta);
  const generation = {
    signal: getAbortSignal(signal),
    ...omitUndefined({ onDelta: arriving?.take, cacheKey }),
  };
  const size = { inputTokens: options.inputTokens, maxOutputTokens: request.maxOutputTokens };
  const generate = (): Promise<ModelReply> => model.generate(request, generation);
  try {
    const working = Promise.resolve(
      place === undefined ? generate() : place.recorder.runInSpan(place.scope, generate),
    );
    const outcome = await awaitWithinBounds(working, { signal, clock, graceMs });
    if (outcome.type === "abandoned")
      return { type: "abandoned", lostOutputTokens: arriving?.tokens() };
    if (outcome.type === "threw") throw outcome.error;
    return { type: "replied", reply: checkReply(model, outcome.value, size) };
  } catch (thrown) {
    const failed = createFailedAttempt(model, thrown, size, arriving?.tokens());
    return { type: signal.aborted ? "aborted" : "failed", ...failed };
  } finally {
    arriving?.close();
  }
}

/** Passes on and measures the reply of an attempt as it arrives. Drops deltas after its end. */
function measureReply(onDelta: (delta: ModelDelta) => void) {
  let bytes = 0;
  let isOver = false;
  return {
    take: (delta: ModelDelta): void => {
      if (isOver) return;
      if ("text" in delta) bytes += Buffer.byteLength(delta.text);
      onDelta(delta);
    },
    tokens: (): number | undefined => (bytes === 0 ? undefined : estimateTokensFromBytes(bytes)),
    close: (): void => {
      isOver = true;
    },
  };
}

/**
 * Returns the tokens to count against the limits, or `undefined` if the request was not sent. A
 * failed request counts its input and the output received.
 */
function countLimitTokens(
  end: RequestEnd,
  { inputTokens, maxOutputTokens }: CallSize,
): number | undefined {
  if (end.type === "unasked") return undefined;
  if ("error" in end) return inputTokens + (end.lostOutputTokens ?? 0);
  const usage = end.type === "replied" ? end.reply.usage : undefined;
  const { inputTokens: input = inputTokens, outputTokens = maxOutputTokens } = usage ?? {};
  return input + outputTokens;
}

// The result of a failed attempt: its error, its cost and the delay of the next attempt. Delays are
// random, so that calls that failed together are not retried together. All attempts belong to one
// effect, whose outcome is persisted: the randomness changes no replay.

/** A failed attempt, with the output tokens that it wrote and that are lost. */
export interface FailedAttempt {
  readonly error: ModelError;
  /** `undefined` if no answer had begun, so that nothing is charged. */
  readonly lostOutputTokens: number | undefined;
  /** The input that the provider reported, if the report is plausible. */
  readonly lostInput?: ReportedInput;
}

/**
 * Returns the attempt for an error thrown by a model. `arrived`: the tokens of the text received by
 * then, `undefined` if none is known. These tokens are charged also if the error does not report
 * them.
 */
function createFailedAttempt(
  model: Model,
  thrown: unknown,
  size: CallSize,
  arrived: number | undefined,
): FailedAttempt {
  if (!ModelError.is(thrown)) {
    const isCoded = EspalierError.is(thrown);
    const error = new ModelError({
      code: "model_invalid_reply",
      message: isCoded
        ? thrown.message
        : `Expected the model ${model.id} to fail with a ModelError, got ${JSON.stringify(getErrorMessage(thrown))}. Other errors are neither retried nor passed to a fallback. Correct the model's adapter.`,
      data: {
        provider: model.provider,
        model: model.id,
        ...(isCoded ? { error: thrown.code } : {}),
      },
      cause: thrown,
    });
    return { error, lostOutputTokens: arrived };
  }
  const lost: unknown = thrown.lostOutputTokens;
  const lostOutputTokens =
    lost === undefined ? arrived : checkLoss(model, lost, size, arrived ?? 0);
  const lostInput = checkLostInput(model, thrown.lostInput, size);
  return { error: thrown, lostOutputTokens, ...omitUndefined({ lostInput }) };
}

const FIRST_DELAY_MS = 500;
const MAX_DELAY_MS = 8_000;
/** Maximum random increase of a requested delay, as a share. */
const JITTER_SHARE = 0.1;

/** Returns the number of the user's function if it is from 0 to 1, and otherwise 0.5. */
export function clampRandom(random: () => number): number {
  try {
    const chance = random();
    return chance >= 0 && chance <= 1 ? chance : 0.5;
  } catch {
    return 0.5;
  }
}

/** Returns the delay of the next attempt, with exponential backoff. `chance`: from 0 to 1. */
export function computeRetryDelay(
  failedAttempts: number,
  error: ModelError,
  chance: number,
): number {
  const { retryAfterMs } = error;
  if (retryAfterMs !== undefined) return Math.round(retryAfterMs * (1 + JITTER_SHARE * chance));
  const delayMs = Math.min(FIRST_DELAY_MS * 2 ** (failedAttempts - 1), MAX_DELAY_MS);
  return Math.round((delayMs / 2) * (1 + chance));
}

/**
 * Returns the error of a call whose delay exceeds `maxDelayMs`. An earlier request would be refused
 * again, and may be locked out for longer.
 */
export function createLongWaitError(error: ModelError, maxDelayMs: number): ModelError {
  const { code, message, data, retryAfterMs = 0, lostOutputTokens, lostInput } = error;
  const requestText = `It requests a retry after ${retryAfterMs / 1_000} s, but retryPolicy.maxDelayMs allows ${maxDelayMs / 1_000} s.`;
  return new ModelError({
    code,
    message: joinSentences([message, requestText]),
    data: { ...data, retryAfterMs, maxDelayMs },
    retryAfterMs,
    ...omitUndefined({ lostOutputTokens, lostInput }),
    cause: error,
  });
}

/** Returns the error of an unsent call: its limits are paused for longer than it may wait. */
function createPausedError({ provider, id }: Model, pausedMs: number): ModelError {
  const retryAfterMs = Math.ceil(pausedMs);
  return new ModelError({
    code: "model_rate_limited",
    message: `Cannot send a request to ${id} of ${provider}: its limits are paused for ${retryAfterMs / 1_000} s, as the provider requested.`,
    data: { provider, model: id, retryAfterMs },
    retryAfterMs,
  });
}
