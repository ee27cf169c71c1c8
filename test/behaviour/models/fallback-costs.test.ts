// Goal: a fallback reserves at the highest rates of its models and charges each model at its own
// price.
// Method: scripted models with prices, complete usages compared; the same across a pause and a
// replay.

import { expect } from "vitest";
import { z } from "zod";

import { omitUndefined } from "../../../src/kernel/json.ts";
import { wrapModelCall } from "../../../src/hooks/hook.ts";
import type { ModelPrice } from "../../../src/model/model-price.ts";
import { withFallback } from "../../../src/model/with-fallback.ts";
import { approve } from "../../../src/protocol/question.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { loadRecording } from "../../../src/testing/replay/recording.ts";
import { replay } from "../../../src/testing/replay/replay.ts";
import { asks, says, ScriptedModel, type ScriptStep } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { failing, roleOf } from "../../support/limited-models.ts";
import { createPriceLookup } from "../../../src/model/prices.ts";

const CHEAP: ModelPrice = { inputUsdPerMillion: 1, outputUsdPerMillion: 100 };
const DEAR: ModelPrice = {
  inputUsdPerMillion: 10,
  cachedInputUsdPerMillion: 5,
  outputUsdPerMillion: 20,
};

const look = defineTool({
  name: "look",
  description: "Looks.",
  inputSchema: z.strictObject({}),
  needsApproval: true,
  execute: () => "Seen.",
});

/** Returns a fallback of a model with cheap input and one with cheap output. */
function pair(first: readonly ScriptStep[], second: readonly ScriptStep[], maxOutputTokens = 50) {
  const main = new ScriptedModel(first, { id: "main", price: CHEAP });
  const spare = new ScriptedModel(second, { id: "spare", price: DEAR });
  const both = withFallback([main, spare]);
  return { main, spare, both, role: roleOf(both, { tools: [look], maxOutputTokens }) };
}

/** Returns tokens, cost and calls by model. */
function figures({ usage }: RunResult): unknown {
  const { total, byModel } = usage;
  const figure = ({ modelCalls, steps, totalTokens, costUsd }: typeof total) => ({
    modelCalls,
    steps,
    totalTokens,
    costUsd,
  });
  const models = Object.entries(byModel).map(([id, used]) => [id, figure(used)]);
  return { total: figure(total), ...Object.fromEntries(models) };
}

proves(
  ["M68"],
  "reserves at the highest rate of each kind, and charges the price of the model that replied",
  async () => {
    const { role, spare, both } = pair([failing("model_unavailable")], [says("Spare.")]);
    expect(createPriceLookup(undefined)(both)).toEqual({
      inputUsdPerMillion: 10,
      cachedInputUsdPerMillion: 5,
      outputUsdPerMillion: 100,
    });
    const s = newFixture();
    // 10 input tokens at 10, and 40 of the cap of 50 at 100, are 4,100 micro-dollars.
    const result = await s.run(role, { budget: { costUsd: 0.0041 } });
    expect(spare.requests.map(({ maxOutputTokens }) => maxOutputTokens)).toEqual([40]);
    const used = { modelCalls: 1, steps: 1, totalTokens: 15, costUsd: 0.0002 };
    const none = { modelCalls: 0, steps: 0, totalTokens: 0, costUsd: 0 };
    expect(figures(result)).toEqual({ total: used, main: none, spare: used });
    expect(result.accounts[0]).toMatchObject({
      otherModels: [{ provider: "scripted", model: "spare", usage: used }],
      reserved: { costUsd: 0 },
    });
    expect(s.sink.ofType("budget.settled")).toMatchObject([
      { usage: used, otherModels: [{ model: "spare", usage: used }] },
    ]);
    expect(result.prices).toEqual([
      { provider: "scripted", model: "main", price: CHEAP },
      { provider: "scripted", model: "spare", price: DEAR },
    ]);
  },
);

proves(
  ["M68"],
  "charges the tokens that a failed model lost before it clamps the next request",
  async () => {
    const { role, spare } = pair(
      [failing("model_unavailable", { lostOutputTokens: 30 })],
      [says("Spare.")],
    );
    const s = newFixture();
    const result = await s.run(role, { budget: { totalTokens: 90 } });
    // 10 + 30 tokens are spent; of the remaining 50, ten are input.
    expect(spare.requests.map(({ maxOutputTokens }) => maxOutputTokens)).toEqual([40]);
    expect([s.clock.nowMs(), figures(result)]).toEqual([
      0,
      {
        total: { modelCalls: 1, steps: 1, totalTokens: 55, costUsd: 0.00321 },
        main: { modelCalls: 0, steps: 0, totalTokens: 40, costUsd: 0.00301 },
        spare: { modelCalls: 1, steps: 1, totalTokens: 15, costUsd: 0.0002 },
      },
    ]);
  },
);

proves(["M68"], "does not call the next model if the budget cannot pay for it", async () => {
  const { role, spare } = pair(
    [failing("model_unavailable", { lostOutputTokens: 90 })],
    [says("Spare.")],
  );
  const result = await newFixture().run(role, { budget: { totalTokens: 100 } });
  expect([result.reason.code, spare.requests.length]).toEqual(["token_limit", 0]);
  expect(figures(result)).toMatchObject({
    total: { modelCalls: 1, totalTokens: 100 },
    main: { modelCalls: 1, totalTokens: 100 },
  });
});

proves(
  ["M68"],
  "charges the lost tokens of both models at their own prices if neither replies",
  async () => {
    const { role } = pair(
      [failing("model_unavailable", { lostOutputTokens: 30 })],
      [failing("model_timeout", { lostOutputTokens: 20 })],
    );
    const result = await newFixture({ retryPolicy: { maxAttempts: 1 } }).run(role);
    expect(figures(result)).toEqual({
      total: { modelCalls: 1, steps: 1, totalTokens: 70, costUsd: 0.00351 },
      main: { modelCalls: 1, steps: 1, totalTokens: 40, costUsd: 0.00301 },
      spare: { modelCalls: 0, steps: 0, totalTokens: 30, costUsd: 0.0005 },
    });
  },
);

proves(["M68"], "counts two calls by a hook as one step, whichever models replied", async () => {
  const { both } = pair([failing("model_unavailable")], [says("One."), says("Two.")]);
  const twice = wrapModelCall(async (_call, next) => {
    await next();
    return await next();
  });
  const result = await newFixture().run(roleOf(both, { hooks: [twice] }));
  const used = { modelCalls: 2, steps: 1, totalTokens: 30, costUsd: 0.0004 };
  const none = { modelCalls: 0, steps: 0, totalTokens: 0, costUsd: 0 };
  expect(figures(result)).toEqual({ total: used, main: none, spare: used });
});

for (const { how, ignoresSignal, lost, expected } of [
  { how: "gives up at once", ignoresSignal: false, lost: undefined, expected: [0, 10, 0.0001] },
  {
    how: "gives up, and the first had lost some",
    ignoresSignal: false,
    lost: 30,
    expected: [40, 10, 0.00311],
  },
  {
    how: "does not, and the first had lost some",
    ignoresSignal: true,
    lost: 30,
    expected: [40, 10, 0.00311],
  },
])
  proves(["M68"], `charges the request of a cancelled model that ${how}`, async () => {
    const held = latch();
    const { both } = pair(
      [failing("model_unavailable", omitUndefined({ lostOutputTokens: lost }))],
      [says("Late.", { after: held.opened, ignoresSignal })],
    );
    const s = newFixture();
    const run = s.start(roleOf(both));
    for (let turn = 0; turn < 20; turn += 1) await flushEventLoop();
    const cancelled = run.cancel();
    await flushEventLoop();
    s.clock.advance(60_000);
    const { usage } = await cancelled;
    held.open();
    const { main, spare } = usage.byModel;
    expect([main?.totalTokens, spare?.totalTokens, usage.total.costUsd]).toEqual(expected);
  });

proves(["M68"], "refuses a cost limit if the price of one model is unknown", async () => {
  const [main, spare] = [
    new ScriptedModel([], { id: "main", price: CHEAP }),
    new ScriptedModel([], { id: "spare" }),
  ];
  const role = roleOf(withFallback([main, spare]));
  expect(() => newFixture().start(role, "Go.", { budget: { costUsd: 1 } })).toThrow(
    "Expected a price for model spare of role solo",
  );
});

proves(
  ["M68"],
  "calls the writer of the open tool calls first after a pause, and adds up usage by model",
  async () => {
    const before = pair([failing("model_unavailable")], [asks("look", {})]);
    const s = newFixture();
    const paused = await s.run(before.role);
    expect(paused.status).toBe("paused");
    const after = pair([], [says("Spare.")]);
    const questions = paused.questions.map((question) => approve(question));
    const resumed = await s.outcome(s.resume(after.role, paused.pausedRun, questions));
    expect([resumed.text, after.main.requests.length]).toEqual(["Spare.", 0]);
    const used = { modelCalls: 2, steps: 2, totalTokens: 30, costUsd: 0.0004 };
    expect(figures(resumed)).toMatchObject({ total: used, spare: used });
  },
);

proves(["M68"], "replays the reply of the same model without calling any", async () => {
  const store = memoryStore();
  const s = newFixture({ store });
  const first = pair([failing("model_unavailable", { lostOutputTokens: 1 })], [says("Spare.")]);
  const done = await s.run(first.role);
  const recording = await loadRecording(store, done.runId);
  const again = pair([], []);
  const replayed = await replay(recording, { role: again.role });
  expect(figures(replayed)).toEqual(figures(done));
  expect(replayed.text).toBe("Spare.");
  expect([again.main.requests.length, again.spare.requests.length]).toEqual([0, 0]);
});
