// Parts for tests of repeated model calls: a model that fails by script, and a call under a clock
// that skips each wait.

import { expect } from "vitest";

import type { ModelErrorCode } from "../../src/kernel/error.ts";
import type { GenerateOptions, Model, ModelReply } from "../../src/model/model.ts";
import { ModelError } from "../../src/model/model-error.ts";
import type { RetryPolicy } from "../../src/model/retry-policy.ts";
import {
  generateWithRetries,
  type GenerateOutcome,
  type PlannedRetry,
} from "../../src/model/retry.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { QUESTION } from "./openai-calls.ts";

export const REPLY: ModelReply = {
  message: { role: "assistant", text: "Yes.", toolCalls: [] },
  finishReason: "stop",
};

export type Attempt = (options: GenerateOptions) => ModelReply | Promise<ModelReply>;

/** A model whose attempts go as written; the last one is repeated. */
export function modelOf(...script: readonly Attempt[]): Model & { readonly calls: () => number } {
  let calls = 0;
  return {
    provider: "test",
    id: "scripted",
    calls: () => calls,
    async generate(_request, options) {
      const attempt = script[Math.min(calls, script.length - 1)];
      calls += 1;
      if (attempt === undefined) throw new Error("Expected a script.");
      return await attempt(options);
    },
  };
}

export const fails =
  (
    code: ModelErrorCode,
    more: { retryAfterMs?: number; lostOutputTokens?: number } = {},
  ): Attempt =>
  () => {
    throw new ModelError({ code, message: code, ...more });
  };
export const replies: Attempt = () => REPLY;

export const asks = (retryAfterMs: number): Attempt =>
  fails("model_rate_limited", { retryAfterMs });
export const speaks =
  (text: string, then: Attempt): Attempt =>
  (options) => {
    options.onDelta?.({ type: "text", text });
    return then(options);
  };

/** The call; each attempt that broke is paid for once more. */
export function generated(
  model: Model,
  options: Parameters<typeof generateWithRetries>[2],
): Promise<GenerateOutcome> {
  return generateWithRetries(model, QUESTION, options);
}

export interface Trial {
  readonly outcome: GenerateOutcome;
  readonly retries: readonly PlannedRetry[];
  readonly waitedMs: number;
}

/** Runs a call under a clock that jumps over each wait. */
export async function trial(
  model: Model,
  policy: number | RetryPolicy = { random: () => 1 },
  onDelta?: GenerateOptions["onDelta"],
): Promise<Trial> {
  const clock = new ManualClock();
  const retries: PlannedRetry[] = [];
  const outcome = await generated(model, {
    signal: new AbortController().signal,
    clock,
    inputTokens: 10,
    policy: typeof policy === "number" ? { maxAttempts: policy, random: () => 1 } : policy,
    ...(onDelta === undefined ? {} : { onDelta }),
    onRetry: (retry) => {
      retries.push(retry);
      queueMicrotask(() => clock.advance(retry.delayMs));
    },
  });
  expect(clock.pendingTimers).toBe(0);
  return { outcome, retries, waitedMs: clock.nowMs() };
}

export const delays = ({ retries }: Trial): readonly number[] =>
  retries.map((retry) => retry.delayMs);
