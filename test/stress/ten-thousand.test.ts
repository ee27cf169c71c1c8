// Goal: a tree of ten thousand agents obeys the same laws as a small one, and each agent costs the
// same work.
// Method: models that answer from the request alone, and budgets that are spent to the last token.
// Work is counted instead of timed: reads of the clock, created ids and emitted events.

import { describe, expect, test } from "vitest";

import { latch, flushEventLoop } from "../harness/run-scripted.ts";
import { lead, playBigTree, TOKENS_PER_REPLY, worker, type Work } from "./big-trees.ts";

const TIMEOUT_MS = 120_000;

/** A tree in which every agent has ten children. */
function byTens(depth: number): ReturnType<typeof lead> {
  let role = worker();
  for (let level = depth; level > 0; level -= 1) role = lead(`lead${level}`, role, 10);
  return role;
}

describe("ten thousand agents in one tree", () => {
  test(
    "completes four levels of ten children per agent on a budget that is spent to the last token",
    async () => {
      const leads = 1 + 10 + 100 + 1_000;
      const workers = 10_000;
      const steps = 2 * leads + workers;
      const totalTokens = steps * TOKENS_PER_REPLY;
      const toolCalls = leads - 1 + workers;
      const budget = { steps, totalTokens, toolCalls };
      const { result } = await playBigTree(byTens(4), { budget });
      expect([result.status, result.agents.length]).toEqual(["completed", leads + workers]);
      expect(result.subagentsByDepth).toEqual({ 1: 10, 2: 100, 3: 1_000, 4: workers });
      const { total } = result.usage;
      expect([total.steps, total.totalTokens, total.toolCalls]).toEqual([
        steps,
        totalTokens,
        toolCalls,
      ]);
    },
    TIMEOUT_MS,
  );

  test(
    "starts ten thousand subagents from one reply and refuses ten more",
    async () => {
      const { result, sink } = await playBigTree(lead("lead", worker(), 10_010), {
        maxTotalSubagents: 10_000,
      });
      expect([result.status, result.subagentsByDepth, result.refusalsByCode]).toEqual([
        "completed",
        { 1: 10_000 },
        { total_limit: 10 },
      ]);
      const executions = result.steps[0]?.tools.executions ?? [];
      expect(executions.map(({ type }) => type)).toEqual([
        ...Array.from({ length: 10_000 }, () => "succeeded"),
        ...Array.from({ length: 10 }, () => "refused"),
      ]);
      const born = sink.ofType("subagent.spawned").map(({ childPath }) => childPath);
      expect(born).toEqual(
        Array.from({ length: 10_000 }, (_one, index) => `lead/worker#${index + 1}`),
      );
    },
    TIMEOUT_MS,
  );

  test(
    "cancels ten thousand live subagents, leaves first",
    async () => {
      const { opened } = latch();
      const root = lead("lead", worker(opened), 10_000);
      const { result } = await playBigTree(root, {}, async (run, sink) => {
        while (sink.ofType("agent.started").length < 10_001) await flushEventLoop();
        expect(sink.ofType("agent.ended")).toEqual([]);
        void run.cancel("Enough.");
      });
      const ends = new Set(result.agents.map(({ status }) => status));
      expect([result.agents.length, [...ends]]).toEqual([10_001, ["cancelled"]]);
    },
    TIMEOUT_MS,
  );
});

/** Returns the work for one more subagent. */
function slope(less: Work, more: Work, subagents: number): Work {
  return {
    clockReadings: (more.clockReadings - less.clockReadings) / subagents,
    ids: (more.ids - less.ids) / subagents,
    events: (more.events - less.events) / subagents,
  };
}

describe("each agent costs the same work, however many there are", () => {
  test.each([
    ["replies of a hundred", (count: number) => lead("lead", worker(), count, 100)],
    ["one reply", (count: number) => lead("lead", worker(), count)],
  ])(
    "%s",
    async (_shape, root) => {
      const { work: small } = await playBigTree(root(100));
      const { work: middle } = await playBigTree(root(1_000));
      const { work: large } = await playBigTree(root(10_000));
      expect(slope(middle, large, 9_000)).toEqual(slope(small, middle, 900));
      // Its id and that of its execution.
      expect(slope(small, middle, 900).ids).toBe(2);
    },
    TIMEOUT_MS,
  );
});
