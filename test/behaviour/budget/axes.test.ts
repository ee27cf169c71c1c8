// Goal: every axis of a budget binds at every level, and the tightest limit on the path applies.
// Method: a root, a child and a grandchild. The grandchild continues until a limit stops it. The
// limit is set on each of the three in turn, so that it leaves the grandchild three steps.

import { describe, expect } from "vitest";

import type { Budget } from "../../../src/policies/budget.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture, type Fixture } from "../../harness/run-scripted.ts";
import { calls, part, spawn, tool, type Part } from "../../harness/scripted-agents.ts";

const LEVELS = ["root", "root/child#1", "root/child#1/grandchild#1"] as const;
type Level = (typeof LEVELS)[number];

const SOME_NUMBER: unknown = expect.any(Number);

interface Axis {
  readonly name: string;
  readonly code: string;
  readonly budget: (limit: number) => Budget;
  /** Usage of three steps of the grandchild and of the agents above it, by level. */
  readonly limits: readonly [number, number, number];
  readonly spent: readonly [number, number, number];
  /** True if an ancestor at the limit may still answer, as its text uses nothing on this axis. */
  readonly leavesText?: true;
}

// A step of the grandchild: 10 tokens in, 4 of them cached, 5 out, 1 tool call, 15 micro-dollars,
// 10 ms. Its ancestors take one step with one call each before it starts, and no tokens.
const AXES: readonly Axis[] = [
  {
    name: "inputTokens",
    code: "token_limit",
    budget: (inputTokens) => ({ inputTokens }),
    limits: [30, 30, 30],
    spent: [30, 30, 30],
    leavesText: true,
  },
  {
    // The next call might read all of its 10 tokens from the cache, so it does not fit after 12 of
    // 20.
    name: "cachedInputTokens",
    code: "token_limit",
    budget: (cachedInputTokens) => ({ cachedInputTokens }),
    limits: [20, 20, 20],
    spent: [12, 12, 12],
    leavesText: true,
  },
  {
    name: "outputTokens",
    code: "token_limit",
    budget: (outputTokens) => ({ outputTokens }),
    limits: [15, 15, 15],
    spent: [15, 15, 15],
  },
  {
    name: "totalTokens",
    code: "token_limit",
    budget: (totalTokens) => ({ totalTokens }),
    limits: [45, 45, 45],
    spent: [45, 45, 45],
  },
  {
    // The ancestors reserve one micro-dollar for their next answer, and none is left.
    name: "costUsd",
    code: "cost_limit",
    budget: (costUsd) => ({ costUsd }),
    limits: [0.000045, 0.000045, 0.000045],
    spent: [0.000045, 0.000045, 0.000045],
  },
  {
    name: "steps",
    code: "step_limit",
    budget: (steps) => ({ steps }),
    limits: [5, 4, 3],
    spent: [5, 4, 3],
  },
  {
    name: "toolCalls",
    code: "tool_call_limit",
    budget: (toolCalls) => ({ toolCalls }),
    limits: [4, 3, 2],
    spent: [4, 3, 2],
    leavesText: true,
  },
];

describe.each(AXES)("$name", (axis) => {
  for (const [depth, level] of LEVELS.entries()) {
    proves(["X3"], `leaves the grandchild three steps with a limit at ${level}`, async () => {
      const s = newFixture();
      const maximum = axis.limits[depth] ?? 0;
      const chain = chainWith(s, level, axis.budget(maximum));
      const result = await s.run(chain.root.role);
      const { status, reason } = result.agents[2] ?? expect.fail("no grandchild");
      expect({ status, code: reason.code, data: reason.data }).toEqual({
        status: "stopped",
        code: axis.code,
        data: {
          axis: axis.name,
          accountPath: level,
          maximum,
          current: axis.spent[depth],
          requested: SOME_NUMBER,
        },
      });
      expect(chain.grandchild.model.requests).toHaveLength(3);
      const ends = result.agents.map((agent) => agent.status);
      expect(ends).toEqual(
        LEVELS.map((_level, at) => (isStopped(axis, at, depth) ? "stopped" : "completed")),
      );
    });
  }
});

describe("timeMs", () => {
  for (const [depth, level] of LEVELS.entries()) {
    proves(["X3"], `ends the grandchild in its third step with a limit at ${level}`, async () => {
      const s = newFixture();
      const chain = chainWith(s, level, { timeMs: 30 });
      const result = await s.run(chain.root.role);
      const { status, reason, steps } = result.agents[2] ?? expect.fail("no grandchild");
      expect([status, reason.code, reason.message]).toEqual([
        "stopped",
        "time_limit",
        `The time limit of ${level} allows 30 ms; that time is over.`,
      ]);
      expect(steps.map((step) => step.tools.executions.map((execution) => execution.type))).toEqual(
        [["succeeded"], ["succeeded"], ["cancelled"]],
      );
      const ends = result.agents.map((agent) => agent.status);
      expect(ends).toEqual(LEVELS.map((_level, at) => (at >= depth ? "stopped" : "completed")));
    });
  }

  proves(["X3"], "does not let a child's longer time limit outlast its parent's", async () => {
    const s = newFixture();
    const chain = chainWith(s, "root/child#1", { timeMs: 30 }, { timeMs: 5_000 });
    const result = await s.run(chain.root.role);
    expect(result.agents.map((agent) => [agent.status, agent.durationMs])).toEqual([
      ["completed", 30],
      ["stopped", 30],
      ["stopped", 30],
    ]);
  });
});

/**
 * True for the grandchild, and for agents at the limit or below it unless a text is still possible.
 */
function isStopped(axis: Axis, at: number, depth: number): boolean {
  return at === 2 || (at >= depth && axis.leavesText !== true);
}

interface Chain {
  readonly root: Part;
  readonly grandchild: Part;
}

/** Creates a chain with one budget at the given level and another at the levels below it. */
function chainWith(s: Fixture, level: Level, budget: Budget, below: Budget = {}): Chain {
  const limited = LEVELS.indexOf(level);
  const at = (depth: number): Budget => (depth === limited ? budget : depth > limited ? below : {});
  const tick = tool("tick", () => s.clock.advance(10));
  const price = { inputUsdPerMillion: 1, outputUsdPerMillion: 1 };
  const grandchild = part(
    "grandchild",
    () => asks("tick", {}, { usage: { cachedInputTokens: 4 } }),
    { tools: [tick], maxOutputTokens: 5, scripted: { price }, budget: at(2) },
  );
  const usage = { inputTokens: 0, outputTokens: 0 };
  const above = (name: string, child: Part, depth: number): Part =>
    part(name, [{ ...calls(spawn(child.role.name)), usage }, says("Done.", { usage })], {
      scripted: { countTokens: () => 0, price },
      maxOutputTokens: 1,
      subagents: [child.role],
      budget: at(depth),
    });
  return { root: above("root", above("child", grandchild, 1), 0), grandchild };
}
