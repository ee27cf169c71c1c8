// Goal: the rate limits of a provider are shared by all models that use them, in FIFO order, per
// minute and concurrently, without losing capacity.
// Method: runs of several orchestrators on one manual clock with one limits object; scripted models
// with latches.

import { expect, test } from "vitest";

import { modelLimits } from "../../src/model/model-limits.ts";
import { says, ScriptedModel, type ScriptedReply } from "../../src/testing/scripted-model.ts";
import { openai } from "../../src/model/openai/openai-model.ts";
import { proves } from "../harness/proves.ts";
import { latch, newFixture, flushEventLoop } from "../harness/run-scripted.ts";
import { failing, limited, roleOf } from "../support/limited-models.ts";

/** Creates two orchestrators on one clock. */
function two() {
  const first = newFixture();
  const { clock } = first;
  return { clock, first, second: newFixture({ clock }) };
}

/** Creates a model that counts this many input tokens for each request. */
function counting(script: readonly ScriptedReply[], inputTokens = 10): ScriptedModel {
  return new ScriptedModel(script, { countTokens: () => inputTokens });
}

proves(
  ["M65"],
  "makes a second run wait for the only place and reports the wait as `queuedMs`",
  async () => {
    const { clock, first, second } = two();
    const held = latch();
    const model = limited(
      new ScriptedModel([{ ...says("One."), after: held.opened }, says("Two.")]),
      modelLimits({ maxConcurrentRequests: 1 }),
    );
    const [one, two_] = [first.start(roleOf(model)), second.start(roleOf(model))];
    await flushEventLoop();
    expect([model.requests.length, second.sink.ofType("model.requested").length]).toEqual([1, 0]);
    clock.advance(40);
    held.open();
    const results = [await first.outcome(one), await second.outcome(two_)];
    expect(results.map(({ text }) => text)).toEqual(["One.", "Two."]);
    const waited = [first, second].map(({ sink }) => sink.ofType("model.replied")[0]?.queuedMs);
    expect(waited).toEqual([0, 40]);
    const timings = results.map(({ steps }) => steps[0]?.telemetry.timing.inferenceMs);
    expect(timings, "waiting is no inference").toEqual([40, 0]);
  },
);

proves(
  ["M65"],
  "removes a cancelled request from the queue at once and lets the next one proceed",
  async () => {
    const { clock, first, second } = two();
    const held = latch();
    const model = limited(
      new ScriptedModel([{ ...says("One."), after: held.opened }, says("Three.")]),
      modelLimits({ maxConcurrentRequests: 1, requestsPerMinute: 2 }),
    );
    const runs = [
      first.start(roleOf(model)),
      first.start(roleOf(model)),
      second.start(roleOf(model)),
    ];
    await flushEventLoop();
    void runs[1]?.cancel("Enough.");
    expect((await runs[1]?.settled)?.status).toBe("cancelled");
    held.open();
    const third = await runs[2]?.settled;
    expect([third?.text, model.requests.length, clock.nowMs()]).toEqual(["Three.", 2, 0]);
    expect((await runs[1]?.settled)?.usage.total).toMatchObject({ modelCalls: 0, totalTokens: 0 });
    await runs[0]?.settled;
    expect(clock.pendingTimers).toBe(0);
  },
);

proves(["M65"], "frees the place of an aborted call although its model hangs", async () => {
  const { clock, first, second } = two();
  const never = latch();
  const model = limited(
    new ScriptedModel([
      { ...says("Never."), after: never.opened, ignoresSignal: true },
      says("Two."),
    ]),
    modelLimits({ maxConcurrentRequests: 1 }),
  );
  const one = first.start(roleOf(model));
  const other = second.start(roleOf(model));
  await flushEventLoop();
  void one.cancel("Enough.");
  await flushEventLoop();
  expect(model.requests.length, "within its grace it holds the place").toBe(1);
  clock.advance(5_000);
  expect((await other.settled).text).toBe("Two.");
  never.open();
  await one.settled;
});

proves(
  ["M65"],
  "frees the place of a failed call while it waits for its next attempt",
  async () => {
    const { clock, first, second } = two();
    const model = limited(
      new ScriptedModel([failing("model_unavailable"), says("Two."), says("One.")]),
      modelLimits({ maxConcurrentRequests: 1 }),
    );
    const one = first.start(roleOf(model));
    const other = second.start(roleOf(model));
    expect((await other.settled).text).toBe("Two.");
    clock.advance(500);
    expect((await first.outcome(one)).text).toBe("One.");
  },
);

proves(["M66"], "refills requests one by one, spread over the minute", async () => {
  const { clock, first, second } = two();
  const model = limited(
    new ScriptedModel(() => says("Yes.")),
    modelLimits({ requestsPerMinute: 2 }),
  );
  const runs = [first, second, first, second].map((at) => at.start(roleOf(model)));
  await flushEventLoop();
  const seen: number[] = [model.requests.length];
  for (const ms of [29_999, 1, 29_999, 1]) {
    clock.advance(ms);
    await flushEventLoop();
    seen.push(model.requests.length);
  }
  expect(seen).toEqual([2, 2, 3, 3, 4]);
  for (const run of runs) await run.settled;
  expect(clock.pendingTimers).toBe(0);
});

proves(["M66"], "reserves tokens including the cap and returns unused tokens at once", async () => {
  const { clock, first, second } = two();
  const held = latch();
  const script = [
    { ...says("One.", { usage: { inputTokens: 10, outputTokens: 20 } }), after: held.opened },
    says("Two.", { usage: { inputTokens: 10, outputTokens: 90 } }),
    says("Three."),
  ];
  const model = limited(counting(script), modelLimits({ tokensPerMinute: 150 }));
  const role = roleOf(model, { maxOutputTokens: 90 });
  const runs = [first, second, first].map((at) => at.start(role));
  await flushEventLoop();
  expect(model.requests.length, "100 of 150 are taken").toBe(1);
  held.open();
  await runs[1]?.settled;
  expect([model.requests.length, clock.nowMs()], "30 of 150 were used").toEqual([2, 0]);
  // 130 tokens are used: 80 more are available after 32 seconds.
  clock.advance(31_999);
  await flushEventLoop();
  expect(model.requests.length).toBe(2);
  clock.advance(1);
  expect((await runs[2]?.settled)?.text).toBe("Three.");
});

proves(
  ["M66"],
  "sends a request above `tokensPerMinute` alone, with a warning, and delays others by its debt",
  async () => {
    const { clock, first, second } = two();
    const [small, large] = [latch(), latch()];
    const script = [
      { ...says("Small.", { usage: { inputTokens: 10, outputTokens: 0 } }), after: small.opened },
      { ...says("Large.", { usage: { inputTokens: 10, outputTokens: 290 } }), after: large.opened },
      says("Last."),
    ];
    const limits = modelLimits({ tokensPerMinute: 100 });
    const model = limited(counting(script), limits);
    const [tight, wide] = [10, 490].map((maxOutputTokens) => roleOf(model, { maxOutputTokens }));
    const one = first.start(tight ?? roleOf(model));
    const two_ = second.start(wide ?? roleOf(model));
    const three = first.start(tight ?? roleOf(model));
    await flushEventLoop();
    expect(model.requests.length).toBe(1);
    small.open();
    await one.settled;
    clock.advance(6_000); // All tokens of the minute are available.
    await flushEventLoop();
    expect(model.requests.length).toBe(2);
    clock.advance(600_000);
    await flushEventLoop();
    expect(model.requests.length, "it is alone").toBe(2);
    large.open();
    await two_.settled;
    expect((await three.settled).text).toBe("Last.");
    expect(second.sink.ofType("model.warned").map(({ warning }) => warning)).toEqual([
      "A request counts 500 tokens with its cap, above limits.tokensPerMinute (100): it is sent alone. Lower maxOutputTokens, or raise the limit.",
    ]);
    expect(first.sink.ofType("model.warned")).toEqual([]);
  },
);

proves(["M66"], "delays only requests that share the limits after a Retry-After", async () => {
  const { clock, first, second } = two();
  const limits = modelLimits({ maxConcurrentRequests: 8 });
  const refusing = limited(
    new ScriptedModel([failing("model_rate_limited", { retryAfterMs: 5_000 }), says("Again.")]),
    limits,
  );
  const sharing = limited(new ScriptedModel(() => says("Shared.")), limits);
  const other = limited(
    new ScriptedModel(() => says("Other.")),
    modelLimits({ maxConcurrentRequests: 8 }),
  );
  const one = first.start(roleOf(refusing));
  await flushEventLoop();
  const waiting = [second.start(roleOf(sharing)), first.start(roleOf(sharing))];
  expect((await second.start(roleOf(other)).settled).text).toBe("Other.");
  clock.advance(4_999);
  await flushEventLoop();
  expect(sharing.requests.length).toBe(0);
  clock.advance(1);
  expect(await Promise.all(waiting.map(async (run) => (await run.settled).text))).toEqual([
    "Shared.",
    "Shared.",
  ]);
  expect(second.sink.ofType("model.replied").map(({ queuedMs }) => queuedMs)).toEqual([0, 5_000]);
  clock.advance(500);
  expect((await one.settled).text).toBe("Again.");
  expect(clock.pendingTimers).toBe(0);
});

proves(["M66"], "ignores an invalid Retry-After and applies a later valid one", async () => {
  const { clock, first, second } = two();
  const limits = modelLimits({ maxConcurrentRequests: 8 });
  const sharing = limited(new ScriptedModel(() => says("Shared.")), limits);
  const refused = async (retryAfterMs: number): Promise<void> => {
    const refusing = new ScriptedModel([
      failing("model_rate_limited", { retryAfterMs }),
      says("Again."),
    ]);
    const run = first.start(roleOf(limited(refusing, limits)));
    await flushEventLoop();
    clock.advance(500);
    expect((await run.settled).text).toBe("Again.");
  };
  for (const wrong of [Number.NaN, Infinity, -1]) await refused(wrong);
  expect((await second.start(roleOf(sharing)).settled).text).toBe("Shared.");
  const refusing = new ScriptedModel([failing("model_rate_limited", { retryAfterMs: 5_000 })]);
  const held = first.start(roleOf(limited(refusing, limits)));
  await flushEventLoop();
  const waiting = second.start(roleOf(sharing));
  await flushEventLoop();
  expect(sharing.requests.length).toBe(1);
  for (const run of [held, waiting]) await run.cancel();
  expect(clock.pendingTimers).toBe(0);
});

proves(
  ["M66"],
  "fails queued and new requests at once if their wait would exceed `maxDelayMs`",
  async () => {
    const { clock, first, second } = two();
    const held = latch();
    const limits = modelLimits({ maxConcurrentRequests: 1 });
    const error = failing("model_rate_limited", { retryAfterMs: 3_600_000 });
    const refusing = limited(new ScriptedModel([{ ...error, after: held.opened }]), limits);
    const sharing = limited(new ScriptedModel(() => says("Shared.")), limits);
    const runs = [first.start(roleOf(refusing)), second.start(roleOf(sharing))];
    await flushEventLoop();
    held.open();
    const ended = await Promise.all(runs.map(async (run) => await run.settled));
    ended.push(await second.start(roleOf(sharing)).settled);
    const waits = { retryAfterMs: 3_600_000, maxDelayMs: 60_000 };
    const paused = { provider: "scripted", model: "scripted", ...waits };
    expect(ended.map(({ errors }) => [errors[0]?.code, errors[0]?.data])).toEqual([
      ["model_rate_limited", waits],
      ["model_rate_limited", paused],
      ["model_rate_limited", paused],
    ]);
    expect([sharing.requests.length, clock.nowMs(), clock.pendingTimers]).toEqual([0, 0, 0]);
  },
);

proves(
  ["M65"],
  "does not let a small request overtake a larger one that waits, until that one is cancelled",
  async () => {
    const { clock, first, second } = two();
    const held = latch();
    const model = limited(
      counting([{ ...says("One."), after: held.opened }, says("Small."), says("Large.")]),
      modelLimits({ tokensPerMinute: 100 }),
    );
    const of = (maxOutputTokens: number) => roleOf(model, { maxOutputTokens });
    const one = first.start(of(50));
    await flushEventLoop();
    const large = second.start(of(50));
    await flushEventLoop();
    const small = first.start(of(10));
    await flushEventLoop();
    expect(model.requests.length).toBe(1);
    void large.cancel("Enough.");
    expect((await small.settled).text).toBe("Small.");
    held.open();
    await one.settled;
    expect(clock.pendingTimers).toBe(0);
  },
);

test("rejects invalid limits and objects that `modelLimits` did not create", () => {
  const refused: readonly [unknown, string][] = [
    [{}, "Expected modelLimits to be given a limit, got"],
    [
      { maxConcurrentRequests: 0 },
      "Expected modelLimits.maxConcurrentRequests to be a whole number from 1 up, got 0.",
    ],
    [{ requestsPerMinute: 1.5 }, "modelLimits.requestsPerMinute to be a whole number from 1 up"],
    [
      { tokensPerMinute: "9" },
      'modelLimits.tokensPerMinute to be a whole number from 1 up, got "9"',
    ],
    [{ parallel: 2 }, "Expected modelLimits.parallel to be one of"],
    [undefined, "Expected modelLimits to be a plain object, got undefined"],
  ];
  for (const [options, message] of refused)
    expect(() => void Reflect.apply(modelLimits, undefined, [options])).toThrow(message);
  const made = modelLimits({ maxConcurrentRequests: 2 });
  expect([made, Object.isFrozen(made)]).toEqual([
    { kind: "model_limits", maxConcurrentRequests: 2 },
    true,
  ]);
  for (const limits of [{ maxConcurrentRequests: 2 }, { ...made }, 3, null]) {
    const advice = "to be a result of modelLimits(), got";
    const model = Object.assign(new ScriptedModel([]), { limits });
    expect(() => void Reflect.apply(openai, undefined, ["m", { limits }])).toThrow(advice);
    expect(() => void Reflect.apply(roleOf, undefined, [model])).toThrow(advice);
  }
  expect(openai("m", { limits: made }).limits).toBe(made);
});
