// Goal: a failing provider is retried after waits that grow, respect its own request and differ at
// random.
// Method: a model that fails by script, a controlled random function, and a clock that skips each
// wait.

import { expect, test } from "vitest";

import { proves } from "../harness/proves.ts";
import { asks, delays, fails, modelOf, replies, trial } from "../support/model-trial.ts";

proves(
  ["M51"],
  "doubles the wait up to eight seconds and reduces it at random by up to a half",
  async () => {
    const waits = async (random: () => number): Promise<readonly number[]> =>
      delays(await trial(modelOf(fails("model_unavailable")), { maxAttempts: 7, random }));
    expect(await waits(() => 1)).toEqual([500, 1_000, 2_000, 4_000, 8_000, 8_000]);
    expect(await waits(() => 0)).toEqual([250, 500, 1_000, 2_000, 4_000, 4_000]);
    expect(await waits(() => 0.5)).toEqual([375, 750, 1_500, 3_000, 6_000, 6_000]);
  },
);

proves(
  ["M51"],
  "waits as long as the provider asks, up to a minute, plus up to a tenth at random",
  async () => {
    const script = [asks(20), asks(0), asks(45_000), asks(60_000), replies];
    const waits = async (random: () => number): Promise<readonly number[]> =>
      delays(await trial(modelOf(...script), { maxAttempts: 5, random }));
    expect(await waits(() => 0)).toEqual([20, 0, 45_000, 60_000]);
    expect(await waits(() => 1)).toEqual([22, 0, 49_500, 66_000]);
  },
);

test("uses the middle of the range if `random` is invalid", async () => {
  for (const random of [() => Number.NaN, () => -1, () => 2, broken])
    expect(
      delays(await trial(modelOf(fails("model_unavailable")), { maxAttempts: 2, random })),
    ).toEqual([375]);
});

function broken(): number {
  throw new Error("no chance");
}

test("spreads the retries of two calls that failed together by default", async () => {
  const model = modelOf(fails("model_unavailable"));
  const waits = async (): Promise<readonly number[]> =>
    delays(await trial(model, { maxAttempts: 9 }));
  expect(await waits()).not.toEqual(await waits());
});

proves(
  ["M51"],
  "fails at once and reports the requested delay if it exceeds `maxDelayMs`",
  async () => {
    const first = await trial(modelOf(asks(60_001), replies));
    expect([first.retries, first.waitedMs]).toEqual([[], 0]);
    const { outcome } = await trial(modelOf(asks(20), asks(3_600_000), replies), {
      maxDelayMs: 1_000,
    });
    if (outcome.type !== "failed") throw new Error(outcome.type);
    const { code, message, data, retryAfterMs } = outcome.error;
    expect([outcome.attempts, code, message, data, retryAfterMs]).toEqual([
      2,
      "model_rate_limited",
      "model_rate_limited. It requests a retry after 3600 s, but retryPolicy.maxDelayMs allows 1 s.",
      { retryAfterMs: 3_600_000, maxDelayMs: 1_000 },
      3_600_000,
    ]);
    const patient = await trial(modelOf(asks(3_600_000), replies), {
      maxDelayMs: 3_600_000,
      random: () => 0,
    });
    expect([patient.outcome.type, patient.waitedMs]).toEqual(["replied", 3_600_000]);
  },
);
