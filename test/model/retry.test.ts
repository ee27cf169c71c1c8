// Goal: a call is retried when that can help, within its limits, and everything that it cost is
// counted.
// Method: a model that fails by script, a clock moved by hand; at the end the real client against a
// failing server.

import { describe, expect, test, vi } from "vitest";

import { EspalierError, type ModelErrorCode } from "../../src/kernel/error.ts";
import type { Model } from "../../src/model/model.ts";
import { ModelError } from "../../src/model/model-error.ts";
import { checkRetryPolicy } from "../../src/model/retry-policy.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { takeWarnings } from "../harness/process-watch.ts";
import { flushEventLoop } from "../harness/run-scripted.ts";
import {
  REPLY,
  modelOf,
  fails,
  replies,
  speaks,
  trial,
  delays,
  generated,
} from "../support/model-trial.ts";
import { modelAt } from "../support/openai-calls.ts";
import { OpenAiServer, says, status } from "../support/openai-server.ts";
import { texts } from "../support/texts.ts";

test("returns a reply of the first attempt without a wait", async () => {
  expect(await trial(modelOf(replies))).toEqual({
    outcome: { type: "replied", reply: REPLY, attempts: 1, lostOutputTokens: 0, brokenAttempts: 0 },
    retries: [],
    waitedMs: 0,
  });
});

test("retries failures that may pass and announces each one before its wait, which doubles", async () => {
  const { outcome, retries, waitedMs } = await trial(
    modelOf(fails("model_unavailable"), fails("model_timeout"), replies),
  );
  expect(outcome).toEqual({
    type: "replied",
    reply: REPLY,
    attempts: 3,
    lostOutputTokens: 0,
    brokenAttempts: 0,
  });
  expect(
    retries.map(({ attempt, error, delayMs }) => ({ attempt, code: error.code, delayMs })),
  ).toEqual([
    { attempt: 1, code: "model_unavailable", delayMs: 500 },
    { attempt: 2, code: "model_timeout", delayMs: 1_000 },
  ]);
  expect(waitedMs).toBe(1_500);
});

async function attemptsUnder(maxAttempts?: number): Promise<number> {
  return (await trial(modelOf(fails("model_overloaded")), maxAttempts)).outcome.attempts;
}

test("makes three attempts by default, or as many as the policy sets", async () => {
  const attempts = [await attemptsUnder(), await attemptsUnder(1), await attemptsUnder(5)];
  expect(attempts).toEqual([3, 1, 5]);
});

test("returns the last failure when the attempts are used up", async () => {
  const { outcome } = await trial(modelOf(fails("model_timeout"), fails("model_overloaded")), 2);
  expect(outcome).toEqual({
    type: "failed",
    error: new ModelError({ code: "model_overloaded", message: "model_overloaded" }),
    attempts: 2,
    lostOutputTokens: 0,
    brokenAttempts: 0,
  });
});

test.each<ModelErrorCode>([
  "model_invalid_request",
  "model_unauthorized",
  "model_protocol_error",
  "model_invalid_reply",
])("does not retry %s", async (code) => {
  const model = modelOf(fails(code));
  const { outcome, retries } = await trial(model);
  expect([outcome.type, outcome.attempts, retries, model.calls()]).toEqual(["failed", 1, [], 1]);
});

test("counts broken attempts and their lost output, but no attempts that never began", async () => {
  const script = [
    fails("model_unavailable", { lostOutputTokens: 40 }),
    fails("model_rate_limited"),
    fails("model_timeout", { lostOutputTokens: 0 }),
  ];
  const counted = { lostOutputTokens: 40, brokenAttempts: 2 };
  expect((await trial(modelOf(...script, replies), 4)).outcome).toMatchObject({
    type: "replied",
    attempts: 4,
    ...counted,
  });
  expect((await trial(modelOf(...script), 3)).outcome).toMatchObject({
    type: "failed",
    attempts: 3,
    ...counted,
  });
});

test("replaces an implausible loss by the text received and warns", async () => {
  const model = modelOf(
    speaks("Perhaps", fails("model_unavailable", { lostOutputTokens: 1e9 })),
    replies,
  );
  expect((await trial(model, 3, () => {})).outcome).toMatchObject({
    type: "replied",
    lostOutputTokens: Math.ceil("Perhaps".length / 3),
    brokenAttempts: 1,
  });
  await flushEventLoop(); // Warnings are emitted in the next tick.
  expect(takeWarnings()).toEqual([
    expect.stringContaining("reported an impossible loss (lostOutputTokens 1000000000)"),
  ]);
});

test("emits text as it arrives, including text of broken attempts", async () => {
  const pieces: string[] = [];
  const model = modelOf(
    speaks("Per", fails("model_unavailable", { lostOutputTokens: 1 })),
    speaks("Yes.", replies),
  );
  expect(
    (
      await trial(
        model,
        3,
        texts((piece) => pieces.push(piece)),
      )
    ).outcome.type,
  ).toBe("replied");
  expect(pieces).toEqual(["Per", "Yes."]);
});

test("requests a stream only if there is a listener", async () => {
  const asked: boolean[] = [];
  const model = modelOf((options) => {
    asked.push("onDelta" in options);
    return REPLY;
  });
  await trial(model);
  await trial(model, 1, () => {});
  expect(asked).toEqual([false, true]);
});

describe("a model that breaks its contract", () => {
  test.each([new TypeError("x is not a function"), "a text", undefined])(
    "fails without a retry if it throws %s",
    async (thrown) => {
      const model = modelOf(() => {
        throw thrown;
      });
      const { outcome } = await trial(model);
      const said = thrown instanceof Error ? thrown.message : String(thrown);
      expect(outcome).toEqual({
        type: "failed",
        error: new ModelError({
          code: "model_invalid_reply",
          message: `Expected the model scripted to fail with a ModelError, got ${JSON.stringify(said)}. Other errors are neither retried nor passed to a fallback. Correct the model's adapter.`,
          data: { provider: "test", model: "scripted" },
          cause: thrown,
        }),
        attempts: 1,
        lostOutputTokens: 0,
        brokenAttempts: 0,
      });
    },
  );

  test("fails without a retry if it throws before it returns a promise", async () => {
    const model: Model = {
      provider: "test",
      id: "hasty",
      generate() {
        throw new Error("at once");
      },
    };
    expect((await trial(model)).outcome).toMatchObject({
      type: "failed",
      error: { code: "model_invalid_reply" },
    });
  });

  test("fails with model_invalid_reply if it throws another espalier error", async () => {
    const model = modelOf(() => {
      throw new EspalierError({ code: "missing_api_key", message: "no key" });
    });
    expect((await trial(model)).outcome).toMatchObject({
      type: "failed",
      error: { code: "model_invalid_reply" },
    });
  });

  test("is retried if its error comes from another copy of the package", async () => {
    vi.resetModules();
    const copy = await import("../../src/model/model-error.ts");
    const model = modelOf(() => {
      throw new copy.ModelError({
        code: "model_overloaded",
        message: "busy",
        retryAfterMs: 70,
        lostOutputTokens: 9,
      });
    }, replies);
    const result = await trial(model);
    expect(delays(result)).toEqual([77]);
    expect(result.outcome).toMatchObject({
      type: "replied",
      attempts: 2,
      lostOutputTokens: 9,
      brokenAttempts: 1,
    });
  });
});

const run = (model: Model, caller: AbortController, clock: ManualClock, onRetry = (): void => {}) =>
  generated(model, {
    signal: caller.signal,
    clock,
    inputTokens: 10,
    policy: {},
    onDelta: () => {},
    onRetry,
  });

describe("an aborted signal", () => {
  test("prevents the first attempt", async () => {
    const model = modelOf(replies);
    const caller = new AbortController();
    caller.abort();
    expect(await run(model, caller, new ManualClock())).toEqual({
      type: "aborted",
      attempts: 0,
      lostOutputTokens: 0,
      brokenAttempts: 0,
    });
    expect(model.calls()).toBe(0);
  });

  test("ends a wait at once, without another attempt and without a timer left", async () => {
    const model = modelOf(fails("model_unavailable", { lostOutputTokens: 3 }));
    const caller = new AbortController();
    const clock = new ManualClock();
    const outcome = await run(model, caller, clock, () => queueMicrotask(() => caller.abort()));
    expect(outcome).toEqual({
      type: "aborted",
      attempts: 1,
      lostOutputTokens: 3,
      brokenAttempts: 1,
    });
    expect([model.calls(), clock.nowMs(), clock.pendingTimers]).toEqual([1, 0, 0]);
  });

  test("ends an attempt and counts the text received as lost", async () => {
    const caller = new AbortController();
    const model = modelOf(({ signal, onDelta }) => {
      onDelta?.({ type: "text", text: "Per" });
      onDelta?.({ type: "text", text: "haps" });
      caller.abort("enough");
      signal.throwIfAborted();
      return REPLY;
    });
    expect(await run(model, caller, new ManualClock())).toEqual({
      type: "aborted",
      attempts: 1,
      lostOutputTokens: 3,
      brokenAttempts: 1,
    });
  });

  test("does not discard a reply that completed before the model noticed the abort", async () => {
    const caller = new AbortController();
    const model = modelOf(() => {
      caller.abort();
      return REPLY;
    });
    expect((await run(model, caller, new ManualClock())).type).toBe("replied");
  });
});

describe("a retry policy", () => {
  test("requires at least one attempt and rejects unknown fields", () => {
    expect(() => checkRetryPolicy("retry", {})).not.toThrow();
    expect(() => checkRetryPolicy("retry", { maxAttempts: 1 })).not.toThrow();
    expect(() => checkRetryPolicy("retry", { maxAttempts: 0 })).toThrow(
      "Expected retry.maxAttempts to be a whole number from 1 up, got 0. 1 means no retries.",
    );
    expect(() => checkRetryPolicy("retry", { maxAttempts: 1.5 })).toThrow("got 1.5");
    expect(
      () => void Reflect.apply(checkRetryPolicy, undefined, ["retry", { attempts: 2 }]),
    ).toThrow(
      'Expected retry.attempts to be one of maxAttempts, maxDelayMs, random, got "attempts". Use maxAttempts.',
    );
  });
});

test("retries a server that limits rates and then breaks a stream until it replies", async () => {
  await using server = await OpenAiServer.start((_request, count) => {
    if (count === 1) return status(429, { "retry-after-ms": "120" });
    if (count === 2) return says("It is a tree.", { interrupted: { type: "cut", afterChunks: 3 } });
    return says("It is a tree.");
  });
  const pieces: string[] = [];
  const { outcome, retries } = await trial(
    modelAt(server),
    3,
    texts((piece) => pieces.push(piece)),
  );
  expect(
    retries.map(({ attempt, error, delayMs }) => ({ attempt, code: error.code, delayMs })),
  ).toEqual([
    { attempt: 1, code: "model_rate_limited", delayMs: 132 },
    { attempt: 2, code: "model_unavailable", delayMs: 1_000 },
  ]);
  expect(outcome).toMatchObject({
    type: "replied",
    attempts: 3,
    lostOutputTokens: 3,
    brokenAttempts: 1,
  });
  expect(pieces).toEqual(["It i", "s a ", "It i", "s a ", "tree", "."]);
  expect(server.requests.map(({ bodyText }) => bodyText)).toEqual(
    Array(3).fill(server.request(1).bodyText),
  );
});
