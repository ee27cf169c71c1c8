// Goal: a nearly exhausted budget is reported at 80 % and at 95 %, once each, by the agent that
// owns it.
// Method: real runs with calls of 15 tokens each; the events compared in full, including pauses and
// grants.

import { describe, expect, test } from "vitest";

import { approve } from "../../../src/protocol/question.ts";
import { says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, type Fixture } from "../../harness/run-scripted.ts";
import { payTool } from "../../support/pause-stories.ts";
import { calls, part, spawn, tool, until, use } from "../../harness/scripted-agents.ts";

const work = tool("work", () => "done");
const again = calls(use("work"));
const PAY = { toolName: "pay", arguments: { amount: 1 } };

function reached({ sink }: Fixture): readonly unknown[] {
  return sink
    .ofType("budget.threshold_reached")
    .map(({ agentPath, accountPath, axis, threshold, spent, maximum }) => [
      agentPath,
      accountPath,
      axis,
      threshold,
      `${spent} of ${maximum}`,
    ]);
}

proves(["X6"], "an exhausted budget emits two events, and never repeats them", async () => {
  const script = Array<ScriptedReply>(9).fill(again);
  const solo = part("solo", [...script, says("Done.")], { tools: [work] });
  const s = newFixture();
  await s.run(solo.role, { budget: { totalTokens: 150 } });
  expect(reached(s)).toEqual([
    ["solo", "solo", "totalTokens", 0.8, "120 of 150"],
    ["solo", "solo", "totalTokens", 0.95, "150 of 150"],
  ]);
});

test("a budget below its thresholds emits no event", async () => {
  const solo = part("solo", [again, says("Done.")], { tools: [work] });
  const s = newFixture();
  await s.run(solo.role, { budget: { totalTokens: 38, steps: 3, toolCalls: 2 } });
  expect(reached(s)).toEqual([]);
});

proves(
  ["X6"],
  "usage of a child reaches its own thresholds and those of its ancestors, reported by their owners",
  async () => {
    const child = part("child", [again, says("Child.")], { tools: [work], budget: { steps: 2 } });
    const lead = part("lead", [calls(spawn("child")), says("Done.")], { subagents: [child.role] });
    const s = newFixture();
    await s.run(lead.role, { budget: { totalTokens: 56, toolCalls: 20 } });
    expect(reached(s)).toEqual([
      ["lead/child#1", "lead/child#1", "steps", 0.8, "2 of 2"],
      ["lead/child#1", "lead/child#1", "steps", 0.95, "2 of 2"],
      ["lead", "lead", "totalTokens", 0.8, "45 of 56"],
      ["lead", "lead", "totalTokens", 0.95, "60 of 56"],
    ]);
    const events = s.sink.ofType("budget.threshold_reached");
    expect(events.map(({ executionId, stepId, callId }) => [executionId, stepId, callId])).toEqual(
      events.map(() => [null, null, null]),
    );
  },
);

describe("a time limit", () => {
  const late = (ms: number) =>
    tool("late", () => {
      clock?.advance(ms);
      return "done";
    });
  let clock: Fixture["clock"] | undefined;

  proves(["S7.27", "X6"], "reaches its thresholds to the millisecond, once each", async () => {
    const s = newFixture();
    const held = latch();
    const hold = tool("hold", () => held.opened);
    const solo = part("solo", [calls(use("hold")), says("Done.")], { tools: [hold] });
    const run = s.start(solo.role, "Do it.", { budget: { timeMs: 1_000 } });
    await until(() => s.sink.ofType("tool.started").length === 1);
    s.clock.advance(799);
    expect([reached(s), s.clock.pendingTimers]).toEqual([[], 1]);
    s.clock.advance(1);
    const first = ["solo", "solo", "timeMs", 0.8, "800 of 1000"];
    expect(reached(s)).toEqual([first]);
    s.clock.advance(149);
    expect(reached(s)).toEqual([first]);
    s.clock.advance(1);
    const second = ["solo", "solo", "timeMs", 0.95, "950 of 1000"];
    expect(reached(s)).toEqual([first, second]);
    held.open();
    expect((await s.outcome(run)).status).toBe("completed");
    expect(reached(s)).toEqual([first, second]);
  });

  proves(
    ["S7.27", "X6"],
    "reports its thresholds for its own agent, and does not count pauses",
    async () => {
      const pay = payTool();
      const child = part("child", [calls(use("late")), says("Child.")], {
        tools: [late(90)],
        budget: { timeMs: 100 },
      });
      const lead = part(
        "lead",
        [calls(spawn("child")), calls(PAY), calls(use("late")), says("Done.")],
        {
          subagents: [child.role],
          tools: [late(760), pay],
        },
      );
      const s = newFixture();
      ({ clock } = s);
      const run = s.start(lead.role, "Do it.", { budget: { timeMs: 1_000 } });
      const paused = await s.outcome(run);
      const byChild = ["lead/child#1", "lead/child#1", "timeMs", 0.8, "80 of 100"];
      expect(reached(s)).toEqual([byChild]);
      s.clock.advance(60_000);
      const answers = (paused.pausedRun?.questions ?? []).map((question) => approve(question));
      await s.outcome(s.resume(lead.role, paused.pausedRun, answers));
      expect(reached(s)).toEqual([byChild, ["lead", "lead", "timeMs", 0.8, "800 of 1000"]]);
    },
  );

  proves(
    ["S7.27", "X6"],
    "reaches the thresholds of the enlarged limit after a grant",
    async () => {
      const s = newFixture();
      const held = latch();
      const hold = tool("hold", () => held.opened);
      const solo = part("solo", [calls(use("hold")), says("Done.")], { tools: [hold] });
      const run = s.start(solo.role, "Do it.", { budget: { timeMs: 1_000 } });
      await until(() => s.sink.ofType("tool.started").length === 1);
      s.clock.advance(800);
      run.grant({ timeMs: 1_000 }, { by: "Ann" });
      s.clock.advance(799);
      expect(reached(s).length).toBe(1);
      s.clock.advance(1);
      expect(reached(s).at(-1)).toEqual(["solo", "solo", "timeMs", 0.8, "1600 of 2000"]);
      held.open();
      await s.outcome(run);
    },
  );
});

proves(["X6"], "a pause and a resume repeat no threshold event", async () => {
  const solo = part("solo", [calls(PAY), again, says("Done.")], { tools: [work, payTool()] });
  const s = newFixture();
  const options = { budget: { totalTokens: 45, steps: 100 } };
  const paused = await s.outcome(s.start(solo.role, "Do it.", options));
  const before = reached(s).length;
  const answers = (paused.pausedRun?.questions ?? []).map((question) => approve(question));
  await s.outcome(s.resume(solo.role, paused.pausedRun, answers));
  expect([before, reached(s)]).toEqual([
    0,
    [
      ["solo", "solo", "totalTokens", 0.8, "45 of 45"],
      ["solo", "solo", "totalTokens", 0.95, "45 of 45"],
    ],
  ]);
});
