// Goal: no usage figure of a provider can hang a tree, leak reservations or make a journal
// unreadable.
// Method: trees with a token limit in which a child's model reports an impossible usage while a
// sibling waits for the child's reservation. The journal is read again afterwards.

import { describe, expect, test } from "vitest";

import { NO_AMOUNTS, toSpendAmounts } from "../../../src/policies/budget.ts";
import { checkLoss } from "../../../src/model/check-reply.ts";
import { MAX_TOKENS } from "../../../src/model/count-tokens.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import { computeReplyLimits, estimateReceivedTokens } from "../../../src/model/reply-limits.ts";
import type { TokenUsage } from "../../../src/model/token-usage.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { NO_USAGE } from "../../../src/protocol/usage.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { says, ScriptedModel, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { calls, part, spawn, tool, use } from "../../harness/scripted-agents.ts";

const MOST = Number.MAX_SAFE_INTEGER;
const PRICE = { inputUsdPerMillion: 600, outputUsdPerMillion: 600 };

const ABSURD: readonly (readonly [string, Partial<TokenUsage>])[] = [
  ["all that a number can hold", { inputTokens: MOST, outputTokens: MOST }],
  ["a cost beyond 2^53 micro-dollars", { inputTokens: 16_000_000_000_000 }],
  ["less than nothing", { outputTokens: -1 }],
  ["no number", { inputTokens: Number.NaN }],
  ["a fraction", { outputTokens: 0.5 }],
  ["one token more than ten times the input plus the cap", { outputTokens: 10 * (10 + 100) - 9 }],
  ["more reasoning than output", { reasoningTokens: 6 }],
];

describe("an impossible usage report", () => {
  for (const [what, usage] of ABSURD)
    proves(
      ["S7.1"],
      `${what}: charges the call by the local token count, and the tree continues`,
      async () => {
        const helper = part(
          "helper",
          [{ ...calls(use("look")), usage }, says("x".repeat(30), { usage })],
          {
            tools: [tool("look", () => "seen")],
            maxOutputTokens: 100,
            scripted: { price: PRICE },
          },
        );
        const lead = part(
          "lead",
          [calls(spawn("helper", "A"), spawn("other", "B")), says("Done.")],
          {
            subagents: [
              helper.role,
              part("other", [says("Other.")], { maxOutputTokens: 400 }).role,
            ],
            maxOutputTokens: 100,
          },
        );
        const store = memoryStore({ clock: new ManualClock() });
        const s = newFixture({ store });
        const result = await s.run(lead.role, { budget: { totalTokens: 500 } });
        expect(result.agents.map((agent) => [agent.agentPath, agent.status])).toEqual([
          ["lead", "completed"],
          ["lead/helper#1", "completed"],
          ["lead/other#1", "completed"],
        ]);
        // The call of `look` has 6 characters, the text 30, at three a token; the input was counted
        // as 10.
        expect(result.agents[1]?.usage.own).toEqual({
          ...NO_USAGE,
          modelCalls: 2,
          steps: 2,
          toolCalls: 1,
          inputTokens: 20,
          outputTokens: 12,
          totalTokens: 32,
          costUsd: (32 * 600) / 1_000_000,
          estimatedCalls: 2,
        });
        for (const { reserved } of result.accounts)
          expect(reserved).toEqual(toSpendAmounts(NO_AMOUNTS));
        const warnings = takeWarnings();
        expect(warnings).toHaveLength(1);
        expect(warnings[0]).toContain(
          "The model helper-model of scripted reported an impossible usage (",
        );
        expect(await new Orchestrator({ store }).getResult(result.runId)).toEqual(result);
      },
    );

  test("accepts ten times the counted input plus the cap, and charges it in full", async () => {
    const helper = part(
      "helper",
      [says("Here.", { usage: { outputTokens: 10 * (10 + 100) - 10 } })],
      {
        maxOutputTokens: 100,
      },
    );
    const result = await newFixture().run(helper.role);
    const { totalTokens, estimatedCalls } = result.usage.total;
    expect([totalTokens, estimatedCalls]).toEqual([1_100, 0]);
  });

  for (const lost of [MOST, 1e9, 10 * (10 + 100) + 1_367, -1, 0.5, Number.NaN])
    proves(
      ["S7.1"],
      `treats a reported loss of ${lost} as the received tokens, warns once, and continues the run`,
      async () => {
        const { role } = part("helper", [brokenAfter(lost), brokenAfter(lost), says("Here.")], {
          maxOutputTokens: 100,
        });
        const result = await newFixture().run(role, { budget: { totalTokens: 900 } });
        const { totalTokens, estimatedCalls } = result.usage.total;
        // The broken attempts: their input; the last: 10 + 5.
        expect([result.status, totalTokens, estimatedCalls]).toEqual(["completed", 35, 2]);
        expect(takeWarnings()).toEqual([
          `EspalierWarning: The model helper-model of scripted reported an impossible loss (lostOutputTokens ${lost}) for a call of 10 counted input tokens and a cap of 100. Such calls are charged by the token count of espalier. Check the server, or the model's adapter.`,
        ]);
      },
    );

  test("accepts a loss of ten times the counted input plus the cap, and the allowance", async () => {
    const { role } = part("helper", [brokenAfter(10 * (10 + 100) + 1_366), says("Here.")], {
      maxOutputTokens: 100,
    });
    const result = await newFixture().run(role);
    expect(result.usage.total.totalTokens).toBe(10 + 2_466 + 15);
  });

  test("accepts every loss that the built-in client can report, whatever the cap", () => {
    const model = new ScriptedModel([]);
    for (const maxOutputTokens of [1, 100, 10_000, MAX_TOKENS / 10]) {
      const lost = estimateReceivedTokens(Infinity, computeReplyLimits(maxOutputTokens));
      expect(checkLoss(model, lost, { inputTokens: 0, maxOutputTokens }, 0)).toBe(lost);
    }
  });
});

/** An attempt that breaks off and reports the given number of lost tokens. */
function brokenAfter(lostOutputTokens: number): ScriptedReply {
  const lost = { retryAfterMs: 0, lostOutputTokens };
  return { error: new ModelError({ code: "model_unavailable", message: "Cut.", ...lost }) };
}

describe("values supplied by the user", () => {
  test("ignores an impossible result of `countTokens`", async () => {
    const { role } = part("lead", [says("Done.")], { scripted: { countTokens: () => MOST } });
    const result = await newFixture().run(role, { budget: { totalTokens: 20_000 } });
    expect(result.status).toBe("completed");
  });

  test("rejects a cap or a price that makes sums inexact", () => {
    expect(() => part("lead", [], { maxOutputTokens: MOST })).toThrow(
      "Expected lead.maxOutputTokens to be at most 1000000000, got 9007199254740991. Each call reserves this many tokens of the budget.",
    );
    const price = { inputUsdPerMillion: 1_000_001, outputUsdPerMillion: 1 };
    expect(() => part("lead", [], { scripted: { price } })).toThrow(
      "Expected lead.model.price.inputUsdPerMillion to be a number from 0 to 1000000, got 1000001.",
    );
  });
});
