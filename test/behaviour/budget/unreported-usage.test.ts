// Goal: usage is charged and limits apply even if models, hooks and prices report too little or
// wrong values.
// Method: custom models that do not report their losses; hooks that reply instead of a model;
// prices that are set late.

import { describe, expect, test } from "vitest";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { wrapModelCall } from "../../../src/hooks/hook.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import type { ModelPrice } from "../../../src/model/model-price.ts";
import type { GenerateOptions, Model, ModelReply } from "../../../src/model/model.ts";
import { NO_USAGE } from "../../../src/protocol/usage.ts";
import { asks } from "../../../src/testing/scripted-model.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture, type Fixture } from "../../harness/run-scripted.ts";
import { part, quiet, tool } from "../../harness/scripted-agents.ts";

const INPUT = 10;
/** 900 bytes, at three a token. */
const SAID = "abcdefghi".repeat(100);
const SAID_TOKENS = 300;

/**
 * A role whose model emits `SAID` and then calls `then`. `caps`: the output caps of its requests.
 */
function talker(then: (options: GenerateOptions) => Promise<ModelReply>) {
  const caps: number[] = [];
  const model: Model = {
    provider: "own",
    id: "talker",
    countTokens: () => INPUT,
    generate: async ({ maxOutputTokens }, options) => {
      caps.push(maxOutputTokens);
      options.onDelta?.({ type: "text", text: SAID });
      return await then(options);
    },
  };
  return { role: defineAgent({ name: "talker", instructions: "Talk.", model }), caps };
}

/** Starts a run of the role with a budget and a reader of its stream. */
function heard({ start }: Fixture, role: ReturnType<typeof talker>["role"]) {
  const run = start(role, "Talk.", { budget: { totalTokens: 1_000, timeMs: 60_000 } });
  void (async () => {
    for await (const _piece of run.stream());
  })();
  return run;
}

describe("output streamed before a call failed", () => {
  proves(["D270"], "is charged for each attempt if the failure does not report it", async () => {
    const failure = { code: "model_unavailable", message: "Cut.", retryAfterMs: 0 } as const;
    const { role, caps } = talker(() => Promise.reject(new ModelError(failure)));
    const s = newFixture({ retryPolicy: { maxAttempts: 9 } });
    const { status, reason, usage } = await s.outcome(heard(s, role));
    expect([status, reason.code, usage.total.outputTokens]).toEqual([
      "stopped",
      "token_limit",
      4 * SAID_TOKENS,
    ]);
    expect(caps).toEqual([990, 680, 370, 60]);
  });

  proves(
    ["D270"],
    "is charged if the call fails with another error than `ModelError`",
    async () => {
      const { role } = talker(() => Promise.reject(new TypeError("terminated")));
      const s = newFixture();
      const { status, usage } = await s.outcome(heard(s, role));
      expect([status, usage.total.totalTokens, usage.total.estimatedCalls]).toEqual([
        "failed",
        INPUT + SAID_TOKENS,
        1,
      ]);
    },
  );

  proves(["D270"], "is charged if the model ignores its signal", async () => {
    const { role } = talker(() => new Promise(() => {}));
    const s = newFixture({ graceMs: 100 });
    const run = heard(s, role);
    await quiet();
    void run.cancel();
    s.clock.advance(100);
    const { status, usage } = await s.outcome(run);
    expect([status, usage.total.totalTokens]).toEqual(["cancelled", INPUT + SAID_TOKENS]);
  });

  test("is not charged without a stream reader if the failure reports no loss", async () => {
    const { role } = talker(() => Promise.reject(new TypeError("terminated")));
    const { usage } = await newFixture().run(role);
    expect(usage.total.totalTokens).toBe(0);
  });
});

proves(
  ["D271"],
  "a hook's reply with an impossible usage is charged by the local token count",
  async () => {
    const usage = { inputTokens: 9e8, cachedInputTokens: 0, outputTokens: 1, reasoningTokens: 0 };
    const message = { role: "assistant", text: "x".repeat(30), toolCalls: [] } as const;
    const hook = wrapModelCall(() => Promise.resolve({ message, finishReason: "stop", usage }));
    const { role, model } = part("lead", [], { hooks: [hook] });
    const result = await newFixture().run(role);
    expect(takeWarnings()).toHaveLength(1);
    expect(model.requests).toEqual([]);
    expect(result.usage.total).toEqual({
      ...NO_USAGE,
      modelCalls: 1,
      steps: 1,
      inputTokens: INPUT,
      outputTokens: 10,
      totalTokens: INPUT + 10,
      costUsd: null,
      unpricedCalls: 1,
      estimatedCalls: 1,
    });
  },
);

proves(
  ["D276"],
  "a malformed reply without usage is charged by the length of its text",
  async () => {
    const message = { role: "assistant", text: SAID, toolCalls: [] };
    const model: Model = {
      provider: "own",
      id: "odd",
      countTokens: () => INPUT,
      // @ts-expect-error: an invalid reply.
      generate: () => Promise.resolve({ message, finishReason: "whatever" }),
    };
    const role = defineAgent({ name: "odd", instructions: "Talk.", model });
    const { status, usage } = await newFixture().run(role);
    expect([status, usage.total.totalTokens]).toEqual(["failed", INPUT + SAID_TOKENS]);
  },
);

const ZEROS = { inputTokens: 0, outputTokens: 0 };

proves(["D275"], "a model that reports zeros is charged by the local token count", async () => {
  // Ten counted tokens, and the six characters of the call at three a token.
  const { role, model } = part("lead", () => ({ ...asks("look", {}), usage: ZEROS }), {
    tools: [tool("look", () => "Seen.")],
    maxOutputTokens: 2,
  });
  const { reason, usage } = await newFixture().run(role, { budget: { totalTokens: 36 } });
  expect([reason.code, model.requests.length, usage.total.totalTokens]).toEqual([
    "token_limit",
    3,
    36,
  ]);
  expect(usage.total.estimatedCalls).toBe(3);
});

proves(["D275"], "a hook's reply that reports zeros is charged nothing", async () => {
  const usage = { ...ZEROS, cachedInputTokens: 0, reasoningTokens: 0 };
  const message = { role: "assistant", text: "Known.", toolCalls: [] } as const;
  const hook = wrapModelCall(() => Promise.resolve({ message, finishReason: "stop", usage }));
  const { text, usage: used } = await newFixture().run(part("lead", [], { hooks: [hook] }).role);
  expect([text, used.total]).toEqual(["Known.", { ...NO_USAGE, steps: 1 }]);
});

describe("a price set after the role was defined", () => {
  /** A role whose model gets its price later. */
  function latePriced(price: ModelPrice) {
    const model: { price?: ModelPrice } & Model = {
      provider: "own",
      id: "late",
      generate: () => Promise.reject(new Error("Nobody asks it.")),
    };
    const role = defineAgent({ name: "lead", instructions: "Work.", model });
    model.price = price;
    return role;
  }

  for (const inputUsdPerMillion of [Number.NaN, -1])
    proves(["D272"], `is refused when a run starts if it is ${inputUsdPerMillion}`, () => {
      const role = latePriced({ inputUsdPerMillion, outputUsdPerMillion: 1 });
      const start = () => newFixture().start(role, "Go.", { budget: { costUsd: 1 } });
      expect(start).toThrow(
        `Expected late.price.inputUsdPerMillion to be a number from 0 to 1000000, got ${inputUsdPerMillion}. Set US dollars per million tokens, or leave an unknown price out.`,
      );
    });

  proves(
    ["D272"],
    "applies if it is valid, so a call that is too expensive is refused",
    async () => {
      const role = latePriced({ inputUsdPerMillion: 1, outputUsdPerMillion: 1 });
      const { reason } = await newFixture().run(role, { budget: { costUsd: 0.000_001 } });
      expect(reason.code).toBe("cost_limit");
    },
  );
});
