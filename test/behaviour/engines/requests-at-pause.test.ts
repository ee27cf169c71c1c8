// Goal: a request that arrives while a run pauses, or while it checks its mailbox before it
// continues, is applied and breaks nothing.
// Method: a store that reports when the pause is persisted, and holds all later reads until the
// test lets them through.

import { expect } from "vitest";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { RecordCodec } from "../../../src/orchestrator/durability/record-codec.ts";
import type { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import { approve, deny, toQuestion, type Question } from "../../../src/protocol/question.ts";
import { createStoreError } from "../../../src/store/store-errors.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { proves } from "../../harness/proves.ts";
import { forwarding } from "../../support/journal/forwarding-store.ts";
import { storedEvents } from "../../support/journal/stored-events.ts";
import { countedTool, spawnCall, thinker } from "../../support/journal/thinkers.ts";
import { allOf } from "../../support/all-of.ts";
import {
  counts,
  doings,
  engineWorld,
  latch,
  runId,
  solo,
  turns,
  type Doings,
  type Latch,
} from "../../support/engine/engine-world.ts";

const ID = runId("order-4711");

/** Makes a call that needs an approval, while a background subagent waits at the gate. */
function lead(done: Doings, gate: Latch): AgentRole {
  const helper = defineAgent({
    name: "helper",
    description: "Helps.",
    instructions: "You help.",
    model: thinker("helper", ({ results }) =>
      results.length === 0 ? { calls: [["look", { thing: "x" }]] } : { text: "Helped." },
    ),
    tools: [countedTool(new Map(), "look", async () => (await gate.opened, "seen"))],
  });
  return defineAgent({
    name: "lead",
    instructions: "You lead.",
    model: thinker("lead", ({ results }) =>
      results.length === 0
        ? {
            calls: [spawnCall("helper", "Help.", { background: true }), ["work", { thing: "0" }]],
          }
        : { text: results.slice(1).join(" ") },
    ),
    tools: [countedTool(done.calls, "work", undefined, { needsApproval: true })],
    subagents: [helper],
    delegation: { background: true },
  });
}

async function firstQuestion(run: Run): Promise<Question> {
  for await (const event of run.events({ from: 1 }))
    if (event.type === "question.asked") return toQuestion(event);
  throw new Error("Nothing was asked.");
}

/** Returns a run that has paused with an answer in its mailbox, which it has not read yet. */
async function atItsPause() {
  const clock = new ManualClock(1_000_000);
  const inner = memoryStore({ clock });
  const [kept, goOn, gate] = [latch(), latch(), latch()];
  let isKept = false;
  const store: Store = forwarding(inner, {
    release: async (...asked) => {
      await inner.release(...asked);
      isKept = true;
    },
    find: async (...asked) => {
      if (!isKept) return await inner.find(...asked);
      kept.open();
      await goOn.opened;
      return await inner.find(...asked);
    },
  });
  const world = engineWorld(store, clock);
  const done = doings();
  const one = world.process({});
  const run = one.start(lead(done, gate), "Go.", { runId: ID });
  const read = Promise.all([allOf(run.events()), allOf(run.stream())]);
  const question = await firstQuestion(run);
  await one.answer(ID, [approve(question)]);
  gate.open();
  await world.pushed(kept.opened);
  return { ...world, inner, one, run, read, done, goOn };
}

const ASKED: readonly (readonly [
  what: string,
  ask: (run: Run, one: Orchestrator) => unknown,
  ends: readonly [status: string, text: string, calls: readonly number[]],
])[] = [
  ["cancel", (run) => run.cancel("Enough."), ["cancelled", "", []]],
  ["stop", (run) => run.requestStop("Enough."), ["stopped", "", []]],
  ["pause", (run) => run.requestPause(), ["paused", "", [1]]],
  ["skip", (run) => run.skipToolCalls("No."), ["completed", "Not executed: No.", []]],
  ["stop by mail", (_run, one) => one.sendCommand(ID, { type: "stop" }), ["stopped", "", []]],
  ["pause by mail", (_run, one) => one.sendCommand(ID, { type: "pause" }), ["paused", "", [1]]],
];

for (const [what, ask, ends] of ASKED)
  proves(["D280"], what, async () => {
    const { pushed, clock, inner, one, run, read, done, goOn } = await atItsPause();
    void ask(run, one);
    await turns(20);
    goOn.open();
    const { status, text } = await pushed(run.result);
    expect([status, text ?? "", counts(done)]).toEqual(ends);
    const [events, pieces] = await read;
    expect(events).toEqual(await storedEvents(inner, ID));
    expect(pieces.map(({ seq: sequence }) => sequence)).toEqual(pieces.map((_piece, at) => at + 1));
    expect([one.activeRuns(), clock.pendingTimers]).toEqual([[], 0]);
    const rest = status === "paused" ? "paused" : "ended";
    expect(await inner.find(ID)).toMatchObject({ status: rest, owner: null });
  });

proves(["D280"], "stops a run by mail while its pause is being persisted", async () => {
  const clock = new ManualClock(1_000_000);
  const inner = memoryStore({ clock });
  const [writing, goOn] = [latch(), latch()];
  const codec = new RecordCodec();
  const store: Store = forwarding(inner, {
    append: async (ownership, batch) => {
      const records = batch.records.flatMap((line) => codec.read(line));
      if (JSON.stringify(records).includes("run.paused")) {
        writing.open();
        await goOn.opened;
      }
      await inner.append(ownership, batch);
    },
  });
  const { process, pushed } = engineWorld(store, clock);
  const done = doings();
  const one = process({});
  const role = solo(done, { tool: { needsApproval: true } });
  const run = one.start(role, "Go.", { runId: ID });
  await pushed(writing.opened);
  await one.sendCommand(ID, { type: "stop" });
  await turns(20);
  goOn.open();
  const { status } = await pushed(run.result);
  expect([status, counts(done)]).toEqual(["stopped", []]);
  expect(await inner.find(ID)).toMatchObject({ status: "ended", owner: null });
});

proves(
  ["D285"],
  "pauses a resumed run by mail before it applies an answer, and applies the answer when it is resumed again",
  async () => {
    const { process, pushed, store } = engineWorld();
    const done = doings();
    const role = solo(done, { count: 1, tool: { needsApproval: true } });
    const roles = [role];
    const approver = (): Promise<never> => new Promise(() => undefined);
    const one = process({ roles, approver });
    const run = one.start(role, "Go.", { runId: ID });
    const question = await firstQuestion(run);
    expect(await pushed(run.release({ graceMs: 0 }))).toBe(true);
    const two = process({ roles, approver });
    await two.answer(ID, [deny(question, "Too much.")]);
    await two.sendCommand(ID, { type: "pause" });
    const paused = await pushed((await two.resume(ID)).result);
    expect([paused.status, paused.reason.code]).toEqual(["paused", "pause_requested"]);
    const { status, text } = await pushed((await two.resume(ID)).result);
    expect([status, text, counts(done)]).toEqual([
      "completed",
      expect.stringMatching("Too much."),
      [],
    ]);
    expect(await store.find(ID)).toMatchObject({ status: "ended", owner: null });
  },
);

for (const [what, method, isDone] of [
  ["cannot be reached", "find", false],
  ["cannot be reached", "claim", false],
  ["loses its answer", "claim", true],
] as const)
  proves(
    ["D283"],
    `continues an answered run although the store ${what} at ${method}`,
    async () => {
      const clock = new ManualClock(1_000_000);
      const inner = memoryStore({ clock });
      let failures = 0;
      let isKept = false;
      const failOnce = async <T>(work: () => Promise<T>): Promise<T> => {
        if (!isKept || failures > 0) return await work();
        failures += 1;
        if (isDone) await work();
        throw createStoreError("connection", "Expected the store, got nothing.");
      };
      const store: Store = forwarding(inner, {
        release: async (...asked) => {
          await inner.release(...asked);
          isKept = true;
        },
        [method]: (...asked: Parameters<Store["claim"]>) =>
          failOnce<unknown>(() =>
            method === "find" ? inner.find(asked[0]) : inner.claim(...asked),
          ),
      });
      const { process, pushed } = engineWorld(store, clock);
      const [done, gate] = [doings(), latch()];
      const one = process({});
      const run = one.start(lead(done, gate), "Go.", { runId: ID });
      const question = await firstQuestion(run);
      await one.answer(ID, [approve(question)]);
      gate.open();
      const { status } = await pushed(run.result);
      expect([failures, status, counts(done), clock.pendingTimers]).toEqual([
        1,
        "completed",
        [1],
        0,
      ]);
      expect(await inner.find(ID)).toMatchObject({ status: "ended", owner: null, epoch: 2 });
    },
  );

proves(
  ["D281"],
  "completes a run whose late heartbeat is refused because the run was released",
  async () => {
    const clock = new ManualClock(1_000_000);
    const inner = memoryStore({ clock });
    const [gate, beating, over] = [latch(), latch(), latch()];
    const store: Store = forwarding(inner, {
      heartbeat: async (ownership) => {
        beating.open();
        await over.opened;
        await inner.heartbeat(ownership);
      },
      release: async (...asked) => {
        await inner.release(...asked);
        over.open();
        await turns(5);
      },
    });
    const { process, pushed } = engineWorld(store, clock);
    const role = solo(doings(), { count: 1, hold: () => gate.opened });
    const run = process({}).start(role, "Go.", { runId: ID });
    await turns(20);
    clock.advance(5_000);
    await beating.opened;
    gate.open();
    expect(await pushed(run.result)).toMatchObject({ status: "completed" });
    expect(await inner.find(ID)).toMatchObject({ status: "ended", owner: null });
  },
);
