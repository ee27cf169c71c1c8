// Goal: a run that a limit stopped continues after a grant, in a fresh orchestrator, and the ledger
// records the grant with its author.
// Method: one run for each kind of limit; requests after the grant, accounts and events compared in
// full; then impossible grants.

import { describe, expect, test } from "vitest";
import type { Budget } from "../../../src/policies/budget.ts";
import { says, type ScriptStep } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { parsePausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import { latch, newFixture, type Fixture } from "../../harness/run-scripted.ts";
import {
  beside,
  onward,
  reporters,
  rested,
  rests,
  settlements,
} from "../../support/life-agents.ts";
import { approveAll, ending, payTool } from "../../support/pause-stories.ts";
import { calls, part, spawn, receivedTexts, tool, use } from "../../harness/scripted-agents.ts";

const look = tool("look", () => "seen");

const PAY = { toolName: "pay", arguments: { amount: 1 } };

interface Limit {
  readonly budget: Budget;
  readonly more: Budget;
  readonly code: string;
  /** Replies before the last answer. */
  readonly replies: readonly ScriptStep[];
}

const LIMITS: Readonly<Record<string, Limit>> = {
  steps: {
    budget: { steps: 1 },
    more: { steps: 1 },
    code: "step_limit",
    replies: [calls(use("look"))],
  },
  "tool calls": {
    budget: { toolCalls: 1 },
    more: { toolCalls: 5 },
    code: "tool_call_limit",
    replies: [calls(use("look"), use("look"))],
  },
  "total tokens": {
    budget: { totalTokens: 20 },
    more: { totalTokens: 100 },
    code: "token_limit",
    replies: [calls(use("look"))],
  },
  "input tokens": {
    budget: { inputTokens: 15 },
    more: { inputTokens: 100 },
    code: "token_limit",
    replies: [calls(use("look"))],
  },
  "output tokens": {
    budget: { outputTokens: 5 },
    more: { outputTokens: 100 },
    code: "token_limit",
    replies: [calls(use("look"))],
  },
  cost: {
    budget: { costUsd: 0.000_02 },
    more: { costUsd: 1 },
    code: "cost_limit",
    replies: [calls(use("look"))],
  },
  time: {
    budget: { timeMs: 1_000 },
    more: { timeMs: 1_000 },
    code: "time_limit",
    replies: [calls(use("spend"))],
  },
};

const PRICE = { inputUsdPerMillion: 1, outputUsdPerMillion: 2 };

function lone(limit: Limit, s: Fixture) {
  return part("lead", [...limit.replies, says("At last.")], {
    tools: [
      look,
      tool("spend", () => {
        s.clock.advance(1_000);
        return "spent";
      }),
    ],
    scripted: { price: PRICE },
  });
}

describe("a run that was stopped by its limit of", () => {
  for (const [name, limit] of Object.entries(LIMITS))
    proves(
      ["X7"],
      `${name} continues after a grant and completes, and the ledger records the grant`,
      async () => {
        const s = newFixture();
        const lead = lone(limit, s);
        const { result, snapshot } = await rested(
          s,
          s.start(lead.role, "Do it.", { budget: limit.budget }),
        );
        expect(ending(result)).toEqual(["stopped", limit.code]);
        s.clock.advance(50_000);
        const run = s.grantOn(lead.role, snapshot, [{ budget: limit.more, by: "Ann" }]);
        const after = await s.outcome(run);
        expect([ending(after), after.text, after.runId]).toEqual([
          ["completed", "completed"],
          "At last.",
          result.runId,
        ]);
        expect(after.accounts[0]?.grants).toEqual([
          { by: "Ann", atMs: s.clock.nowMs(), budget: limit.more },
        ]);
        expect(s.sink.ofType("budget.granted")).toMatchObject([
          { accountPath: "lead", by: "Ann", budget: limit.more, agentPath: "lead" },
        ]);
        const [, second] = s.sink.ofType("agent.started");
        expect([second?.agentId, second?.executionId]).toEqual(["agent_1", "execution_2"]);
        expect(receivedTexts(lead.model.requests.at(-1)).at(-1)).toBe(
          `You were stopped before you were done: ${result.reason.message} You have been granted more since. Continue from where you were.`,
        );
        const own = lead.model.requests.length;
        expect(after.usage.total.modelCalls).toBe(own);
      },
    );

  test("steps continues several times, and each grant is recorded", async () => {
    const s = newFixture();
    const lead = part("lead", () => calls(use("look")), { tools: [look] });
    let { snapshot } = await rested(s, s.start(lead.role, "Do it.", { budget: { steps: 1 } }));
    for (const by of ["Ann", "Bob", "Cleo"])
      ({ snapshot } = await rested(
        s,
        s.grantOn(lead.role, snapshot, [{ budget: { steps: 2 }, by }]),
      ));
    const [account] = parsePausedRun(snapshot).accounts;
    expect(account?.grants.map(({ by }) => by)).toEqual(["Ann", "Bob", "Cleo"]);
    expect([account?.limits, lead.model.requests.length]).toEqual([{ steps: 7 }, 7]);
    expect(s.sink.ofType("run.ended")).toHaveLength(4);
    expect(s.sink.ofType("run.resumed").map(({ previousTraceId }) => previousTraceId).length).toBe(
      3,
    );
  });

  test("two axes needs a grant for both", async () => {
    const s = newFixture();
    const lead = part("lead", [calls(use("look")), says("At last.")], { tools: [look] });
    const budget = { steps: 1, totalTokens: 15 };
    const { snapshot } = await rested(s, s.start(lead.role, "Do it.", { budget }));
    const half = await rested(
      s,
      s.grantOn(lead.role, snapshot, [{ budget: { steps: 1 }, by: "Ann" }]),
    );
    expect(ending(half.result)).toEqual(["stopped", "token_limit"]);
    const both = await s.outcome(
      s.grantOn(lead.role, half.snapshot, [{ budget: { totalTokens: 100 }, by: "Ann" }]),
    );
    expect(both.text).toBe("At last.");
  });
});

describe("a stopped tree", () => {
  proves(["X7"], "continues with its idle subagents, which use the grant", async () => {
    const s = newFixture();
    const worker = part("worker", [says("One."), says("Two.")]);
    const lead = part(
      "lead",
      [calls(spawn("worker", "1")), calls(onward("worker#1", "2")), says("At last.")],
      { subagents: [worker.role] },
    );
    const { result, snapshot } = await rested(
      s,
      s.start(lead.role, "Do it.", { budget: { steps: 2 } }),
    );
    expect(ending(result)).toEqual(["stopped", "step_limit"]);
    const after = await s.outcome(
      s.grantOn(lead.role, snapshot, [{ budget: { steps: 3 }, by: "Ann" }]),
    );
    expect([after.text, settlements(s)]).toEqual([
      "At last.",
      ["lead/worker#1 completed", "lead/worker#1 completed"],
    ]);
    expect(
      after.accounts.map(({ agentPath: path, limits, total }) => [path, limits, total.steps]),
    ).toEqual([
      ["lead", { steps: 5 }, 5],
      ["lead/worker#1", {}, 2],
    ]);
  });

  proves(["X7"], "continues a stopped child after a grant to the child's path", async () => {
    const s = newFixture();
    const worker = part("worker", [calls(use("look")), says("At last.")], {
      tools: [look],
      budget: { steps: 1 },
    });
    const lead = part(
      "lead",
      [calls(spawn("worker", "1")), calls(onward("worker#1", "2")), says("Done.")],
      { subagents: [worker.role] },
    );
    const { result, snapshot } = await rested(
      s,
      s.start(lead.role, "Do it.", { budget: { steps: 2 } }),
    );
    expect(rests(result)).toEqual({
      lead: "stopped (step_limit)",
      "lead/worker#1": "stopped (step_limit)",
    });
    const after = await s.outcome(
      s.grantOn(lead.role, snapshot, [
        { budget: { steps: 3 }, by: "Ann" },
        { budget: { steps: 1 }, by: "Bob", agentPath: "lead/worker#1" },
      ]),
    );
    expect([rests(after), after.accounts.map(({ grants }) => grants.map(({ by }) => by))]).toEqual([
      { lead: "completed", "lead/worker#1": "completed" },
      [["Ann"], ["Bob"]],
    ]);
    expect(
      s.sink
        .ofType("budget.granted")
        .map(({ accountPath, agentPath, by }) => [accountPath, agentPath, by]),
    ).toEqual([
      ["lead", "lead", "Ann"],
      ["lead/worker#1", "lead/worker#1", "Bob"],
    ]);
  });

  test("continues background subagents that were cancelled by the limit", async () => {
    const s = newFixture();
    const held = latch();
    const worker = part("worker", [says("Never.", { after: held.opened }), says("At last.")]);
    const lead = part(
      "lead",
      [
        calls(beside("worker", "1")),
        calls(use("look"), use("look")),
        calls(onward("worker#1", "2", { background: true })),
        says("Early."),
        says("Done."),
      ],
      { delegation: { background: true }, subagents: [worker.role], tools: [look] },
    );
    const { result, snapshot } = await rested(
      s,
      s.start(lead.role, "Do it.", { budget: { toolCalls: 2 } }),
    );
    expect(rests(result)).toEqual({
      lead: "stopped (tool_call_limit)",
      "lead/worker#1": "cancelled (cancelled)",
    });
    const after = await s.outcome(
      s.grantOn(lead.role, snapshot, [{ budget: { toolCalls: 5 }, by: "Ann" }]),
    );
    expect([after.status, settlements(s)]).toEqual([
      "completed",
      ["lead/worker#1 cancelled", "lead/worker#1 completed"],
    ]);
    expect(lead.model.requests.flatMap((request) => reporters(request)).at(-1)).toBe("worker#1");
  });
});

describe("a paused run", () => {
  proves(["X7"], "accepts grants together with its answers", async () => {
    const s = newFixture();
    const pay = payTool();
    const lead = part("lead", [calls(PAY), says("At last.")], { tools: [pay] });
    const paused = await s.outcome(s.start(lead.role, "Do it.", { budget: { steps: 1 } }));
    const without = s.resume(lead.role, paused.pausedRun, approveAll(paused));
    expect(ending(await s.outcome(without))).toEqual(["stopped", "step_limit"]);
    const t = newFixture();
    const again = part("lead", [calls(PAY), says("At last.")], { tools: [pay] });
    const anew = await t.outcome(t.start(again.role, "Do it.", { budget: { steps: 1 } }));
    const run = t.grantOn(
      again.role,
      anew.pausedRun,
      [{ budget: { steps: 1 }, by: "Ann" }],
      approveAll(anew),
    );
    expect((await t.outcome(run)).text).toBe("At last.");
  });

  test("accepts a grant for a child that is about to reach its limit", async () => {
    const s = newFixture();
    const worker = part("worker", [calls(PAY), says("Worked.")], {
      tools: [payTool()],
      budget: { steps: 1 },
    });
    const lead = part("lead", [calls(spawn("worker")), says("Done.")], {
      subagents: [worker.role],
    });
    const paused = await s.outcome(s.start(lead.role));
    const run = s.grantOn(
      lead.role,
      paused.pausedRun,
      [{ budget: { steps: 1 }, by: "Ann", agentPath: "lead/worker#1" }],
      approveAll(paused),
    );
    const result = await s.outcome(run);
    expect(rests(result)).toEqual({ lead: "completed", "lead/worker#1": "completed" });
  });
});
