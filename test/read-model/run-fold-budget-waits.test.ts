// Goal: the time of a run under a tight budget is divided into waits for budget, waits for a slot,
// and work.
// Method: real runs with a manual clock, in which each model call takes a second; sum all spans of
// the run.

import { expect } from "vitest";

import { wrapModelCall } from "../../src/hooks/hook.ts";
import { ModelError } from "../../src/model/model-error.ts";
import { says, type ScriptStep } from "../../src/testing/scripted-model.ts";
import { proves } from "../harness/proves.ts";
import { latch, newFixture, flushEventLoop, type Fixture } from "../harness/run-scripted.ts";
import { calls, spawn, tool, use } from "../harness/scripted-agents.ts";
import { foldOf } from "../support/read-model/fold-of.ts";
import {
  breaksAfter,
  brokenRun,
  played,
  playedUntil,
  RETRY,
  SECOND,
  slowRole,
  steps,
  sumOf,
  written,
} from "../support/read-model/slow-runs.ts";

proves(
  ["D575"],
  "divides the waits of ten agents with three leases and two slots into 16 s for budget and 4 s for slots",
  async () => {
    const s = newFixture({
      concurrency: { modelCalls: 2, toolCalls: 10 },
      limits: { maxBreadthPerParent: 10 },
    });
    const helper = slowRole(s, "helper", () => says("Done."), { maxOutputTokens: 500 });
    const tasks = Array.from({ length: 10 }, (_none, nth) => spawn("helper", `Part ${nth + 1}.`));
    const lead = slowRole(s, "lead", [calls(...tasks), says("All done.")], {
      maxOutputTokens: 100,
      subagents: [helper],
    });
    const run = s.start(lead, "Go.", {
      budget: { outputTokens: 1_700 },
    });
    await flushEventLoop();
    s.clock.advance(SECOND);
    await flushEventLoop();
    s.clock.advance(SECOND / 2);
    await flushEventLoop();
    // Two calls are running; a third has its budget but no slot.
    const during = foldOf(s.sink.events);
    expect(during.agents.map(({ activity }) => activity)).toEqual([
      "delegating",
      "thinking",
      "thinking",
      "queued",
      ...Array.from({ length: 7 }, () => "awaiting_budget"),
    ]);
    expect([during.running, during.awaitingBudget]).toEqual([11, 7]);
    await played(s, run);
    const { agents } = foldOf(s.sink.events);
    const sums = ["budget", "queue", "busy", "chat"] as const;
    expect(sums.map((kind) => [kind, sumOf(agents, kind)])).toEqual([
      ["budget", 16_000],
      ["queue", 4_000],
      ["busy", 0],
      ["chat", 12_000],
    ]);
    // The events report the same waits that are drawn.
    const reserved = s.sink.ofType("budget.reserved").map(({ waitedMs }) => waitedMs);
    const queued = s.sink.ofType("model.requested").map(({ queuedMs = 0 }) => queuedMs);
    const total = (list: readonly number[]): number => list.reduce((sum, ms) => sum + ms, 0);
    expect([total(reserved), total(queued)]).toEqual([16_000, 4_000]);
  },
);

proves(
  ["D574"],
  "draws the wait between two attempts of a call as a wait for budget, not for a slot",
  async () => {
    const held = latch();
    const s = newFixture(RETRY);
    const script = [breaksAfter(20), says("Whole.")];
    const run = brokenRun(s, slowRole(s, "broken", script, { maxOutputTokens: 50 }), held.opened);
    for (let half = 0; half < 6; half += 1) {
      await flushEventLoop();
      s.clock.advance(SECOND / 2);
    }
    await flushEventLoop();
    const during = foldOf(s.sink.events);
    const waiting = during.agents[2];
    expect([
      waiting?.activity,
      waiting?.waitsForBudgetOf?.agentPath,
      during.awaitingBudget,
    ]).toEqual(["awaiting_budget", "lead", 1]);
    held.open();
    await played(s, run);
    expect(
      s.sink
        .ofType("budget.queued")
        .map(({ agentPath, accountPath, stepId }) => [agentPath, accountPath, stepId]),
    ).toEqual([["lead/broken#1", "lead", s.sink.ofType("model.requested")[2]?.stepId]]);
    const { agents } = foldOf(s.sink.events);
    expect(written(agents[2])).toEqual([
      "chat 1000–2000 failed",
      "budget 2000–3000 ok of 0",
      "retry 3000–3000 failed",
      "chat 3000–4000 ok",
    ]);
    expect(s.sink.ofType("model.replied").map(({ queuedMs }) => queuedMs)).toEqual([0, 0, 0, 0]);
  },
);

proves(["D574"], "draws the wait of a further call of a hook as a wait for budget", async () => {
  const held = latch();
  const s = newFixture(RETRY);
  const twice = wrapModelCall(async (_request, next) => {
    await next();
    return await next();
  });
  const script = [says("A draft of some words."), says("Whole.")];
  const more = { maxOutputTokens: 60, hooks: [twice] };
  const run = brokenRun(s, slowRole(s, "broken", script, more), held.opened);
  for (let half = 0; half < 6; half += 1) {
    await flushEventLoop();
    s.clock.advance(SECOND / 2);
  }
  await flushEventLoop();
  expect(foldOf(s.sink.events).agents[2]?.activity).toBe("awaiting_budget");
  held.open();
  await played(s, run);
  const { agents } = foldOf(s.sink.events);
  expect(written(agents[2])).toEqual([
    "chat 1000–2000 ok",
    "budget 2000–3000 ok of 0",
    "chat 3000–4000 ok",
  ]);
});

proves(
  ["D574"],
  "ends the wait between two attempts when a stop of the agent is requested",
  async () => {
    const held = latch();
    const s = newFixture(RETRY);
    const script = [breaksAfter(20), says("Whole.")];
    const run = brokenRun(s, slowRole(s, "broken", script, { maxOutputTokens: 50 }), held.opened);
    for (let half = 0; half < 5; half += 1) {
      await flushEventLoop();
      s.clock.advance(SECOND / 2);
    }
    await flushEventLoop();
    run.requestStop("Enough.");
    await flushEventLoop();
    held.open();
    await played(s, run);
    const fold = foldOf(s.sink.events);
    expect(written(fold.agents[2])).toEqual(["chat 1000–2000 failed", "budget 2000–2500 cut of 0"]);
    expect(fold.awaitingBudget).toBe(0);
  },
);

proves(
  ["D626"],
  "shows an agent as working while one call of a hook runs and another waits for budget",
  async () => {
    const held = latch();
    const s = newFixture(RETRY);
    const both = wrapModelCall(async (_request, next) => (await Promise.all([next(), next()]))[1]);
    const more = { maxOutputTokens: 60, hooks: [both] };
    const run = brokenRun(
      s,
      slowRole(s, "broken", () => says("Whole."), more),
      held.opened,
    );
    for (let half = 0; half < 3; half += 1) {
      await flushEventLoop();
      s.clock.advance(SECOND / 2);
    }
    await flushEventLoop();
    // One call is running; the other waits for the budget that `slow` reserves.
    const during = foldOf(s.sink.events);
    expect([during.agents[2]?.activity, during.awaitingBudget]).toEqual(["thinking", 0]);
    s.clock.advance(SECOND / 2);
    await flushEventLoop();
    s.clock.advance(SECOND / 2);
    await flushEventLoop();
    const alone = foldOf(s.sink.events);
    expect([alone.agents[2]?.activity, alone.awaitingBudget]).toEqual(["awaiting_budget", 1]);
    held.open();
    await played(s, run);
    const { agents } = foldOf(s.sink.events);
    expect(steps(agents[2])).toEqual([
      "chat 1000–2000 ok, step 1",
      "budget 1000–2500 ok, step 1",
      "chat 2500–3500 ok, step 1",
    ]);
  },
);

/** A call that fails before its first output and is retried after a second. */
const UNAVAILABLE: ScriptStep = {
  error: new ModelError({ code: "model_unavailable", message: "Down.", retryAfterMs: SECOND }),
};

/**
 * Two subagents share one slot: `other` makes five calls of a second each, `broken` three attempts.
 */
function sharedSlot(s: Fixture): ReturnType<Fixture["start"]> {
  const step = (): ReturnType<typeof calls> => calls(use("note"));
  const other = slowRole(s, "other", [step(), step(), step(), step(), says("Other.")], {
    tools: [tool("note", () => "Noted.")],
  });
  const broken = slowRole(s, "broken", [UNAVAILABLE, UNAVAILABLE, says("Whole.")]);
  const lead = slowRole(s, "lead", [calls(spawn("other"), spawn("broken")), says("Done.")], {
    subagents: [other, broken],
  });
  return s.start(lead, "Go.");
}

const ONE_SLOT = { ...RETRY, concurrency: { modelCalls: 1, toolCalls: 10 } };

proves(
  ["D627"],
  "draws the wait of each of three attempts for its slot before the attempt",
  async () => {
    const s = newFixture(ONE_SLOT);
    const run = sharedSlot(s);
    const startMs = s.clock.nowMs();
    await playedUntil(s, startMs + 10 * SECOND);
    await played(s, run);
    const { agents } = foldOf(s.sink.events);
    expect(steps(agents[2])).toEqual([
      "queue 1000–2000 ok, step 1",
      "chat 2000–9000 ok, step 1",
      "retry 3000–4100 failed, step 1",
      "queue 4100–5000 ok, step 1",
      "retry 6000–7100 failed, step 1",
      "queue 7100–8000 ok, step 1",
    ]);
    const replied = s.sink
      .ofType("model.replied")
      .filter(({ agentPath }) => agentPath === "lead/broken#1");
    expect(replied.map(({ queuedMs }) => queuedMs)).toEqual([2_800]);
  },
);

proves(["D627"], "cuts an attempt's wait for its slot when the run is cancelled", async () => {
  const s = newFixture(ONE_SLOT);
  const run = sharedSlot(s);
  await playedUntil(s, s.clock.nowMs() + 7_500);
  void run.cancel("Enough.");
  await played(s, run);
  const { agents } = foldOf(s.sink.events);
  expect(steps(agents[2]).slice(-3)).toEqual([
    "queue 4100–5000 ok, step 1",
    "retry 6000–7100 failed, step 1",
    "queue 7100–7500 cut, step 1",
  ]);
  expect(s.sink.ofType("model.failed").map(({ queuedMs }) => queuedMs)).toContain(2_300);
});
