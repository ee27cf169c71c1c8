// Edge cases of releasing a run: executed again, at its start and its end, with detached subagents,
// and with a slow store.

import { expect } from "vitest";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { RecordCodec } from "../../../src/orchestrator/durability/record-codec.ts";
import { approve, type Question } from "../../../src/protocol/question.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { proves } from "../../harness/proves.ts";
import { aborted } from "../../support/journal/crash-play.ts";
import { forwarding } from "../../support/journal/forwarding-store.ts";
import { thinker } from "../../support/journal/thinkers.ts";
import { rejectionOf } from "../../support/thrown.ts";
import {
  counts,
  doings,
  engineWorld,
  latch,
  runId,
  solo,
  turns,
} from "../../support/engine/engine-world.ts";

const ID = "order-4711";
const ORDER = { runId: ID, role: "solo", task: "Go." };
const TEXT = "Go. worked 0, worked 1.";
const LONG = { graceMs: 60_000 };

proves(
  ["E14"],
  "continues a run here, without repeating anything, that is executed again within the grace period",
  async () => {
    for (const isBack of [true, false]) {
      const done = doings();
      const gate = latch();
      const role = solo(done, { hold: (nth) => (nth === 0 ? gate.opened : undefined) });
      const { process, clock, pushed, store } = engineWorld();
      const one = process({ roles: [role] });
      const run = one.start(role, "Go.", { runId: ID });
      await turns(15);
      const leaving = run.release(LONG);
      await turns(5);
      if (isBack) gate.open(); // The returned call waits to be processed.
      const executed = one.execute(ORDER);
      await turns(5);
      gate.open();
      expect(await leaving).toBe(false);
      expect(await pushed(executed)).toMatchObject({ status: "completed", text: TEXT });
      expect(await run.result).toMatchObject({ text: TEXT });
      expect([counts(done), done.asked.length]).toEqual([[1, 1], 3]);
      expect([(await store.find(runId(ID)))?.status, clock.pendingTimers]).toEqual(["ended", 0]);
    }
  },
);

proves(
  ["E14"],
  "releases a run again that was executed again after its first release",
  async () => {
    const done = doings();
    const gates = [latch(), latch()];
    const role = solo(done, { hold: (nth) => gates[nth]?.opened });
    const { process, pushed } = engineWorld();
    const one = process({ roles: [role] });
    const run = one.start(role, "Go.", { runId: ID });
    await turns(15);
    const first = run.release(LONG);
    const leave = new AbortController();
    const executed = one.execute(ORDER, { releaseSignal: leave.signal, graceMs: 60_000 });
    expect(await first).toBe(false);
    gates[0]?.open();
    await turns(15);
    leave.abort();
    gates[1]?.open();
    expect(await rejectionOf(pushed(executed))).toMatchObject({ code: "run_released" });
    expect([counts(done), done.asked.length]).toEqual([[1, 1], 2]);
    const two = process({ roles: [role] });
    expect(await pushed(two.execute(ORDER))).toMatchObject({ text: TEXT });
    expect([counts(done), done.asked.length]).toEqual([[1, 1], 3]);
  },
);

proves(["E13"], "releases a run whose new execution has an aborted release signal", async () => {
  const done = doings();
  const role = solo(done, { hold: (_nth, signal) => aborted(signal) });
  const { process, pushed, store } = engineWorld();
  const one = process({ roles: [role] });
  const leave = new AbortController();
  const first = one.execute(ORDER, { releaseSignal: leave.signal, ...LONG });
  await turns(20);
  leave.abort();
  const second = one.execute(ORDER, { releaseSignal: leave.signal, ...LONG });
  const both = Promise.all([first, second].map(rejectionOf));
  expect(await pushed(both, 5_000)).toMatchObject([
    { code: "run_released" },
    { code: "run_released" },
  ]);
  expect(one.activeRuns()).toEqual([]);
  expect(await store.find(runId(ID))).toMatchObject({ status: "open", owner: null });
});

proves(
  ["E13"],
  "releases a run once for two concurrent calls, and does nothing for a third",
  async () => {
    const done = doings();
    const role = solo(done, { hold: (_nth, signal) => aborted(signal) });
    const { process, pushed, clock } = engineWorld();
    const run = process({ roles: [role] }).start(role, "Go.", { runId: ID });
    await turns(15);
    const both = Promise.all([run.release(LONG), run.release({ graceMs: 1 })]);
    expect(await pushed(both, 5_000)).toEqual([true, true]);
    expect(await run.release()).toBe(false);
    expect(clock.pendingTimers).toBe(0);
  },
);

proves(
  ["E13"],
  "starts nothing of a run that is released in the tick of its start, and leaves it to the next owner",
  async () => {
    const done = doings();
    const role = solo(done);
    const { process, pushed, store, clock } = engineWorld();
    const one = process({ roles: [role] });
    for (const chosen of [true, false]) {
      const run = one.start(role, "Go.", chosen ? { runId: ID } : {});
      expect(await pushed(run.release())).toBe(true);
      await turns(10);
      expect(await rejectionOf(run.result)).toMatchObject({ code: "run_released" });
      expect([done.asked.length, clock.pendingTimers]).toEqual([0, 0]);
      expect(await store.find(run.runId)).toMatchObject({ status: "open", owner: null });
    }
    const two = process({ roles: [role] });
    expect(await pushed(two.execute(ORDER))).toMatchObject({ status: "completed", text: TEXT });
  },
);

proves(
  ["E13"],
  "releases runs that wait to start without leaving timers or active runs",
  async () => {
    const done = doings();
    const role = solo(done);
    const { process, pushed, clock } = engineWorld();
    const one = process({ roles: [role] });
    const runs = Array.from({ length: 200 }, () => one.start(role, "Go."));
    const left = await pushed(Promise.all(runs.map((run) => run.release({ graceMs: 0 }))));
    expect(new Set(left)).toEqual(new Set([true]));
    await turns(50);
    const settled = await Promise.allSettled(runs.map(({ result }) => result));
    expect(settled.every(({ status }) => status === "rejected")).toBe(true);
    expect([clock.pendingTimers, one.activeRuns()]).toEqual([0, []]);
  },
);

proves(["E13"], "releases no run that ends meanwhile", async () => {
  const role = solo(doings());
  const { process, store } = engineWorld();
  const one = process({ roles: [role] });
  const run = one.start(role, "Go.", { runId: ID });
  const leaving = new Promise<boolean>((resolve) => {
    void (async () => {
      for await (const event of run.events({ from: 1 }))
        if (event.type === "run.ended") resolve(run.release());
    })();
  });
  expect(await leaving).toBe(false);
  expect(await run.result).toMatchObject({ status: "completed", text: TEXT });
  expect(await store.find(runId(ID))).toMatchObject({ status: "ended" });
  expect(await run.release()).toBe(false);
});

proves(
  ["E13"],
  "releases detached subagents with their run after its result was returned",
  async () => {
    const done = doings();
    const role = defineAgent({
      name: "lead",
      description: "Leads.",
      instructions: "You lead.",
      model: thinker("lead", ({ results }) =>
        results.length === 0
          ? { calls: [["SpawnSubagent", { role: "solo", task: "Go.", background: true }]] }
          : { text: "Begun." },
      ),
      subagents: [solo(done, { hold: (nth, signal) => (nth === 0 ? aborted(signal) : undefined) })],
      delegation: { background: true, parentEndPolicy: "detach" },
    });
    const { process, pushed, store, clock } = engineWorld();
    const run = process({ roles: [role] }).start(role, "Go.", { runId: ID });
    expect(await run.result).toMatchObject({ text: "Begun." });
    await turns(15);
    expect(await pushed(run.release({ graceMs: 100 }), 100)).toBe(true);
    await turns(5);
    expect(await rejectionOf(run.settled)).toMatchObject({ code: "run_released" });
    expect(await store.find(runId(ID))).toMatchObject({ status: "open", owner: null });
    clock.advance(60_000);
    await turns(5);
    expect(clock.pendingTimers).toBe(0);
  },
);

proves(
  ["E13"],
  "rejects with run_released alone if calls return while the store releases the run",
  async () => {
    const clock = new ManualClock(1_000_000);
    const inner = memoryStore({ clock });
    const gate = latch();
    const told = latch();
    const store = forwarding(inner, {
      release: async (...given: Parameters<typeof inner.release>) => {
        await inner.release(...given);
        told.open();
        await gate.opened;
      },
    });
    const done = doings();
    const work = latch();
    const role = solo(done, { hold: () => work.opened });
    const { process, pushed } = engineWorld(store, clock);
    const run = process({ roles: [role] }).start(role, "Go.", { runId: ID });
    await turns(15);
    const leaving = run.release({ graceMs: 10 });
    await pushed(told.opened);
    work.open(); // The call returns too late.
    await turns(10);
    gate.open();
    expect(await pushed(leaving)).toBe(true);
    expect(await rejectionOf(run.result)).toMatchObject({ code: "run_released" });
  },
);

proves(
  ["E12", "E14"],
  "releases a run in a session, and continues it in the session here or elsewhere",
  async () => {
    for (const isHere of [true, false]) {
      const done = doings();
      const gate = latch();
      const role = solo(done, { hold: (nth) => (nth === 0 ? gate.opened : undefined) });
      const { process, pushed, store } = engineWorld();
      const one = process({ roles: [role] });
      const order = { ...ORDER, sessionId: "talk" };
      const leave = new AbortController();
      const executed = one.execute(order, { releaseSignal: leave.signal });
      executed.catch(() => undefined);
      await turns(20);
      leave.abort();
      gate.open();
      expect(await rejectionOf(pushed(executed))).toMatchObject({ code: "run_released" });
      const next = isHere ? one : process({ roles: [role] });
      expect(await pushed(next.execute(order))).toMatchObject({ status: "completed", text: TEXT });
      expect(counts(done)).toEqual([1, 1]);
      expect(await store.listSessions()).toEqual(["talk"]);
      const after = { ...order, runId: "order-4712", task: "And?" };
      expect(await pushed(next.execute(after))).toMatchObject({ status: "completed" });
    }
  },
);

proves(
  ["E13"],
  "persists a reply that returns within the grace period, and asks no approver about its calls",
  async () => {
    const done = doings();
    const gate = latch();
    const { model } = solo(done);
    const slow: typeof model = {
      ...model,
      generate: async (request, options) => {
        const reply = await model.generate(request, options);
        await gate.opened;
        return reply;
      },
    };
    const role = solo(done, { more: { model: slow }, tool: { needsApproval: true } });
    let asked = 0;
    const approver = (question: Question) => {
      asked += 1;
      return approve(question);
    };
    const { process, pushed } = engineWorld();
    const run = process({ roles: [role], approver }).start(role, "Go.", { runId: ID });
    await turns(15);
    const leaving = run.release(LONG);
    gate.open();
    expect(await pushed(leaving, 100)).toBe(true);
    await turns(20);
    expect([asked, done.asked.length]).toEqual([0, 1]);
    const two = process({ roles: [role], approver });
    expect(await pushed(two.execute(ORDER))).toMatchObject({ text: TEXT });
    expect([asked, done.asked.length]).toEqual([2, 3]);
  },
);

proves(["E13"], "refuses the release of a run that another process took over", async () => {
  const done = doings();
  const role = solo(done, { hold: (_nth, signal) => aborted(signal) });
  const { process, pushed } = engineWorld();
  const run = process({ roles: [role] }).start(role, "Go.", { runId: ID });
  await turns(15);
  const quick = solo(done);
  const two = process({ roles: [quick] });
  const leaving = run.release(LONG);
  const again = await two.resume(ID, { takeOver: true });
  expect(await again.result).toMatchObject({ text: TEXT });
  expect(await pushed(leaving, 5_000)).toBe(false);
  expect(await rejectionOf(run.result)).toMatchObject({ code: "run_fenced" });
});

proves(
  ["E12", "E13"],
  "waits for a call that must not be repeated and has recorded its start, and makes it once",
  async () => {
    const clock = new ManualClock(1_000_000);
    const inner = memoryStore({ clock });
    const [said, gate] = [latch(), latch()];
    const codec = new RecordCodec();
    const store = forwarding(inner, {
      append: async (...given: Parameters<typeof inner.append>) => {
        const records = given[1].records.flatMap((line) => codec.read(line));
        if (JSON.stringify(records).includes('"begun"')) {
          said.open();
          await gate.opened;
        }
        await inner.append(...given);
      },
    });
    const done = doings();
    const role = solo(done, { tool: { retryAfterCrash: false } });
    const { process, pushed } = engineWorld(store, clock);
    const run = process({ roles: [role] }).start(role, "Go.", { runId: ID });
    await said.opened;
    const leaving = run.release(LONG);
    await turns(5);
    gate.open();
    expect(await leaving).toBe(true); // No time has passed.
    expect([counts(done), clock.nowMs()]).toEqual([[1], 1_000_000]);
    const two = process({ roles: [role] });
    expect(await pushed(two.execute(ORDER))).toMatchObject({ status: "completed", text: TEXT });
    expect(counts(done)).toEqual([1, 1]);
  },
);
