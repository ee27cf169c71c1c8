// What an attempt at a model call that failed results in: the error, what it cost, and how long the next one waits.
// Waits differ by chance, so that calls that failed together are not repeated together. All attempts are within one effect, whose outcome is
// kept: chance changes no replay.

import { EspalierError, messageOf } from "../kernel/error.ts";
import { defined } from "../kernel/json.ts";
import { joinSentences } from "../kernel/sentence.ts";
import { checkLoss, checkLostInput, type CallSize } from "./believable-usage.ts";
import type { Model } from "./model.ts";
import { ModelError } from "./model-error.ts";
import type { ReportedInput } from "./token-usage.ts";

/** An attempt that failed, and the output tokens that it wrote and that are lost. */
export interface FailedAttempt {
  readonly error: ModelError;
  /** Undefined: nothing of an answer had begun, so nothing is paid for. */
  readonly lostOutputTokens: number | undefined;
  /** The input that the provider reported. Left out: it reported none that can be true. */
  readonly lostInput?: ReportedInput;
}

/**
 * What a model threw. `arrived`: the tokens of the text that had come by then; undefined: none had, as far as we know. They are paid for
 * also if the failure says nothing of them.
 */
export function failedAttempt(
  model: Model,
  thrown: unknown,
  { size, arrived }: { readonly size: CallSize; readonly arrived: number | undefined },
): FailedAttempt {
  if (!isModelError(thrown)) return { error: misbehaved(model, thrown), lostOutputTokens: arrived };
  const lost: unknown = thrown.lostOutputTokens;
  const lostOutputTokens =
    lost === undefined ? arrived : checkLoss(model, lost, size, arrived ?? 0);
  const lostInput = checkLostInput(model, thrown.lostInput, size);
  return { error: thrown, lostOutputTokens, ...defined({ lostInput }) };
}

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 8_000;
/** How much longer than asked a call waits at most. */
const LATER = 0.1;

/** What a function of the user's gives, if it is a number from 0 to 1; else the middle. */
export function chanceBy(random: () => number): number {
  try {
    const chance = random();
    return chance >= 0 && chance <= 1 ? chance : 0.5;
  } catch {
    return 0.5;
  }
}

/** How long the next attempt waits after so many that failed. `chance`: from 0 to 1. */
export function delayBefore(failedAttempts: number, error: ModelError, chance: number): number {
  const { retryAfterMs } = error;
  if (retryAfterMs !== undefined) return Math.round(retryAfterMs * (1 + LATER * chance));
  const delayMs = Math.min(FIRST_DELAY_MS * 2 ** (failedAttempts - 1), LONGEST_DELAY_MS);
  return Math.round((delayMs / 2) * (1 + chance));
}

/** The error of a call that would have to wait too long: a request earlier than the provider asked is refused again, and may be locked out longer. */
export function waitTooLong(error: ModelError, longestWaitMs: number): ModelError {
  const { code, message, data, retryAfterMs = 0, lostOutputTokens, lostInput } = error;
  const asked = `It asks to be tried again in ${retryAfterMs / 1_000} s, and retry.longestWaitMs allows waiting for ${longestWaitMs / 1_000} s.`;
  return new ModelError({
    code,
    message: joinSentences([message, asked]),
    data: { ...data, retryAfterMs, longestWaitMs },
    retryAfterMs,
    ...defined({ lostOutputTokens, lostInput }),
    cause: error,
  });
}

/** What a call fails with that is not made, since its limits are paused for longer than it may wait. */
export function pausedError({ provider, id }: Model, pausedMs: number): ModelError {
  const retryAfterMs = Math.ceil(pausedMs);
  return new ModelError({
    code: "model_rate_limited",
    message: `Expected room for a request to ${id} of ${provider}, but its limits are paused for ${retryAfterMs / 1_000} s, as the provider asked.`,
    data: { provider, model: id, retryAfterMs },
    retryAfterMs,
  });
}

/** Also true for the errors of another copy of the package, which a model of the user's may throw. */
function isModelError(thrown: unknown): thrown is ModelError {
  return EspalierError.is(thrown) && "isRetryable" in thrown;
}

function misbehaved(model: Model, thrown: unknown): ModelError {
  return new ModelError({
    code: "model_misbehaved",
    message: EspalierError.is(thrown)
      ? thrown.message
      : `Expected the model ${model.id} to fail with a ModelError, got ${messageOf(thrown)}. Correct the model's adapter.`,
    data: {
      provider: model.provider,
      model: model.id,
      ...(EspalierError.is(thrown) ? { error: thrown.code } : {}),
    },
    cause: thrown,
  });
}
