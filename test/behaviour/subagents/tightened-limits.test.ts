// Goal: limits of an agent bind its descendants. A subagent that requests more gets its parent's
// limits, and the manifest of its spawn records it.
// Method: chains of three levels whose roles request more; accounts, manifests, refusals and ends
// compared in full.

import { describe, expect, test } from "vitest";

import type { AgentDefinition } from "../../../src/agent/define-agent.ts";
import type { Budget } from "../../../src/policies/budget.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { beside, onward, rests, spawnOf, newWideFixture } from "../../support/life-agents.ts";
import { calls, part, spawn, receivedTexts, tool, use } from "../../harness/scripted-agents.ts";

type More = Partial<Omit<AgentDefinition, "name" | "model" | "subagents">>;

/** Creates three levels, each with the given requests. */
function levels(root: More, child: More, leaf: More, s = newWideFixture()) {
  const bottom = part("leaf", () => says("Leaf."), leaf);
  const middle = part("child", [calls(spawn("leaf")), says("Child.")], {
    ...child,
    subagents: [bottom.role],
  });
  const top = part("root", [calls(spawn("child")), says("Root.")], {
    ...root,
    subagents: [middle.role],
  });
  return { s, top, middle, bottom };
}

describe("a time limit", () => {
  proves(
    ["S7.27", "X16"],
    "is recorded with the granted time if it exceeds the parent's remaining time, and not otherwise",
    async () => {
      const s = newWideFixture();
      const wait = tool("wait", () => (s.clock.advance(400), "waited"));
      const leaf = part("leaf", () => says("Leaf."), { budget: { timeMs: 5_000 } });
      const quick = part("quick", () => says("Quick."), { budget: { timeMs: 600 } });
      const lead = part(
        "lead",
        [calls(use("wait")), calls(spawn("leaf"), spawn("quick")), says("Done.")],
        { tools: [wait], subagents: [leaf.role, quick.role] },
      );
      await s.run(lead.role, { budget: { timeMs: 1_000 } });
      expect(spawnOf(s, "lead/leaf#1").inherited.tightened).toEqual([
        { field: "budget.timeMs", requested: 5_000, granted: 600, source: "lead" },
      ]);
      expect(spawnOf(s, "lead/quick#1").inherited.tightened).toEqual([]);
    },
  );
});

describe("tree limits of a role", () => {
  proves(
    ["X16"],
    "are those of its parent if it requests more, with a manifest entry for each, at three levels",
    async () => {
      const { s, top } = levels(
        { limits: { maxDepth: 3, maxBreadthPerParent: 2, maxTotalSubagents: 4 } },
        { limits: { maxDepth: 6, maxBreadthPerParent: 9, maxTotalSubagents: 40 } },
        { limits: { maxDepth: 5, maxBreadthPerParent: 1, maxTotalSubagents: 5 } },
      );
      await s.run(top.role);
      expect(spawnOf(s, "root/child#1").inherited.tightened).toEqual([
        { field: "limits.maxDepth", requested: 6, granted: 3, source: "root" },
        { field: "limits.maxBreadthPerParent", requested: 9, granted: 2, source: "root" },
        { field: "limits.maxTotalSubagents", requested: 40, granted: 4, source: "root" },
      ]);
      const below = spawnOf(s, "root/child#1/leaf#1").inherited.tightened;
      expect(
        below.map(({ field, requested: asked, granted: given }) => [field, asked, given]),
      ).toEqual([
        ["limits.maxDepth", 5, 3],
        ["limits.maxTotalSubagents", 5, 4],
      ]);
    },
  );

  test("apply without a manifest entry if they are tighter or equal", async () => {
    const { s, top } = levels(
      { limits: { maxDepth: 3 } },
      { limits: { maxDepth: 3, maxBreadthPerParent: 0 } },
      {},
    );
    const result = await s.run(top.role);
    expect([spawnOf(s, "root/child#1").inherited.tightened, result.refusalsByCode]).toEqual([
      [],
      { breadth_limit: 1 },
    ]);
  });

  proves(
    ["X16"],
    "bind descendants in depth, breadth and total, whatever they request",
    async () => {
      for (const [limits, code] of [
        [{ maxDepth: 1 }, "depth_limit"],
        [{ maxBreadthPerParent: 1 }, "breadth_limit"],
        [{ maxTotalSubagents: 2 }, "total_limit"],
      ] as const) {
        const s = newWideFixture();
        const bottom = part("leaf", () => says("Leaf."));
        const loose = { limits: { maxDepth: 6, maxBreadthPerParent: 20, maxTotalSubagents: 50 } };
        const middle = part(
          "child",
          [calls(spawn("leaf", "1"), spawn("leaf", "2")), says("Child.")],
          {
            ...loose,
            subagents: [bottom.role],
          },
        );
        const top = part("root", [calls(spawn("child")), says("Root.")], {
          limits,
          subagents: [middle.role],
        });
        const result = await s.run(top.role);
        expect([code, Object.keys(result.refusalsByCode), result.status]).toEqual([
          code,
          [code],
          "completed",
        ]);
      }
    },
  );
});

describe("budgets", () => {
  proves(
    ["X16"],
    "are the parent's remaining budget if a role requests more, and the manifest records both",
    async () => {
      const { s, top } = levels(
        {},
        { budget: { totalTokens: 5_000, steps: 50 } },
        { budget: { totalTokens: 9_000, steps: 2, toolCalls: 9 } },
      );
      const result = await s.run(top.role, {
        budget: { totalTokens: 1_000, steps: 10, toolCalls: 5 },
      });
      expect(spawnOf(s, "root/child#1").inherited.tightened).toEqual([
        { field: "budget.steps", requested: 50, granted: 9, source: "root" },
        { field: "budget.totalTokens", requested: 5_000, granted: 985, source: "root" },
      ]);
      expect(
        spawnOf(s, "root/child#1/leaf#1").inherited.tightened.map(
          ({ field, requested: asked, granted: given }) => [field, asked, given],
        ),
      ).toEqual([
        ["budget.totalTokens", 9_000, 970],
        ["budget.toolCalls", 9, 3],
      ]);
      expect(result.status).toBe("completed");
    },
  );

  proves(
    ["X16"],
    "bind at every level: the tightest on the path stops the agent that reaches it",
    async () => {
      const axes: readonly (readonly [Budget, string])[] = [
        [{ steps: 3 }, "step_limit"],
        [{ totalTokens: 45 }, "token_limit"],
        [{ toolCalls: 3 }, "tool_call_limit"],
      ];
      for (const [budget, code] of axes) {
        const s = newWideFixture();
        const loose: Budget = { steps: 100, totalTokens: 10_000, toolCalls: 100 };
        const bottom = part("leaf", () => calls(use("look")), {
          tools: [tool("look", () => "seen")],
          budget: loose,
        });
        const middle = part("child", [calls(spawn("leaf")), says("Child.")], {
          subagents: [bottom.role],
          budget: loose,
        });
        const top = part("root", [calls(spawn("child")), says("Root.")], {
          subagents: [middle.role],
        });
        const result = await s.run(top.role, { budget });
        expect([code, rests(result)["root/child#1/leaf#1"]]).toEqual([code, `stopped (${code})`]);
        for (const { total, limits } of result.accounts)
          expect(total.steps).toBeLessThanOrEqual(limits.steps ?? Infinity);
      }
    },
  );

  test("are tightened by shares, with a manifest entry", async () => {
    const s = newWideFixture();
    const child = part("child", () => says("Child."), { budget: { steps: 50 } });
    const top = part("root", [calls(spawn("child", "1"), spawn("child", "2")), says("Root.")], {
      subagents: [child.role],
      delegation: { share: { type: "even" } },
    });
    await s.run(top.role, { budget: { steps: 9 } });
    expect([1, 2].map((n) => spawnOf(s, `root/child#${n}`).inherited.tightened)).toEqual(
      [1, 2].map(() => [{ field: "budget.steps", requested: 50, granted: 4, source: "root" }]),
    );
  });
});

describe("deadlines", () => {
  proves(["X16"], "end the subagents of an agent, whatever time they request", async () => {
    const s = newWideFixture();
    const bottom = part("leaf", [calls(use("spend")), says("Never.")], {
      tools: [tool("spend", () => (s.clock.advance(1_000), "spent"))],
      budget: { timeMs: 90_000 },
    });
    const middle = part("child", [calls(spawn("leaf")), says("Never.")], {
      subagents: [bottom.role],
      budget: { timeMs: 60_000 },
    });
    const root = part("root", [calls(spawn("child")), says("Never.")], {
      subagents: [middle.role],
      budget: { timeMs: 1_000 },
    });
    const result = await s.run(root.role);
    expect(rests(result)).toEqual({
      root: "stopped (time_limit)",
      "root/child#1": "stopped (time_limit)",
      "root/child#1/leaf#1": "stopped (time_limit)",
    });
  });

  test("end no ancestor of the agent", async () => {
    const s = newWideFixture();
    const bottom = part("leaf", [calls(use("spend")), says("Never.")], {
      tools: [tool("spend", () => (s.clock.advance(1_000), "spent"))],
      budget: { timeMs: 500 },
    });
    const root = part("root", [calls(spawn("leaf")), says("Root.")], {
      subagents: [bottom.role],
      budget: { timeMs: 60_000 },
    });
    const result = await s.run(root.role);
    expect(rests(result)).toEqual({ root: "completed", "root/leaf#1": "stopped (time_limit)" });
  });
});

describe("denials", () => {
  proves(
    ["X16"],
    "bind the leaf if the root denies a tool, whatever roles in between allow",
    async () => {
      const ran: string[] = [];
      const wipe = tool("wipe", () => (ran.push("wipe"), "wiped"));
      const s = newWideFixture();
      const bottom = part("leaf", [calls(use("wipe")), says("Leaf.")], {
        tools: [wipe, tool("look", () => "seen")],
      });
      const middle = part("child", [calls(spawn("leaf")), says("Child.")], {
        subagents: [bottom.role],
        contextPolicy: { allowedTools: ["wipe", "look"] },
      });
      const top = part("root", [calls(spawn("child")), says("Root.")], {
        subagents: [middle.role],
        contextPolicy: { deniedTools: ["wipe"] },
      });
      await s.run(top.role);
      expect([ran, receivedTexts(bottom.model.requests[1])[0]]).toEqual([
        [],
        expect.stringContaining("you cannot use wipe"),
      ]);
      expect(spawnOf(s, "root/child#1/leaf#1").inherited.removedTools).toEqual([
        { toolName: "wipe", rule: "denied", source: "root" },
      ]);
    },
  );

  test("bind continued and background subagents if a guard denies a call", async () => {
    const ran: string[] = [];
    const wipe = tool("wipe", () => (ran.push("wipe"), "wiped"));
    const s = newWideFixture();
    const leaf = part(
      "leaf",
      (request) => (request.messages.at(-1)?.role === "tool" ? says("Leaf.") : calls(use("wipe"))),
      {
        tools: [wipe],
      },
    );
    const top = part(
      "root",
      [
        calls(spawn("leaf", "1")),
        calls(onward("leaf#1", "2")),
        calls(beside("leaf", "3")),
        says("Early."),
        says("Root."),
      ],
      {
        subagents: [leaf.role],
        delegation: { background: true },
        guards: [toolGuard(() => ({ type: "deny", reason: "Never." }), { tools: ["wipe"] })],
      },
    );
    const result = await s.run(top.role);
    expect([ran, result.status, s.sink.ofType("tool.guarded").length]).toEqual([
      [],
      "completed",
      3,
    ]);
  });
});

test("a second execution is bound by the same limits as the first", async () => {
  const s = newFixture();
  const worker = part("worker", () => calls(use("look")), {
    tools: [tool("look", () => "seen")],
    budget: { steps: 3 },
  });
  const lead = part(
    "lead",
    [calls(spawn("worker", "1")), calls(onward("worker#1", "2")), says("Done.")],
    { subagents: [worker.role] },
  );
  const result = await s.run(lead.role);
  expect([worker.model.requests.length, rests(result)]).toEqual([
    3,
    { lead: "completed", "lead/worker#1": "stopped (step_limit)" },
  ]);
});
