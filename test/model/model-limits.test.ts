// Goal: what a provider takes is shared by all who are given it, in order, by the minute and at once, and nothing of it is lost.
// Method: runs of several orchestrators on one manual clock, with one object of limits; scripted models with latches.

import { expect, test } from "vitest";

import { modelLimits } from "../../src/model/model-limits.ts";
import { says, ScriptedModel, type ScriptedReply } from "../../src/testing/scripted-model.ts";
import { openai } from "../../src/model/openai/openai-model.ts";
import { proves } from "../harness/proves.ts";
import { latch, newFixture, flushEventLoop } from "../harness/run-scripted.ts";
import { failing, limited, roleOf } from "../support/limited-models.ts";

/** Two orchestrators on one clock. */
function two() {
  const first = newFixture();
  const { clock } = first;
  return { clock, first, second: newFixture({ clock }) };
}

/** A model that is asked for so many tokens in all, its cap included, and says that it used so many. */
function counting(script: readonly ScriptedReply[], inputTokens = 10): ScriptedModel {
  return new ScriptedModel(script, { countTokens: () => inputTokens });
}

proves(
  ["M65"],
  "of two runs that share a place, the second waits without a slot, and its wait is queuedMs",
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
  "who is to end leaves the line at once, and the next one takes its turn",
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

proves(
  ["M65"],
  "a place is free again when its call is aborted, though its model hangs",
  async () => {
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
  },
);

proves(
  ["M65"],
  "a call that broke gives its place back while it waits for its next attempt",
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

proves(["M66"], "requests come back one by one, spread over the minute", async () => {
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

proves(
  ["M66"],
  "tokens are taken with the cap, and what the reply did not use comes back at once",
  async () => {
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
    // 130 are used: 80 more are there after 32 seconds.
    clock.advance(31_999);
    await flushEventLoop();
    expect(model.requests.length).toBe(2);
    clock.advance(1);
    expect((await runs[2]?.settled)?.text).toBe("Three.");
  },
);

proves(
  ["M66"],
  "a request larger than a minute's tokens goes alone, with a warning, and the others wait for its debt",
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
    clock.advance(6_000); // All of the minute's tokens are there.
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

proves(
  ["M66"],
  "a Retry-After holds up all who share the limits for that long, and nobody else",
  async () => {
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
  },
);

proves(
  ["M66"],
  "a Retry-After that is no time holds up nobody, and spoils no later one",
  async () => {
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
  },
);

proves(
  ["M66"],
  "who would be held up for longer than it may wait fails at once, in the line and before it",
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
  "a small request does not go past a larger one that waits, until that leaves",
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

test("what is no limit is refused, and so is what modelLimits did not make", () => {
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
