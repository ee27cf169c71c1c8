// One request to one model: its place in the limits, its slot, its reply or what became of it.

import { abortSignalOf, type AnySignal, type BoundedOutcome } from "../kernel/cancel.ts";
import type { Clock } from "../kernel/clock.ts";
import { defined } from "../kernel/json.ts";
import type { CallSize } from "./believable-usage.ts";
import { checkReply } from "./check-reply.ts";
import { tokensInBytes } from "./count-tokens.ts";
import { failedAttempt, pausedError, type FailedAttempt } from "./failed-attempt.ts";
import type { CacheKey, Model, ModelReply, ModelRequest } from "./model.ts";
import { lineBefore } from "./model-limits.ts";
import type { ModelDelta } from "../protocol/stream-piece.ts";

/** Asks within a slot, and for no longer than its signal allows. Undefined: the signal was aborted before there was a slot. */
export type InSlot = <T>(
  asking: PlannedAsk,
  ask: () => Promise<T>,
) => Promise<BoundedOutcome<T> | undefined>;

/** A model that is about to be asked. */
export interface PlannedAsk {
  /** Keeps it from being asked. */
  readonly signal: AnySignal;
  /** Since when it has waited for its limits. */
  readonly sinceMs: number;
  /** What its limits warn of. */
  readonly warning: string | undefined;
}

export interface AskOptions {
  readonly signal: AnySignal;
  /** Keeps it from being asked; `signal` does, too. */
  readonly startSignal: AnySignal;
  readonly clock: Clock;
  /** How long the request is, as it was counted. */
  readonly inputTokens: number;
  /** How long a pause of its limits it may wait for; 0: another model can be asked. */
  readonly longestWaitMs: number;
  readonly onDelta?: ((delta: ModelDelta) => void) | undefined;
  readonly cacheKey?: CacheKey | undefined;
  readonly inSlot?: InSlot | undefined;
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

/** Never rejects. */
export async function askModel(
  model: Model,
  request: ModelRequest,
  options: AskOptions,
): Promise<AskEnd> {
  const { clock, inputTokens, longestWaitMs, startSignal, inSlot = atOnce } = options;
  const { signal, onDelta, cacheKey } = options;
  const size = { inputTokens, maxOutputTokens: request.maxOutputTokens };
  const arriving = onDelta === undefined ? undefined : new ArrivingReply(onDelta);
  const asked = { signal, cacheKey, arriving };
  const sinceMs = clock.nowMs();
  if (model.limits === undefined) {
    const asking = { signal: startSignal, sinceMs, warning: undefined };
    return endOf(await inSlot(asking, () => answer(model, request, size, asked)), arriving);
  }
  const line = lineBefore("model.limits", model.limits);
  const tokens = inputTokens + request.maxOutputTokens;
  const entered = await line.enter({ tokens, clock, longestWaitMs }, startSignal);
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
    const asking = { signal: startSignal, sinceMs, warning: place.warning };
    end = endOf(await inSlot(asking, () => answer(model, request, size, asked)), arriving);
    // Before it leaves: the next one in the line must not go.
    if (end.type === "failed" && end.error.code === "model_rate_limited")
      line.pause(end.error.retryAfterMs ?? 0, clock);
  } finally {
    place.leave(tokensOf(end, size));
  }
  return end;
}

const atOnce: InSlot = async ({ signal }, ask) =>
  signal.aborted ? undefined : { type: "returned", value: await ask() };

function endOf(
  bounded: BoundedOutcome<AskEnd> | undefined,
  arriving: ArrivingReply | undefined,
): AskEnd {
  if (bounded === undefined) return { type: "unasked" };
  if (bounded.type === "threw") throw bounded.error;
  if (bounded.type === "returned") return bounded.value;
  return { type: "abandoned", lostOutputTokens: arriving?.tokens };
}

/** What a request took of its limits; undefined: it was not sent. What failed is counted by what was sent, and what came of it. */
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

/** `arriving`: who hears of the reply as it comes; undefined: nobody does. */
interface Asked extends Pick<AskOptions, "signal" | "cacheKey"> {
  readonly arriving: ArrivingReply | undefined;
}

async function answer(
  model: Model,
  request: ModelRequest,
  size: CallSize,
  { signal, cacheKey, arriving }: Asked,
): Promise<AskEnd> {
  try {
    const reply = await model.generate(request, {
      signal: abortSignalOf(signal),
      ...defined({ onDelta: arriving?.take, cacheKey }),
    });
    return { type: "replied", reply: checkReply(model, reply, size) };
  } catch (thrown) {
    const failed = failedAttempt(model, thrown, { size, arrived: arriving?.tokens });
    return { type: signal.aborted ? "aborted" : "failed", ...failed };
  } finally {
    arriving?.close();
  }
}

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
