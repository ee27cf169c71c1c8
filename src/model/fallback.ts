// Fallback: the order in which several models are called. Owns the recent failures, for all runs of
// the process.
//
// A failed model is skipped for `cooldownMs`, unless all models are. While tool calls of the newest
// reply are open, its writer is called first, even after a failure: only the writer can read its
// reasoning in the history.

import type { Clock } from "../kernel/clock.ts";
import type { Model, ModelRequest } from "./model.ts";
import type { ModelError } from "./model-error.ts";
import { toHistory, toReplayKey } from "./recipient-messages.ts";

/** Options of `withFallback`. */
export interface FallbackOptions {
  /**
   * Decides whether the next model is called after this failure. A function that throws counts as
   * `false`.
   *
   * @default after retryable failures (`isRetryable`), `model_unauthorized` and
   * `model_protocol_error`
   *
   * @example
   * ```ts
   * const capable = withFallback([openai("gpt-5.6"), openai("gpt-5.6-mini")], {
   *   shouldFallback: (error) => error.isRetryable || error.code === "model_context_overflow",
   * });
   * ```
   */
  readonly shouldFallback?: (error: ModelError) => boolean;
  /**
   * Time for which a failed model is skipped, in milliseconds.
   *
   * @default 60_000
   */
  readonly cooldownMs?: number;
}

export const DEFAULT_COOLDOWN_MS = 60_000;

const fallbacks = new WeakMap<Model, Fallback>();

/** Returns the fallback behind a model of `withFallback`, or `undefined` for any other model. */
export function asFallback(model: Model): Fallback | undefined {
  return fallbacks.get(model);
}

/** Returns the models of a fallback in order, or the model itself. */
export function getFallbackModels(model: Model): readonly Model[] {
  return fallbacks.get(model)?.models ?? [model];
}

export class Fallback {
  readonly models: readonly Model[];
  readonly #shouldFallback: (error: ModelError) => boolean;
  readonly #cooldownMs: number;
  /** The time until which each model is skipped, by its index and the monotonic clock. */
  #coolUntilMs: number[] = [];

  constructor(
    models: readonly Model[],
    { shouldFallback = isWorthFallback, cooldownMs }: FallbackOptions,
  ) {
    this.models = models;
    this.#shouldFallback = shouldFallback;
    this.#cooldownMs = cooldownMs ?? DEFAULT_COOLDOWN_MS;
  }

  /**
   * Returns the same fallback over copies of its models. Both skip a model that failed in either.
   */
  copyWith(copies: readonly Model[]): Fallback {
    const other = new Fallback(copies, {
      shouldFallback: this.#shouldFallback,
      cooldownMs: this.#cooldownMs,
    });
    other.#coolUntilMs = this.#coolUntilMs;
    return other;
  }

  /** Registers the model through which callers use this fallback. */
  register<Standing extends Model>(model: Standing): Standing {
    fallbacks.set(model, this);
    return model;
  }

  /** Returns the models that one attempt calls, in order. */
  orderModels({ messages }: ModelRequest, clock: Clock): readonly Model[] {
    const nowMs = clock.monotonicMs();
    const ready = this.models.filter(
      (_model, index) => (this.#coolUntilMs[index] ?? -Infinity) <= nowMs,
    );
    const ordered = ready.length === 0 ? this.models : ready;
    const newest = messages.findLast((message) => message.role === "assistant");
    if (newest === undefined || newest.toolCalls.length === 0) return ordered;
    const writer = this.models.find((model) => toReplayKey(model) === newest.writtenBy);
    if (writer === undefined) return ordered;
    return [writer, ...ordered.filter((model) => model !== writer)];
  }

  /**
   * Returns true if the next model is called after this failure. The failed model is then skipped
   * for the cooldown.
   */
  decideFallback(failed: Model, error: ModelError, clock: Clock): boolean {
    try {
      if (!this.#shouldFallback(error)) return false;
    } catch {
      return false;
    }
    this.#coolUntilMs[this.models.indexOf(failed)] = clock.monotonicMs() + this.#cooldownMs;
    return true;
  }
}

function isWorthFallback({ isRetryable, code }: ModelError): boolean {
  return isRetryable || code === "model_unauthorized" || code === "model_protocol_error";
}

/** Returns the request with only the messages and content that this model may read. */
export function narrowRequest(request: ModelRequest, model: Model): ModelRequest {
  const messages = toHistory(request.messages, model);
  return messages === request.messages ? request : Object.freeze({ ...request, messages });
}

/**
 * Returns the failure that is more likely to succeed on a retry: a retryable one, then the one with
 * the shorter `retryAfterMs`.
 */
export function chooseHopeful(earlier: ModelError | undefined, later: ModelError): ModelError {
  if (earlier === undefined || !earlier.isRetryable) return later;
  if (!later.isRetryable) return earlier;
  return (later.retryAfterMs ?? 0) < (earlier.retryAfterMs ?? 0) ? later : earlier;
}
