// Goal: the cost of a call follows from its own length and from the provider's report; a cost limit
// holds as far as a reservation can know the cost.
// Method: scripted models that count, report and break by script; prices of small whole numbers;
// exact figures of the ledger.

import { describe, expect, test } from "vitest";

import { ModelError } from "../../../src/model/model-error.ts";
import type { ModelPrice } from "../../../src/model/model-price.ts";
import type { TokenUsage } from "../../../src/model/token-usage.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { asks, says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture, type Fixture } from "../../harness/run-scripted.ts";
import { approveAll, payTool } from "../../support/pause-stories.ts";
import { part } from "../../harness/scripted-agents.ts";

/** Twice as expensive above 100 tokens of input. */
const TIERED: ModelPrice = {
  inputUsdPerMillion: 1,
  outputUsdPerMillion: 10,
  tiers: [{ aboveInputTokens: 100, inputUsdPerMillion: 2, outputUsdPerMillion: 20 }],
};

function used(inputTokens: number, outputTokens: number, more: Partial<TokenUsage> = {}) {
  return { usage: { inputTokens, outputTokens, ...more } };
}

interface Solo {
  readonly price?: ModelPrice;
  /** The model's token count for every request. */
  readonly counted?: number;
  readonly maxOutputTokens?: number;
}

function solo(script: readonly ScriptedReply[], { price, counted = 10, maxOutputTokens }: Solo) {
  return part("solo", script, {
    scripted: { countTokens: () => counted, ...(price === undefined ? {} : { price }) },
    tools: [payTool()],
    ...(maxOutputTokens === undefined ? {} : { maxOutputTokens }),
  });
}

function costOf({ usage }: RunResult): readonly (number | null)[] {
  const { costUsd, unpricedCalls } = usage.total;
  return [costUsd, unpricedCalls];
}

function warningsOf({ sink }: Fixture): readonly string[] {
  return sink.ofType("model.warned").map(({ warning }) => warning);
}

const cut = new ModelError({
  code: "model_unavailable",
  message: "Cut.",
  retryAfterMs: 0,
  lostOutputTokens: 3,
});

proves(["M60"], "attempts are priced by the tier of each, not of their sum", async () => {
  const { role } = solo([{ error: cut }, { error: cut }, says("Done.", used(90, 5))], {
    price: TIERED,
    counted: 90,
  });
  const result = await newFixture().run(role);
  // 270 tokens of input in all, but 90 in each request.
  expect([result.usage.total.inputTokens, ...costOf(result)]).toEqual([270, 0.00038, 0]);
});

proves(
  ["M60"],
  "a broken attempt is priced by the tier of its own count, and the reply by that of its usage",
  async () => {
    const { role } = solo([{ error: cut }, says("Done.", used(101, 5))], {
      price: TIERED,
      counted: 90,
    });
    const result = await newFixture().run(role);
    expect(costOf(result)).toEqual([0.000422, 0]);
  },
);

describe("under a cost limit", () => {
  const budget = (microUsd: number) => ({ budget: { costUsd: microUsd / 1_000_000 } });

  proves(
    ["M61"],
    "the output cap of a call is computed at the tier of ten percent more input",
    async () => {
      const capAt = async (counted: number): Promise<unknown> => {
        const { role, model } = solo([says("Done.", used(counted, 1))], {
          price: TIERED,
          counted,
          maxOutputTokens: 1_000,
        });
        await newFixture().run(role, budget(1_000));
        return model.requests[0]?.maxOutputTokens;
      };
      // With 90, 910 are left at 10 each; with 91, 818 at 20.
      expect([await capAt(90), await capAt(91)]).toEqual([91, 40]);
    },
  );

  proves(["M61"], "a reservation is settled at the actual tier", async () => {
    const { role } = solo([says("Done.", used(100, 10))], { price: TIERED, counted: 100 });
    const result = await newFixture().run(role, budget(1_000));
    const { total, reserved, excess } = result.accounts[0] ?? expect.fail("no account");
    expect([total.costUsd, reserved.costUsd, excess.costUsd]).toEqual([0.0002, 0, 0]);
  });

  proves(
    ["M61"],
    "a call whose input was undercounted exceeds the limit once, and no call follows",
    async () => {
      const { role, model } = solo([asks("pay", { amount: 5 }, used(150, 91)), says("Never.")], {
        price: TIERED,
        counted: 90,
      });
      const result = await newFixture().run(role, budget(1_000));
      const { total, excess } = result.accounts[0] ?? expect.fail("no account");
      // Reserved: 90 of input and 91 of output at the lower tier. The call used 150 and 91 at the
      // higher one.
      const real = 300 + 1_820;
      expect([total.costUsd, excess.costUsd]).toEqual([
        real / 1_000_000,
        (real - 1_000) / 1_000_000,
      ]);
      expect([result.reason.code, model.requests.length]).toEqual(["cost_limit", 1]);
    },
  );
});

describe("a cost reported by the provider", () => {
  const PRICE = { inputUsdPerMillion: 1, outputUsdPerMillion: 10 };

  proves(["M62"], "is charged instead of the price, whether less or more", async () => {
    for (const reportedCostUsd of [0.000_007, 0.000_111, 0.000_220]) {
      const fixture = newFixture();
      const { role } = solo([says("Done.", used(10, 10, { reportedCostUsd }))], { price: PRICE });
      expect(costOf(await fixture.run(role))).toEqual([reportedCostUsd, 0]);
      expect(warningsOf(fixture)).toEqual([]);
    }
  });

  proves(
    ["D288"],
    "is ignored if it is zero and the model has a price, and the run is warned once",
    async () => {
      const free = used(10, 10, { reportedCostUsd: 0 });
      const script = [asks("free", {}, free), asks("free", {}, free), says("Done.", free)];
      const fixture = newFixture();
      const { role } = solo(script, { price: PRICE, maxOutputTokens: 10 });
      const result = await fixture.run(role, { budget: { costUsd: 0.000_225 } });
      expect([result.reason.code, ...costOf(result)]).toEqual(["cost_limit", 0.00022, 0]);
      expect(warningsOf(fixture)).toEqual([
        "scripted reports that calls of solo-model cost nothing, but the model has a price. Calls are charged at that price. Set the price to 0 if they are free.",
      ]);
    },
  );

  proves(["D288"], "is accepted if it is zero and the price is zero or unknown", async () => {
    const free = says("Done.", used(10, 10, { reportedCostUsd: 0 }));
    const costs = async (more: Solo): Promise<unknown> => {
      const fixture = newFixture();
      const cost = costOf(await fixture.run(solo([free], more).role));
      return [cost, warningsOf(fixture)];
    };
    const nothing = { inputUsdPerMillion: 0, outputUsdPerMillion: 0 };
    expect(await Promise.all([costs({ price: nothing }), costs({})])).toEqual([
      [[0, 0], []],
      [[0, 0], []],
    ]);
  });

  proves(["M62"], "is charged even without a price", async () => {
    const script = [
      asks("free", {}, used(10, 10, { reportedCostUsd: 0.000_010_2 })),
      says("Done.", used(10, 10)),
    ];
    // Rounded up to a whole micro-dollar. The cost of the second call is unknown.
    expect(costOf(await newFixture().run(solo(script, {}).role))).toEqual([0.000011, 1]);
  });

  proves(["M62"], "is charged with one warning per run if it exceeds twice the price", async () => {
    const dear = used(10, 10, { reportedCostUsd: 0.000_221 });
    const { role } = solo([asks("free", {}, dear), says("Done.", dear)], { price: PRICE });
    const fixture = newFixture();
    expect(costOf(await fixture.run(role))).toEqual([0.000442, 0]);
    expect(warningsOf(fixture)).toEqual([
      "scripted reports that calls of solo-model cost more than twice their price. Calls are charged at the reported cost. Correct the price, by which budget is reserved.",
    ]);
  });

  proves(["M62"], "is added to the estimated cost of earlier attempts", async () => {
    const replied = says("Done.", used(10, 10, { reportedCostUsd: 0.000_050 }));
    const costs = async (more: Solo): Promise<unknown> =>
      costOf(await newFixture().run(solo([{ error: cut }, replied], more).role));
    expect([await costs({ price: PRICE }), await costs({})]).toEqual([
      [0.00009, 0],
      [0.00005, 1],
    ]);
  });

  test.each([-1, Number.NaN, Infinity, 1_000_001, "0.1"])(
    "is rejected if it is %s, and the call is charged by the local token count",
    async (cost) => {
      const absurd = Object.assign(used(10, 10).usage, { reportedCostUsd: cost });
      const { role } = solo([says("Done.", Object.assign({}, { usage: absurd }))], {
        price: PRICE,
      });
      const { usage } = await newFixture().run(role);
      expect([usage.total.estimatedCalls, usage.total.costUsd]).toEqual([1, 0.00003]);
      expect(takeWarnings()).toEqual([expect.stringContaining("reportedCostUsd")]);
    },
  );
});

describe("a reply served at another service tier", () => {
  const PRICE = { inputUsdPerMillion: 1, outputUsdPerMillion: 10 };
  const flex = says("Done.", used(10, 10, { serviceTier: "flex" }));

  proves(
    ["M64"],
    "counts as unpriced, and is charged at the known price so that a limit holds",
    async () => {
      const fixture = newFixture({ prices: { getPrice: () => PRICE } });
      expect(costOf(await fixture.run(solo([flex], {}).role))).toEqual([0.00011, 1]);
    },
  );

  proves(["M64"], "is charged at the price that its model was given", async () => {
    expect(costOf(await newFixture().run(solo([flex], { price: PRICE }).role))).toEqual([
      0.00011, 0,
    ]);
  });

  test.each(["default", "standard", "auto", "on_demand"])(
    "is priced as usual at %s, a provider's name of the default tier",
    async (serviceTier) => {
      const fixture = newFixture({ prices: { getPrice: () => PRICE } });
      const reply = says("Done.", used(10, 10, { serviceTier }));
      expect(costOf(await fixture.run(solo([reply], {}).role))).toEqual([0.00011, 0]);
    },
  );
});

test("a price with tiers is preserved in the paused run and in the result", async () => {
  const price = { ...TIERED, cacheWriteUsdPerMillion: 3, asOf: "2026-11-01" };
  const fixture = newFixture();
  const first = solo([asks("pay", { amount: 5 })], { price });
  const paused = await fixture.run(first.role);
  const after = solo([says("Paid.")], { price });
  const run = fixture.resume(after.role, paused.pausedRun, approveAll(paused));
  const result = await fixture.outcome(run);
  const expected = [{ provider: "scripted", model: "solo-model", price }];
  expect([paused.prices, result.prices]).toEqual([expected, expected]);
});
