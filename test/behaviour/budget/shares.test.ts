// Goal: a parent shares its budget among its children by its policy, and the unused part of a share
// remains available.
// Method: one script for each policy, in real runs; the initial budgets of the children and the
// remaining budgets compared in full.

import { expect, test } from "vitest";

import type { BudgetShare } from "../../../src/policies/budget-share.ts";
import type { Budget } from "../../../src/policies/budget.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture, type Fixture } from "../../harness/run-scripted.ts";
import { calls, part, spawn, type Part } from "../../harness/scripted-agents.ts";

interface Shared {
  readonly s: Fixture;
  /** Initial budget of each child, by its name. */
  readonly started: unknown;
  /** Remaining budget of the lead after each settlement of its own. */
  readonly left: readonly unknown[];
  readonly usedTokens: number;
}

/**
 * Runs a lead with 115 tokens and 41 steps that uses 15 and a step, then starts two scouts and a
 * writer in one reply, then answers.
 */
async function shared(share: BudgetShare, own: Budget = {}, reserve: Budget = {}): Promise<Shared> {
  const scout = part("scout", () => says("Seen."), { budget: own });
  const writer = part("writer", () => says("Written."));
  const three = calls(spawn("scout", "A"), spawn("writer", "B"), spawn("scout", "C"));
  const lead: Part = part("lead", [three, says("Done.")], {
    subagents: [scout.role, writer.role],
    delegation: { share, reserve },
  });
  const s = newFixture();
  const result = await s.run(lead.role, {
    budget: { totalTokens: 115, steps: 41, timeMs: 5_000 },
  });
  const children = s.sink
    .ofType("agent.started")
    .filter(({ parentAgentId }) => parentAgentId !== null);
  const started = children.map(({ agentPath, budget }) => [
    agentPath.slice("lead/".length),
    budget,
  ]);
  const own15 = s.sink.ofType("budget.settled").filter(({ agentPath }) => agentPath === "lead");
  return {
    started: Object.fromEntries(started),
    left: own15.map(({ remaining }) => remaining),
    usedTokens: result.usage.total.totalTokens,
    s,
  };
}

/** Five calls of 15 tokens, whatever the shares were. */
const REALLY_USED = {
  left: [
    { totalTokens: 100, steps: 40, timeMs: 5_000 },
    { totalTokens: 115 - 75, steps: 41 - 5, timeMs: 5_000 },
  ],
  usedTokens: 75,
};

function spending(totalTokens: number, steps: number): unknown {
  return { totalTokens, steps, timeMs: 5_000 };
}

proves(["X4"], "a pool share gives each child the common rest, or a part of it", async () => {
  const { s: _s, started, ...after } = await shared({ type: "pool", maxShare: 0.5 });
  expect(started).toEqual({
    "scout#1": spending(50, 20),
    "writer#1": spending(50, 20),
    "scout#2": spending(50, 20),
  });
  expect(after).toEqual(REALLY_USED);
  const whole = await shared({ type: "pool" });
  expect(whole.started).toMatchObject({ "scout#1": spending(100, 40) });
  expect(whole.usedTokens).toBe(75);
});

proves(
  ["X4"],
  "a fixed share gives each child the amounts, or the rest if that is less",
  async () => {
    const {
      s: _s,
      started,
      ...after
    } = await shared({
      type: "fixed",
      budget: { totalTokens: 30, steps: 90 },
    });
    expect(started).toEqual({
      "scout#1": spending(30, 40),
      "writer#1": spending(30, 40),
      "scout#2": spending(30, 40),
    });
    expect(after).toEqual(REALLY_USED);
  },
);

proves(
  ["X4"],
  "an even share divides the rest by the number of delegations in the reply",
  async () => {
    const { s: _s, started, ...after } = await shared({ type: "even" });
    expect(started).toEqual({
      "scout#1": spending(33, 13),
      "writer#1": spending(33, 13),
      "scout#2": spending(33, 13),
    });
    expect(after).toEqual(REALLY_USED);
  },
);

proves(["X4"], "a weighted share divides the rest by the weights of the roles", async () => {
  const { s: _s, started, ...after } = await shared({ type: "weighted", weights: { writer: 2 } });
  expect(started).toEqual({
    "scout#1": spending(25, 10),
    "writer#1": spending(50, 20),
    "scout#2": spending(25, 10),
  });
  expect(after).toEqual(REALLY_USED);
});

proves(
  ["R142", "X4"],
  "a child gets its role's own budget or its share, whichever is tighter",
  async () => {
    const { started, s } = await shared({ type: "even" }, { totalTokens: 20, steps: 500 });
    expect(started).toMatchObject({ "scout#1": spending(20, 13), "writer#1": spending(33, 13) });
    const spawned = s.sink
      .ofType("subagent.spawned")
      .map(({ childPath, inherited: context }) => [childPath, context.tightened]);
    expect(spawned).toContainEqual([
      "lead/scout#1",
      [{ field: "budget.steps", requested: 500, granted: 13, source: "lead" }],
    ]);
  },
);

proves(["X4", "X5"], "shares exclude the parent's reserve", async () => {
  const { started } = await shared({ type: "even" }, {}, { totalTokens: 40, steps: 10 });
  expect(started).toEqual({
    "scout#1": spending(20, 10),
    "writer#1": spending(20, 10),
    "scout#2": spending(20, 10),
  });
});

test("a child with a share of zero is stopped before its first call, and the parent continues", async () => {
  const child = part("child", () => says("Seen."));
  const lead = part("lead", [calls(spawn("child", "A"), spawn("child", "B")), says("Done.")], {
    subagents: [child.role],
    delegation: { share: { type: "fixed", budget: { steps: 0 } } },
  });
  const result = await newFixture().run(lead.role);
  expect(result.agents.map(({ status, reason }) => [status, reason.code])).toEqual([
    ["completed", "completed"],
    ["stopped", "step_limit"],
    ["stopped", "step_limit"],
  ]);
  expect(child.model.requests).toEqual([]);
});
