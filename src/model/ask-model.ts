// One request to one model: its turn within the limits, its slot, and its reply or failure.

import { abortSignalOf, withinBounds, type AnySignal } from "../kernel/cancel.ts";
import type { Clock } from "../kernel/clock.ts";
import { defined } from "../kernel/json.ts";
import type { CallSize } from "./believable-usage.ts";
import { checkReply } from "./check-reply.ts";
import { tokensInBytes } from "./count-tokens.ts";
import { failedAttempt, pausedError, type FailedAttempt } from "./failed-attempt.ts";
import type { CacheKey, Model, ModelReply, ModelRequest } from "./model.ts";
import { findLimitsGate } from "./model-limits.ts";
import type { EventScope } from "../protocol/event.ts";
import type { ModelDelta } from "../protocol/stream-piece.ts";
import type { Tracing } from "../protocol/tracing.ts";

/** A model that is about to be asked. */
export interface PlannedAsk {
  /** Keeps it from being asked. */
  readonly startSignal: AnySignal;
  /** Since when it has waited for its limits. */
  readonly sinceMs: number;
  /** What its limits warn of. */
  readonly warning?: string | undefined;
}

/** Options shared by all requests of a call. */
export interface AskOptions {
  readonly signal: AnySignal;
  readonly clock: Clock;
  /** How long the request is, as it was counted. */
  readonly inputTokens: number;
  readonly onDelta?: ((delta: ModelDelta) => void) | undefined;
  readonly cacheKey?: CacheKey | undefined;
  /** Called before a model is asked. False: it must not be asked any more. Default: it may be, unless `startSignal` was aborted. */
  enter?(asking: PlannedAsk): boolean | Promise<boolean>;
  /** The place of the requests in a run. Default: they belong to no run. */
  readonly place?: { readonly scope: EventScope; readonly recorder: Pick<Tracing, "within"> };
  /** How long a model may continue after the signal was aborted. Default: until it ends. */
  readonly graceMs?: number;
}

/** A request to a model that may have limits. */
export interface AskTerms extends PlannedAsk {
  /** The longest pause of the limits that the request waits for; 0 if another model can be asked. */
  readonly longestWaitMs: number;
}

/**
 * `unasked`: the signal was aborted before. `abandoned`: it was aborted, and the model did not end for too long; `lostOutputTokens`: what had
 * come by then, as far as we know.
 */
export type AskEnd =
  | { readonly type: "replied"; readonly reply: ModelReply }
  /** `isUnsent`: its limits are paused for longer than it may wait. */
  | ({ readonly type: "failed"; readonly isUnsent?: true } & FailedAttempt)
  | ({ readonly type: "aborted" } & FailedAttempt)
  | { readonly type: "abandoned"; readonly lostOutputTokens: number | undefined }
  | { readonly type: "unasked" };

/** Asks a model once the limits of its provider allow it. Never rejects. */
export async function askWithinLimits(
  model: Model,
  request: ModelRequest,
  options: AskOptions,
  { startSignal, sinceMs, longestWaitMs }: AskTerms,
): Promise<AskEnd> {
  const { clock } = options;
  const { maxOutputTokens } = request;
  const size = { inputTokens: options.inputTokens, maxOutputTokens };
  const gate = findLimitsGate("model.limits", model.limits);
  const tokens = size.inputTokens + maxOutputTokens;
  const entered = await gate.enter({ tokens, clock, longestWaitMs }, startSignal);
  if (entered.type === "cancelled") return { type: "unasked" };
  if (entered.type === "paused")
    return {
      type: "failed",
      isUnsent: true,
      error: pausedError(model, entered.pausedMs),
      lostOutputTokens: undefined,
    };
  const { place } = entered;
  let end: AskEnd = { type: "unasked" };
  try {
    end = await askModel(model, request, options, { startSignal, sinceMs, warning: place.warning });
    // Before it leaves: the next call must not pass.
    if (end.type === "failed" && end.error.code === "model_rate_limited")
      gate.pause(end.error.retryAfterMs ?? 0, clock);
  } finally {
    place.leave(tokensOf(end, size));
  }
  return end;
}

/** Asks a model once. Never rejects. */
export async function askModel(
  model: Model,
  request: ModelRequest,
  options: AskOptions,
  asking: PlannedAsk,
): Promise<AskEnd> {
  const { signal, clock, cacheKey, onDelta, place, graceMs = Infinity } = options;
  const entering = options.enter?.(asking) ?? !asking.startSignal.aborted;
  const mayAsk = typeof entering === "boolean" ? entering : await entering;
  if (!mayAsk) return { type: "unasked" };
  const arriving = onDelta === undefined ? undefined : new ArrivingReply(onDelta);
  const generation = {
    signal: abortSignalOf(signal),
    ...defined({ onDelta: arriving?.take, cacheKey }),
  };
  const size = { inputTokens: options.inputTokens, maxOutputTokens: request.maxOutputTokens };
  const generate = (): Promise<ModelReply> => model.generate(request, generation);
  try {
    const working = Promise.resolve(
      place === undefined ? generate() : place.recorder.within(place.scope, generate),
    );
    const asked = await withinBounds(working, { signal, clock, graceMs });
    if (asked.type === "abandoned")
      return { type: "abandoned", lostOutputTokens: arriving?.tokens };
    if (asked.type === "threw") throw asked.error;
    return { type: "replied", reply: checkReply(model, asked.value, size) };
  } catch (thrown) {
    const failed = failedAttempt(model, thrown, { size, arrived: arriving?.tokens });
    return { type: signal.aborted ? "aborted" : "failed", ...failed };
  } finally {
    arriving?.close();
  }
}

/**
 * Returns the tokens to count against the limits, or `undefined` if the request was not sent. A
 * failed request counts its input and the output received.
 */
function tokensOf(end: AskEnd, { inputTokens, maxOutputTokens }: CallSize): number | undefined {
  switch (end.type) {
    case "unasked":
      return undefined;
    case "replied": {
      const { usage } = end.reply;
      return usage === undefined
        ? inputTokens + maxOutputTokens
        : usage.inputTokens + usage.outputTokens;
    }
    case "abandoned":
      return inputTokens + maxOutputTokens;
    case "failed":
    case "aborted":
      return inputTokens + (end.lostOutputTokens ?? 0);
  }
}

/** Passes on and measures the reply of one attempt as it arrives. Drops deltas that come after its end. */
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
