// Goal: one budget holds over the whole tree. It bounds what a child may spend, and decides whose
// account is charged and when.
// Method: real runs of parents and children with known usage; budgets, requests and usage reports
// compared in full.

import { describe, expect, test } from "vitest";

import type { Budget } from "../../../src/policies/budget.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { NO_USAGE, type Usage } from "../../../src/protocol/usage.ts";
import { says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, type Fixture } from "../../harness/run-scripted.ts";
import {
  byTask,
  calls,
  part,
  quiet,
  spawn,
  until,
  use,
  type Part,
} from "../../harness/scripted-agents.ts";

const PRICE = { inputUsdPerMillion: 1, outputUsdPerMillion: 2 };

describe("the budget of a child", () => {
  proves(
    ["R142"],
    "is the smaller of its own budget and the remaining budget of the tree",
    async () => {
      const tree = { totalTokens: 100 };
      expect(await childUnder(tree, { totalTokens: 200 })).toEqual({
        budget: { totalTokens: 70 },
        cap: 60,
      });
      expect(await childUnder(tree, { totalTokens: 30 })).toEqual({
        budget: { totalTokens: 30 },
        cap: 20,
      });
      expect(await childUnder({}, { totalTokens: 200 })).toEqual({
        budget: { totalTokens: 200 },
        cap: 190,
      });
      expect(await childUnder({}, {})).toEqual({ budget: {}, cap: 8192 });
    },
  );

  proves(["R142"], "is tightened on each axis independently", async () => {
    const tree = {
      inputTokens: 100,
      cachedInputTokens: 50,
      outputTokens: 100,
      totalTokens: 150,
      costUsd: 0.001,
      steps: 10,
      toolCalls: 10,
      timeMs: 1_000,
    };
    const own = {
      inputTokens: 200,
      cachedInputTokens: 20,
      outputTokens: 40,
      totalTokens: 500,
      costUsd: 1,
      steps: 3,
      toolCalls: 100,
      timeMs: 5_000,
    };
    // The parent's step: 20 input tokens, 10 output tokens, one tool call, 20 + 2 × 10
    // micro-dollars.
    expect(await childUnder(tree, own)).toEqual({
      budget: {
        inputTokens: 80,
        cachedInputTokens: 20,
        outputTokens: 40,
        totalTokens: 120,
        costUsd: 0.00096,
        steps: 3,
        toolCalls: 9,
        timeMs: 1_000,
      },
      cap: 40,
    });
  });

  proves(
    ["R145"],
    "is the least on the path for a grandchild, and every total counts its usage once",
    async () => {
      const leaf = part("leaf", [says("Leaf.")], {
        budget: { outputTokens: 300, totalTokens: 50 },
      });
      const middle = part("middle", [calls(spawn("leaf")), says("Middle.")], {
        subagents: [leaf.role],
        budget: { outputTokens: 40, totalTokens: 400 },
      });
      const lead = part("lead", [calls(spawn("middle")), says("Done.")], {
        subagents: [middle.role],
      });
      const s = newFixture();
      const result = await s.run(lead.role, { budget: { totalTokens: 500, outputTokens: 1_000 } });
      // After one step of each ancestor, 500 - 30, 400 - 15 and 50 tokens are left, and 1,000 - 10,
      // 40 - 5 and 300 output tokens.
      const started = s.sink.ofType("agent.started").map((event) => event.budget);
      expect(started[2]).toEqual({ totalTokens: 50, outputTokens: 35 });
      expect(leaf.model.requests[0]?.maxOutputTokens).toBe(35);
      expect(tokens(result)).toEqual([
        { path: "lead", own: 30, descendants: 45, total: 75 },
        { path: "lead/middle#1", own: 30, descendants: 15, total: 45 },
        { path: "lead/middle#1/leaf#1", own: 15, descendants: 0, total: 15 },
      ]);
      expect(result.usage.total).toEqual({
        ...NO_USAGE,
        modelCalls: 5,
        steps: 5,
        toolCalls: 2,
        inputTokens: 50,
        outputTokens: 25,
        totalTokens: 75,
        costUsd: null,
        unpricedCalls: 5,
      });
    },
  );
});

describe("charging usage", () => {
  for (const [how, lastReply, used] of [
    ["completes", says("Ok."), { totalTokens: 30, inputTokens: 20, outputTokens: 10 }],
    ["fails", failure("No."), { totalTokens: 15, inputTokens: 10, outputTokens: 5 }],
    // A call that was cut off is charged by estimate, with its input.
    [
      "is cancelled",
      { after: latch().opened },
      { totalTokens: 25, inputTokens: 20, outputTokens: 5 },
    ],
  ] satisfies readonly (readonly [string, ScriptedReply, Partial<Usage>])[]) {
    proves(["R143"], `charges the parent for its child's usage when the child ${how}`, async () => {
      const helper = part("helper", [calls(use("nothing")), lastReply]);
      const lead = part("lead", [calls(spawn("helper")), says("Done.")], {
        subagents: [helper.role],
      });
      const s = newFixture();
      const run = s.start(lead.role, "Do it.", { budget: { totalTokens: 1_000 } });
      if (how === "is cancelled") {
        await until(() => helper.model.requests.length === 2);
        run.cancelAgent(s.sink.ofType("subagent.spawned")[0]?.childId ?? expect.fail("no child"));
      }
      const result = await s.outcome(run);
      const estimatedCalls = how === "is cancelled" ? 1 : 0;
      const child = {
        ...NO_USAGE,
        ...used,
        modelCalls: 2,
        steps: 2,
        costUsd: null,
        unpricedCalls: 2,
        estimatedCalls,
      };
      const own = {
        ...NO_USAGE,
        modelCalls: 2,
        steps: 2,
        toolCalls: 1,
        inputTokens: 20,
        outputTokens: 10,
        totalTokens: 30,
        costUsd: null,
        unpricedCalls: 2,
      };
      const total = {
        ...own,
        modelCalls: 4,
        steps: 4,
        inputTokens: 20 + used.inputTokens,
        outputTokens: 10 + used.outputTokens,
        totalTokens: 30 + used.totalTokens,
        unpricedCalls: 4,
        estimatedCalls,
      };
      const { byRole, byModel, ...report } = result.usage;
      expect(report).toEqual({ own, descendants: child, total });
      expect(byRole).toEqual({ lead: own, helper: child });
      expect(byModel).toEqual({ "lead-model": own, "helper-model": child });
      const left = s.sink.ofType("budget.settled").at(-1)?.runRemaining;
      expect(left).toEqual({ totalTokens: 1_000 - total.totalTokens });
    });
  }

  proves(["R143"], "charges ancestors while their children still run", async () => {
    const late = [latch(), latch()] as const;
    const script = byTask({
      A: [calls(use("nothing")), says("A.", { after: late[0].opened })],
      B: [calls(use("nothing")), says("B.", { after: late[1].opened })],
    });
    const helper = part("helper", script, { maxOutputTokens: 5 });
    const both = calls(spawn("helper", "A"), spawn("helper", "B"));
    const lead = part("lead", [both, says("Done.")], {
      subagents: [helper.role],
      maxOutputTokens: 5,
    });
    const s = newFixture();
    const run = s.start(lead.role, "Do it.", { budget: { totalTokens: 200 } });
    await until(() => helper.model.requests.length === 4);
    // Three calls of 15 have settled and two are in flight; no agent has ended.
    expect(s.sink.ofType("agent.ended")).toEqual([]);
    const left = (): readonly unknown[] =>
      s.sink.ofType("budget.settled").map((event) => event.runRemaining);
    expect(left()).toEqual([185, 155, 155].map((totalTokens) => ({ totalTokens })));
    late[1].open();
    await until(() => s.sink.ofType("subagent.ended").length === 1);
    expect(left().at(-1)).toEqual({ totalTokens: 125 });
    late[0].open();
    const result = await s.outcome(run);
    expect(left().at(-1)).toEqual({ totalTokens: 200 - result.usage.total.totalTokens });
    expect(result.usage.total.totalTokens).toBe(90);
  });
});

describe("a budget shared by parallel children", () => {
  proves(
    ["R144"],
    "starts no request after the limit of the tree is reached, and reports the overshoot",
    async () => {
      // Each call reserves at most 10 + 10 tokens, but the provider reports 18 + 12.
      const usage = { inputTokens: 18, outputTokens: 12 };
      const helper = part("helper", () => ({ ...calls(use("nothing")), usage }), {
        maxOutputTokens: 10,
        budget: { totalTokens: 80 },
      });
      const lead = freeLead([spawn("helper"), spawn("helper")], helper);
      const s = newFixture();
      const result = await s.run(lead.role, { budget: { totalTokens: 100 } });
      const started = requestsAfterLimit(s, 100);
      expect(started).toEqual({ startedAfterLimit: 0, overshoot: 20 });
      expect(result.agents.map((agent) => [agent.status, agent.reason.code])).toEqual([
        ["stopped", "token_limit"],
        ["stopped", "token_limit"],
        ["stopped", "token_limit"],
      ]);
      expect(result.reason.data).toEqual({
        axis: "totalTokens",
        accountPath: "lead",
        maximum: 100,
        current: 120,
        requested: 1,
      });
    },
  );

  proves(
    ["X2"],
    "runs two of three children that reserve 40 of 100 each, and the third once one has settled",
    async () => {
      const latches = [latch(), latch(), latch()];
      const usage = { inputTokens: 10, outputTokens: 10 };
      const replies = latches.map(({ opened }, index) => {
        return [`${index}`, [says(`${index}.`, { after: opened, usage })]] as const;
      });
      const helper = part("helper", byTask(Object.fromEntries(replies)), { maxOutputTokens: 30 });
      const lead = freeLead(
        [spawn("helper", "0"), spawn("helper", "1"), spawn("helper", "2")],
        helper,
      );
      const s = newFixture();
      const run = s.start(lead.role, "Do it.", { budget: { totalTokens: 100 } });
      await until(() => helper.model.requests.length === 2);
      s.clock.advance(50);
      await quiet();
      expect(helper.model.requests).toHaveLength(2);
      expect(s.sink.ofType("budget.refused")).toEqual([]);
      latches[1]?.open();
      await until(() => helper.model.requests.length === 3);
      for (const one of latches) one.open();
      const result = await s.outcome(run);
      const leases = s.sink
        .ofType("budget.reserved")
        .map(({ agentPath, maxOutputTokens, waitedMs }) => {
          return [agentPath, maxOutputTokens, waitedMs];
        });
      expect(leases.slice(1, 4)).toEqual([
        ["lead/helper#1", 30, 0],
        ["lead/helper#2", 30, 0],
        ["lead/helper#3", 30, 50],
      ]);
      expect(result.agents.map((agent) => [agent.status, agent.budgetWaitMs])).toEqual([
        ["completed", 0],
        ["completed", 0],
        ["completed", 0],
        ["completed", 50],
      ]);
    },
  );

  proves(
    ["X2"],
    "refuses a request for 120 of 100 at once while others hold reservations",
    async () => {
      const late = latch();
      const small = part("small", [says("Small.", { after: late.opened })]);
      const large = part("large", [], {
        scripted: { countTokens: () => 120 },
        budget: { totalTokens: 500 },
      });
      const lead = freeLead([spawn("small"), spawn("large")], small, large);
      const s = newFixture();
      const run = s.start(lead.role, "Do it.", { budget: { totalTokens: 100 } });
      await until(() => s.sink.ofType("subagent.ended").length === 1);
      expect(
        s.sink
          .ofType("budget.refused")
          .map(({ agentPath, axis, accountPath, maximum, spent, requested }) => {
            return { agentPath, axis, accountPath, maximum, spent, requested };
          }),
      ).toEqual([
        {
          agentPath: "lead/large#1",
          axis: "totalTokens",
          accountPath: "lead",
          maximum: 100,
          spent: 0,
          requested: 121,
        },
      ]);
      late.open();
      const result = await s.outcome(run);
      expect(
        result.agents.map((agent) => [agent.agentPath, agent.status, agent.budgetWaitMs]),
      ).toEqual([
        ["lead", "completed", 0],
        ["lead/small#1", "completed", 0],
        ["lead/large#1", "stopped", 0],
      ]);
      expect(large.model.requests).toEqual([]);
    },
  );

  test("serves waiting reservations in order even if a later one would fit before", async () => {
    const latches = { first: latch(), second: latch() };
    const usage = { inputTokens: 10, outputTokens: 0 };
    const first = part("first", [says("1.", { after: latches.first.opened, usage })], {
      maxOutputTokens: 50,
    });
    const big = part("big", [says("2.", { after: latches.second.opened, usage })], {
      maxOutputTokens: 60,
    });
    const tiny = part("tiny", [says("3.", { usage })], { maxOutputTokens: 5 });
    const lead = freeLead([spawn("first"), spawn("big"), spawn("tiny")], first, big, tiny);
    const s = newFixture();
    const run = s.start(lead.role, "Do it.", { budget: { totalTokens: 100 } });
    await until(() => first.model.requests.length === 1);
    await quiet();
    expect([big.model.requests.length, tiny.model.requests.length]).toEqual([0, 0]);
    latches.first.open();
    await until(() => big.model.requests.length === 1 && tiny.model.requests.length === 1);
    latches.second.open();
    const result = await s.outcome(run);
    expect(result.status).toBe("completed");
  });
});

function failure(message: string): ScriptedReply {
  return { error: new ModelError({ code: "model_invalid_request", message }) };
}

/**
 * Returns the initial budget of a child and its output cap after its parent used 20 input and 10
 * output tokens.
 */
async function childUnder(
  tree: Budget,
  own: Budget,
): Promise<{ readonly budget: unknown; readonly cap: number | undefined }> {
  const helper = part("helper", [says("Ok.")], { budget: own, scripted: { price: PRICE } });
  const usage = { inputTokens: 20, outputTokens: 10 };
  const lead = part("lead", [{ ...calls(spawn("helper")), usage }, says("Done.")], {
    subagents: [helper.role],
    scripted: { price: PRICE },
  });
  const s = newFixture();
  const run = s.start(lead.role, "Do it.", { budget: tree });
  await s.outcome(run);
  const budget = s.sink.ofType("agent.started")[1]?.budget;
  return { budget, cap: helper.model.requests[0]?.maxOutputTokens };
}

/** A lead that uses no tokens: it starts children and then answers. */
function freeLead(list: readonly ReturnType<typeof spawn>[], ...children: readonly Part[]): Part {
  const usage = { inputTokens: 0, outputTokens: 0 };
  return part("lead", [{ ...calls(...list), usage }, says("Done.", { usage })], {
    subagents: children.map((child) => child.role),
    maxOutputTokens: 1,
    scripted: { countTokens: () => 0, price: PRICE },
  });
}

function tokens(result: RunResult): readonly unknown[] {
  return result.agents.map(({ agentPath: path, usage }) => ({
    path,
    own: usage.own.totalTokens,
    descendants: usage.descendants.totalTokens,
    total: usage.total.totalTokens,
  }));
}

/**
 * Returns the number of requests that started after the tree reached its limit, and the overshoot.
 */
function requestsAfterLimit(s: Fixture, limit: number): unknown {
  let spent = 0;
  let startedAfterLimit = 0;
  for (const event of s.sink.events) {
    if (event.type === "budget.settled") spent += event.usage.totalTokens;
    if (event.type === "model.requested" && spent >= limit) startedAfterLimit += 1;
  }
  return { startedAfterLimit, overshoot: spent - limit };
}
