// Goal: one definition of usage. Results, events and accounts agree, whatever providers report, and
// unknown is never zero.
// Method: real trees with known usage, summed by every breakdown and compared; providers that
// report nothing, too much, or invalid values.

import { describe, expect, test } from "vitest";

import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { sumUsage } from "../../../src/protocol/event.ts";
import { addUsage, NO_USAGE, UsageSchema, type Usage } from "../../../src/protocol/usage.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { calls, part, spawn, tool, use, type Part } from "../../harness/scripted-agents.ts";

const PRICE = { inputUsdPerMillion: 1, outputUsdPerMillion: 2 };

describe("usage", () => {
  proves(
    ["X18", "R181", "S7.29"],
    "agrees in results, events and accounts of a tree on every axis and by every breakdown",
    async () => {
      const s = newFixture();
      const result = await s.run(mixedTree().role, { budget: { totalTokens: 10_000 } });
      expect(result.agents.map((agent) => [agent.agentPath, agent.status])).toEqual([
        ["lead", "completed"],
        ["lead/middle#1", "completed"],
        ["lead/broken#1", "failed"],
        ["lead/middle#1/leaf#1", "stopped"],
        ["lead/middle#1/leaf#2", "stopped"],
      ]);
      const { own, descendants, total, byRole, byModel } = result.usage;
      expect(addUsage(own, descendants)).toEqual(total);
      expect(sum(result.agents.map((agent) => agent.usage.own))).toEqual(total);
      expect(sum(Object.values(byRole))).toEqual(total);
      expect(sum(Object.values(byModel))).toEqual(total);
      expect(Object.keys(byRole)).toEqual(["lead", "middle", "broken", "leaf"]);
      expect(Object.keys(byModel)).toEqual(["lead-model", "shared-model", "broken-model"]);
      expect(addUsage(byRole["middle"] ?? NO_USAGE, byRole["leaf"] ?? NO_USAGE)).toEqual(
        byModel["shared-model"],
      );

      expect(sumUsage(s.sink.events)).toEqual(total);
      expect(s.sink.ofType("run.ended")[0]?.usage).toEqual({ own, descendants, total });
      for (const agent of result.agents) {
        const events = s.sink.events.filter((event) => event.agentId === agent.agentId);
        expect(sumUsage(events), agent.agentPath).toEqual(agent.usage.own);
        const [ended] = events.filter((event) => event.type === "agent.ended");
        expect(ended?.usage, agent.agentPath).toEqual(agent.usage);
        expect(sum(agent.steps.map((step) => step.telemetry.usage))).toEqual(agent.usage.own);
        const account = result.accounts.find((candidate) => candidate.agentId === agent.agentId);
        expect([account?.own, account?.total]).toEqual([agent.usage.own, agent.usage.total]);
      }
      const reported = new Map(result.agents.map((agent) => [agent.agentId, agent.usage]));
      for (const { childId, usage } of s.sink.ofType("subagent.ended")) {
        expect(usage).toEqual(reported.get(childId));
      }
    },
  );

  proves(["X18"], "covers the whole subtree once in a delegation's result", async () => {
    const s = newFixture();
    const result = await s.run(mixedTree().role);
    const delegated = s.sink
      .ofType("tool.ended")
      .filter((event) => event.toolName === "SpawnSubagent");
    const ofLead = delegated
      .filter((event) => event.agentPath === "lead")
      .map((event) => event.usage ?? NO_USAGE);
    expect(sum(ofLead)).toEqual(result.usage.descendants);
  });

  test("is counted for role and tool names such as `constructor`", async () => {
    const toString = part("toString", [calls(use("constructor")), says("Ok.")], {
      tools: [tool("constructor", () => "built")],
      scripted: { id: "valueOf" },
    });
    const lead = part("constructor", [calls(spawn("toString")), says("Done.")], {
      subagents: [toString.role],
    });
    const result = await newFixture().run(lead.role);
    expect(result.agents.map((agent) => agent.toolsUsed)).toEqual([
      Object.fromEntries([["SpawnSubagent", 1]]),
      Object.fromEntries([["constructor", 1]]),
    ]);
    expect(sum(Object.values(result.usage.byRole))).toEqual(result.usage.total);
    expect(sum(Object.values(result.usage.byModel))).toEqual(result.usage.total);
  });
});

describe("costs", () => {
  proves(
    ["R57"],
    "refuse a cost limit over a model without a price at the start, at any depth",
    () => {
      const leaf = part("leaf", []);
      const middle = part("middle", [], { subagents: [leaf.role], scripted: { price: PRICE } });
      const lead = part("lead", [], { subagents: [middle.role], scripted: { price: PRICE } });
      const refused = {
        code: "price_unknown",
        data: { field: "budget.costUsd", role: "leaf", model: "leaf-model" },
      };
      const s = newFixture();
      expect(() => s.start(lead.role, "Do it.", { budget: { costUsd: 1 } })).toThrow(
        expect.objectContaining(refused),
      );
      const limited = part("limited", [], {
        subagents: [middle.role],
        scripted: { price: PRICE },
        budget: { costUsd: 0 },
      });
      const above = part("above", [], { subagents: [limited.role] });
      expect(() => s.start(above.role)).toThrow(
        expect.objectContaining({
          code: "price_unknown",
          data: { field: "limited.budget.costUsd", role: "leaf", model: "leaf-model" },
        }),
      );
      expect(s.sink.events).toEqual([]);
    },
  );

  proves(
    ["R57"],
    "count an unknown price as unknown without a cost limit, never as zero",
    async () => {
      const helper = part("helper", [says("Ok.")]);
      const lead = part("lead", [calls(spawn("helper")), says("Done.")], {
        subagents: [helper.role],
        scripted: { price: PRICE },
      });
      const result = await newFixture().run(lead.role);
      const { own, descendants, total } = result.usage;
      // Each call: 10 input tokens and 5 output tokens at 2, which is 20 micro-dollars.
      expect([own.costUsd, own.unpricedCalls]).toEqual([0.00004, 0]);
      expect([descendants.costUsd, descendants.unpricedCalls]).toEqual([null, 1]);
      expect([total.costUsd, total.unpricedCalls]).toEqual([0.00004, 1]);
    },
  );
});

proves(
  ["S7.7"],
  "a cost limit holds if cached input is more expensive than fresh input",
  async () => {
    const price = { inputUsdPerMillion: 1, cachedInputUsdPerMillion: 6, outputUsdPerMillion: 2 };
    const helper = part(
      "helper",
      () => ({ ...calls(use("nothing")), usage: { cachedInputTokens: 10 } }),
      {
        maxOutputTokens: 5,
        scripted: { price },
      },
    );
    // Each call costs 10 at 6 and 5 at 2; the third would fit if its input were not cached.
    const result = await newFixture().run(helper.role, { budget: { costUsd: 0.00017 } });
    expect([result.reason.code, result.usage.total.costUsd]).toEqual(["cost_limit", 0.00014]);
    expect(result.accounts[0]?.excess.costUsd).toBe(0);
  },
);

describe("usage reported by providers", () => {
  test("is estimated and marked as an estimate if it is missing", async () => {
    const helper = part("helper", [says("x".repeat(30), { usage: null })]);
    const lead = part("lead", [calls(spawn("helper")), says("Done.")], {
      subagents: [helper.role],
    });
    const result = await newFixture().run(lead.role);
    expect(result.usage.descendants).toEqual({
      ...NO_USAGE,
      modelCalls: 1,
      steps: 1,
      inputTokens: 10,
      outputTokens: 10,
      totalTokens: 20,
      costUsd: null,
      unpricedCalls: 1,
      estimatedCalls: 1,
    });
  });

  test("is charged in full if it exceeds the reservation, and exhausts the budget", async () => {
    const usage = { inputTokens: 150, outputTokens: 150 };
    let looked = 0;
    const helper = part(
      "helper",
      [calls(use("look"))].map((reply) => ({ ...reply, usage })),
      {
        tools: [tool("look", () => void (looked += 1))],
        maxOutputTokens: 20,
      },
    );
    const lead = part("lead", [calls(spawn("helper"))], { subagents: [helper.role] });
    const result = await newFixture().run(lead.role, { budget: { totalTokens: 200 } });
    expect(totals(result)).toEqual([
      ["lead", 15, 315],
      ["lead/helper#1", 300, 300],
    ]);
    expect(result.agents.map((agent) => [agent.status, agent.reason.code])).toEqual([
      ["stopped", "token_limit"],
      ["stopped", "token_limit"],
    ]);
    expect(result.accounts[0]?.excess.totalTokens).toBe(270);
    expect([lead.model.requests.length, looked]).toEqual([1, 0]);
  });

  for (const [what, usage] of [
    ["not numbers", { inputTokens: Number.NaN }],
    ["less than nothing", { inputTokens: -1_000 }],
    ["endless", { outputTokens: Number.POSITIVE_INFINITY }],
    ["more cached than read", { cachedInputTokens: 1_000 }],
  ] as const) {
    test(`cannot bypass the budget if it is ${what}`, async () => {
      const helper = part("helper", () => ({ ...calls(use("nothing")), usage }), {
        maxOutputTokens: 5,
        scripted: { price: { ...PRICE, cachedInputUsdPerMillion: 0.5 } },
      });
      const lead = freeLead(helper);
      const s = newFixture();
      const result = await s.run(lead.role, { budget: { totalTokens: 150, steps: 50 } });
      expect(helper.model.requests.length).toBeLessThanOrEqual(15);
      expect(takeWarnings(), "said once").toHaveLength(1);
      expect(UsageSchema().safeParse(result.usage.total).error).toBeUndefined();
    });
  }

  test("cannot bypass the budget if the token count is invalid", async () => {
    for (const count of [Number.NaN, -1_000, 0.5]) {
      const usage = { inputTokens: 0, outputTokens: 1_000 };
      const helper = part("helper", () => ({ ...calls(use("nothing")), usage }), {
        scripted: { countTokens: () => count },
      });
      const lead = freeLead(helper);
      const result = await newFixture().run(lead.role, { budget: { totalTokens: 100, steps: 9 } });
      expect(helper.model.requests.length, `counted ${count}`).toBeLessThanOrEqual(1);
      expect(result.status).toBe("stopped");
    }
  });
});

/**
 * Children that complete, stop and fail; prices known and unknown; usage reported and estimated; a
 * model of two roles.
 */
function mixedTree(): Part {
  const leaf = part("leaf", () => asks("nothing", {}), {
    budget: { steps: 2 },
    scripted: { id: "shared-model", price: PRICE },
  });
  const middleScript = [
    { ...calls(spawn("leaf"), spawn("leaf")), usage: { cachedInputTokens: 4, reasoningTokens: 2 } },
    says("Middle.", { usage: null }),
  ];
  const middle = part("middle", middleScript, {
    subagents: [leaf.role],
    scripted: { id: "shared-model", price: PRICE },
  });
  const broken = part("broken", [asks("nothing", {}), { error: new Error("A bug.") }]);
  return part("lead", [calls(spawn("middle"), spawn("broken")), says("Done.")], {
    subagents: [middle.role, broken.role],
    scripted: { price: PRICE },
  });
}

/** A lead that uses no tokens: it starts a child and then answers. */
function freeLead(child: Part): Part {
  const usage = { inputTokens: 0, outputTokens: 0 };
  return part("lead", [{ ...calls(spawn(child.role.name)), usage }, says("Done.", { usage })], {
    subagents: [child.role],
    maxOutputTokens: 1,
    scripted: { countTokens: () => 0, price: PRICE },
  });
}

function sum(usages: readonly Usage[]): Usage {
  return usages.reduce(addUsage, NO_USAGE);
}

function totals(result: RunResult): readonly unknown[] {
  return result.agents.map(({ agentPath, usage }) => [
    agentPath,
    usage.own.totalTokens,
    usage.total.totalTokens,
  ]);
}
