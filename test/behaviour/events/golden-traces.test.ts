// Goal: the order of events is fixed, even after failures, and the reported stops and usage are
// consistent.
// Method: compare whole traces, one line per event, with golden files; sum the events of every
// golden run and every ending.

import { expect, test } from "vitest";

import { type EspalierEvent, sumUsage } from "../../../src/protocol/event.ts";
import { findWinningSignal } from "../../../src/policies/stop-signals.ts";
import type { StopSignal } from "../../../src/protocol/stop.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { ENDINGS } from "../../support/golden-endings.ts";
import { checkGolden } from "../../support/golden-files.ts";
import { goldenLines } from "../../support/golden-lines.ts";
import { GOLDEN_SCRIPTS, type Played } from "../../support/golden-scripts.ts";

for (const [name, play] of Object.entries(GOLDEN_SCRIPTS)) {
  proves(["R179"], `matches the golden trace of ${name}`, async () => {
    const { fixture } = await play();
    checkGolden(name, goldenLines(fixture.sink.events));
  });
}

test("emits the same trace every time", async () => {
  for (const play of Object.values(GOLDEN_SCRIPTS)) {
    const [first, second] = [await play(), await play()];
    expect(goldenLines(second.fixture.sink.events)).toBe(goldenLines(first.fixture.sink.events));
  }
});

const ALL: readonly (readonly [name: string, play: () => Promise<Played>])[] = [
  ...Object.entries(GOLDEN_SCRIPTS),
  ...ENDINGS.map(({ code, play }): (typeof ALL)[number] => [code, play]),
];

for (const [name, play] of ALL) {
  proves(
    ["R180"],
    `${name}: reports all signals, the winning reason and the pending work in every evaluation`,
    async () => {
      const { fixture } = await play();
      const raised = new Map<string, readonly StopSignal[]>();
      for (const event of fixture.sink.events) {
        const before = raised.get(event.agentId) ?? [];
        if (event.type === "signal.raised") raised.set(event.agentId, [...before, event.signal]);
        if (event.type !== "continuation.evaluated") continue;
        const { decision, work, signals, reason } = event;
        expect(signals).toEqual(before);
        expect(reason).toEqual(findWinningSignal(before)?.reason);
        expect([decision === "stop", work.length > 0]).toEqual([
          before.length > 0,
          before.length === 0,
        ]);
      }
      for (const ended of fixture.sink.ofType("agent.ended"))
        expect(evaluationsOf(fixture.sink.events, ended.agentId).at(-1)?.reason).toEqual(
          ended.reason,
        );
    },
  );

  proves(
    ["R181"],
    `${name}: sums the usage of steps to that of each agent and of the run`,
    async () => {
      const { fixture, result } = await play();
      if (result.status === "paused") return;
      const used = Map.groupBy(fixture.sink.events, ({ agentId }) => agentId);
      expect(result.agents.map(({ agentId }) => sumUsage(used.get(agentId) ?? []))).toEqual(
        result.agents.map(({ usage }) => usage.own),
      );
      expect(sumUsage(fixture.sink.events)).toEqual(result.usage.total);
      const [root] = fixture.sink.ofType("agent.ended").slice(-1);
      expect(root?.usage.total).toEqual(result.usage.total);
    },
  );
}

function evaluationsOf(events: readonly EspalierEvent[], agentId: string) {
  return events.flatMap((event) =>
    event.type === "continuation.evaluated" && event.agentId === agentId ? [event] : [],
  );
}

proves(["R180"], "emits one evaluation event per decision of the loop", async () => {
  const fixture = newFixture();
  const work = spyTool("work");
  const { role } = soloist([asks("work", {}), {}, says("almost"), says("done")], {
    tools: [work],
    budget: { steps: 9 },
  });
  const run = fixture.start(role);
  let decisions = 0;
  for await (const { phase, state } of run.iterate()) {
    if (phase === "infer" && state.log.steps.length === 2) void run.steer("And?");
    if (phase === "decide") decisions += 1;
    const evaluated = fixture.sink.ofType("continuation.evaluated").length;
    // The event that nothing further starts comes at the very end, with every signal.
    expect(evaluated).toBe(phase === "ended" || decisions < 4 ? decisions : 3);
  }
  await fixture.outcome(run);
  expect(
    fixture.sink
      .ofType("continuation.evaluated")
      .map(({ decision, work, signals, reason }) => [
        decision,
        work,
        signals.map(({ reason }) => reason.code),
        reason?.code,
      ]),
  ).toEqual([
    ["continue", ["tool_calls"], [], undefined],
    ["retry", ["missing_reply"], [], undefined],
    ["continue", ["messages"], [], undefined],
    ["stop", [], ["completed"], "completed"],
  ]);
});

proves(
  ["R181"],
  "counts a child's tokens once in the total, and in its own step only",
  async () => {
    const { fixture, result } =
      (await GOLDEN_SCRIPTS["child-runs"]?.()) ?? expect.fail("no script");
    const steps = fixture.sink.ofType("step.completed");
    expect(steps.reduce((sum, { usage }) => sum + usage.totalTokens, 0)).toBe(
      result.usage.total.totalTokens,
    );
    expect(result.usage.own.totalTokens + result.usage.descendants.totalTokens).toBe(
      result.usage.total.totalTokens,
    );
    expect(result.usage.total.totalTokens).toBe(6 * 15);
  },
);
