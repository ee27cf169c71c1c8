// Goal: waits of additional model calls of a hook end at the right time and carry the right names.
// Method: real runs with a manual clock, in which each model call takes a second; compare the spans
// and events of the waits.

import { expect } from "vitest";

import { wrapModelCall } from "../../src/hooks/hook.ts";
import type { AgentRole } from "../../src/agent/agent-role.ts";
import type { ModelReply } from "../../src/model/model.ts";
import { modelLimits } from "../../src/model/model-limits.ts";
import { says } from "../../src/testing/scripted-model.ts";
import type { RunFold } from "../../src/read-model/run-fold.ts";
import { proves } from "../harness/proves.ts";
import { latch, newFixture, type Fixture } from "../harness/run-scripted.ts";
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
} from "../support/read-model/slow-runs.ts";

type Next = () => Promise<ModelReply>;

/** The role `broken`: its one hook calls the model, and its replies use 120 output tokens. */
function hooked(s: Fixture, callModel: (next: Next) => Promise<ModelReply>): AgentRole {
  return slowRole(s, "broken", () => ({ ...says("Whole."), usage: { outputTokens: 120 } }), {
    maxOutputTokens: 60,
    hooks: [wrapModelCall((_request, next) => callModel(next))],
  });
}

/** Six seconds of work in a hook without a model call. */
function works({ clock }: Fixture): Promise<void> {
  return new Promise((wake) => void clock.setTimer(6 * SECOND, wake));
}

/** Calls the model twice in parallel and continues whatever the second call returns. */
function outliving(s: Fixture, others = 1): AgentRole {
  return hooked(s, async (next) => {
    const first = next();
    const rest = Array.from({ length: others }, () => next().catch(() => undefined));
    const reply = await first;
    await Promise.all(rest);
    await works(s);
    return reply;
  });
}

/** Returns the reported waits of additional calls: time, call and end. */
function waits(s: Fixture): readonly string[] {
  return s.sink.events.flatMap((event) => {
    const { atMs, modelCallNumber = 1 } = event;
    if (event.type === "budget.queued")
      return [`${atMs - zeroOf(s)} call ${modelCallNumber} waits`];
    if (event.type !== "budget.dequeued") return [];
    return [`${atMs - zeroOf(s)} call ${modelCallNumber} ${event.outcome}`];
  });
}

function zeroOf({ sink }: Fixture): number {
  return sink.ofType("run.started")[0]?.atMs ?? 0;
}

/** Returns the activity of `broken` at a moment of the run, and how many agents wait for budget. */
async function seenAt(s: Fixture, ms: number): Promise<readonly [string | undefined, number]> {
  await playedUntil(s, zeroOf(s) + ms);
  const { agents, awaitingBudget }: RunFold = foldOf(s.sink.events);
  return [agents[2]?.activity, awaitingBudget];
}

proves(
  ["D536"],
  "ends the wait of an additional call when it is refused, while its hook continues",
  async () => {
    const held = latch();
    const s = newFixture(RETRY);
    const run = brokenRun(s, outliving(s), held.opened, 122);
    await playedUntil(s, s.clock.nowMs() + 1_500);
    held.open();
    expect(await seenAt(s, 2_500)).toEqual(["preparing", 0]);
    await played(s, run);
    expect(waits(s)).toEqual(["1000 call 2 waits", "2000 call 2 refused"]);
    expect(steps(foldOf(s.sink.events).agents[2])).toEqual([
      "chat 1000–2000 ok, step 1",
      "budget 1000–2000 failed, step 1",
    ]);
  },
);

proves(
  ["D536"],
  "cuts the waits of two additional calls at the moment a stop of the agent is requested",
  async () => {
    const held = latch();
    const s = newFixture(RETRY);
    const run = brokenRun(s, outliving(s, 2), held.opened, 122);
    await playedUntil(s, s.clock.nowMs() + 1_500);
    run.requestStop("Enough.");
    held.open();
    await played(s, run);
    expect(waits(s)).toEqual([
      "1000 call 2 waits",
      "1000 call 3 waits",
      "1500 call 2 cancelled",
      "1500 call 3 cancelled",
    ]);
    expect(steps(foldOf(s.sink.events).agents[2])).toEqual([
      "chat 1000–2000 cut, step 1",
      "budget 1000–1500 cut, step 1",
      "budget 1000–1500 cut, step 1",
    ]);
  },
);

proves(
  ["D536"],
  "cuts the wait of an additional call when its hook throws or the run is cancelled",
  async () => {
    for (const isThrown of [true, false]) {
      const held = latch();
      const s = newFixture(RETRY);
      const role = hooked(s, async (next) => {
        const first = next();
        void next().catch(() => undefined);
        await new Promise<void>((wake) => void s.clock.setTimer(SECOND / 2, wake));
        if (isThrown) throw new Error("Broken hook.");
        return await first;
      });
      const run = brokenRun(s, role, held.opened, 122);
      await playedUntil(s, s.clock.nowMs() + 1_500);
      if (!isThrown) void run.cancel("Enough.");
      held.open();
      await played(s, run);
      expect(waits(s)).toEqual(["1000 call 2 waits", "1500 call 2 cancelled"]);
      expect(steps(foldOf(s.sink.events).agents[2]).slice(1)).toEqual([
        "budget 1000–1500 cut, step 1",
      ]);
    }
  },
);

proves(
  ["D536"],
  "records that an additional call was granted, and draws its wait for a slot afterwards",
  async () => {
    const held = latch();
    const s = newFixture({ ...RETRY, concurrency: { modelCalls: 1, toolCalls: 10 } });
    const role = hooked(s, async (next) => (await Promise.all([next(), next()]))[1]);
    const run = brokenRun(s, role, held.opened, 130);
    held.open();
    expect(await seenAt(s, 1_500)).toEqual(["queued", 0]);
    await played(s, run);
    expect(waits(s)).toEqual(["1000 call 2 waits", "2000 call 2 granted"]);
    expect(steps(foldOf(s.sink.events).agents[2])).toEqual([
      "budget 1000–2000 ok, step 1",
      "queue 1000–2000 ok, step 1",
      "chat 2000–3000 ok, step 1",
      "queue 2000–3000 ok, step 1",
      "chat 3000–4000 ok, step 1",
    ]);
  },
);

proves(["D537"], "draws the waits of three calls of a hook for one slot", async () => {
  const s = newFixture({ ...RETRY, concurrency: { modelCalls: 1, toolCalls: 10 } });
  const role = hooked(s, async (next) => (await Promise.all([next(), next(), next()]))[2]);
  const run = s.start(role, "Go.");
  await played(s, run);
  expect(steps(foldOf(s.sink.events).agents[0])).toEqual([
    "chat 0–1000 ok, step 1",
    "queue 0–1000 ok, step 1",
    "chat 1000–2000 ok, step 1",
    "queue 0–2000 ok, step 1",
    "chat 2000–3000 ok, step 1",
  ]);
});

proves(
  ["D537"],
  "cuts a call's wait for its slot when a stop of the agent is requested",
  async () => {
    const held = latch();
    const s = newFixture({ ...RETRY, concurrency: { modelCalls: 1, toolCalls: 10 } });
    const run = brokenRun(
      s,
      hooked(s, (next) => next()),
      held.opened,
    );
    await playedUntil(s, s.clock.nowMs() + 1_500);
    run.requestStop("Enough.");
    held.open();
    await played(s, run);
    expect(steps(foldOf(s.sink.events).agents[2])).toEqual(["queue 1000–1500 cut, step 1"]);
  },
);

proves(["D537"], "draws the wait of an additional call for its slot after its retry", async () => {
  const s = newFixture({ ...RETRY, concurrency: { modelCalls: 1, toolCalls: 10 } });
  const script = [says("First."), breaksAfter(1), says("Third."), says("Second.")];
  const both = wrapModelCall(async (_request, next) => {
    const reply = await next();
    await Promise.all([next(), next()]);
    return reply;
  });
  await played(s, s.start(slowRole(s, "broken", script, { hooks: [both] }), "Go."));
  // Two things happen at 2000: one call releases its slot, and another takes it.
  expect(steps(foldOf(s.sink.events).agents[0]).toSorted()).toEqual([
    "chat 0–1000 ok, step 1",
    "chat 1000–4000 ok, step 1",
    "chat 2000–3000 ok, step 1",
    "queue 1000–2000 ok, step 1",
    "queue 2000–3000 ok, step 1",
    "retry 2000–2000 failed, step 1",
  ]);
});

proves(["D537"], "draws the wait of an additional call for a provider limit", async () => {
  const s = newFixture(RETRY);
  const twice = wrapModelCall(async (_request, next) => (await Promise.all([next(), next()]))[0]);
  const limits = modelLimits({ maxConcurrentRequests: 1 });
  const slow = slowRole(s, "broken", () => says("Whole."), { hooks: [twice] });
  await played(s, s.start({ ...slow, model: { ...slow.model, limits } }, "Go."));
  expect(steps(foldOf(s.sink.events).agents[0])).toEqual([
    "chat 0–1000 ok, step 1",
    "queue 0–1000 ok, step 1",
    "chat 1000–2000 ok, step 1",
  ]);
});
