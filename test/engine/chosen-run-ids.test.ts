// A run under an id of the caller's: one run, however often it is asked for, and wherever.

import { expect, test } from "vitest";

import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import type { MessageContent } from "../../src/protocol/message-content.ts";
import { proves } from "../harness/proves.ts";
import { aborted } from "../journal/crash-play.ts";
import { dyingStore } from "../journal/dying-store.ts";
import { forwarding } from "../journal/forwarding-store.ts";
import { rejectionOf, thrownBy } from "../support/thrown.ts";
import { counts, doings, engineWorld, latch, runId, solo, turns } from "./engine-world.ts";

const ID = "order-4711";
const TEXT = "Go. worked 0, worked 1.";

proves(["E10"], "the id once more, while its run is under way: its handle", async () => {
  const done = doings();
  const role = solo(done);
  const { store, process } = engineWorld();
  const one = process({ roles: [role] });
  const first = one.start(role, "Go.", { runId: ID });
  expect(one.start(role, "Go.", { runId: ID })).toBe(first);
  expect(first.runId).toBe(ID);
  await turns(3);
  expect(one.start(role, "Go.", { runId: ID })).toBe(first);
  expect(await first.result).toMatchObject({ runId: ID, text: TEXT });
  expect([counts(done), (await store.list()).length]).toEqual([[1, 1], 1]);
});

proves(["E10"], "the signal of who asked for it later cancels it as well", async () => {
  const done = doings();
  const role = solo(done, { hold: (_nth, signal) => aborted(signal) });
  const one = engineWorld().process({ roles: [role] });
  const controller = new AbortController();
  const run = one.start(role, "Go.", { runId: ID });
  one.start(role, "Go.", { runId: ID, signal: controller.signal });
  await turns(20);
  controller.abort();
  expect(await run.result).toMatchObject({ status: "cancelled" });
  expect(counts(done)).toEqual([1]);
});

proves(["E10"], "another task or role under the id of a run is refused at once", async () => {
  const done = doings();
  const [role, other] = [solo(done), solo(done, { name: "other" })];
  const one = engineWorld().process({ roles: [role] });
  const run = one.start(role, "Go.", { runId: ID });
  for (const start of [
    () => one.start(role, "Stay.", { runId: ID }),
    () => one.start(other, "Go.", { runId: ID }),
  ])
    expect(thrownBy(start)).toMatchObject({ code: "run_id_conflict", data: { runId: ID } });
  expect(await run.result).toMatchObject({ text: TEXT });
  expect(one.sink.events.filter(({ type }) => type === "run.started")).toHaveLength(1);
});

proves(["E10"], "a task of parts given once more is the same task", async () => {
  const role = solo(doings());
  const one = engineWorld().process({ roles: [role] });
  const uri = "data:image/png;base64,iVBORw0KGgo=";
  for (const [runId, task] of [
    ["text", (): MessageContent => [{ type: "text", text: "Go." }]],
    ["image", (): MessageContent => [{ type: "image", mediaType: "image/png", uri }]],
  ] as const) {
    const run = one.start(role, task(), { runId });
    expect(one.start(role, task(), { runId })).toBe(run);
    expect(await run.result).toMatchObject({ runId, status: "completed" });
  }
});

proves(["E10"], "an unusable task is refused as such under the id of a run, too", async () => {
  const role = solo(doings());
  const one = engineWorld().process({ roles: [role] });
  const run = one.start(role, "Go.", { runId: ID });
  const unusable: readonly (readonly [task: unknown, code: string])[] = [
    ["", "invalid_argument"],
    [[], "invalid_argument"],
    [[{ role: "user", text: "Go." }], "invalid_argument"],
  ];
  for (const [task, code] of unusable)
    // @ts-expect-error: no task.
    expect(thrownBy(() => one.start(role, task, { runId: ID }))).toMatchObject({ code });
  expect(await run.result).toMatchObject({ text: TEXT });
});

proves(["E10"], "what is no id is refused before anything has begun", async () => {
  const role = solo(doings());
  const { process, store } = engineWorld();
  const one = process({ roles: [role] });
  for (const bad of ["", "x".repeat(513), "a\0b", "\ud800", ".", "..", 7, null])
    // @ts-expect-error: some of them are no text.
    expect(thrownBy(() => one.start(role, "Go.", { runId: bad }))).toMatchObject({
      code: "invalid_argument",
    });
  expect([one.activeRuns(), await store.list()]).toEqual([[], []]);
  const longest = "é".repeat(512);
  expect(await one.start(role, "Go.", { runId: longest }).result).toMatchObject({ runId: longest });
});

proves(
  ["E10"],
  "an id of which the store has something is left alone: nothing happens",
  async () => {
    const done = doings();
    const role = solo(done);
    const { process, store, clock } = engineWorld();
    await process({ roles: [role] }).start(role, "Go.", { runId: ID }).result;
    const asked = done.asked.length;
    const before = await store.find(runId(ID));
    const two = process({ roles: [role] });
    const error = await rejectionOf(two.start(role, "Go.", { runId: ID }).result);
    await turns(5);
    expect(error).toMatchObject({ code: "run_exists", data: { runId: ID } });
    expect([done.asked.length, two.sink.events, two.activeRuns()]).toEqual([asked, [], []]);
    expect([await store.find(runId(ID)), clock.pendingTimers]).toEqual([before, 0]);
  },
);

proves(["E10"], "of two processes at once one leads, and the other has done nothing", async () => {
  const done = doings();
  const role = solo(done);
  const { process, clock } = engineWorld();
  const [one, two] = [process({ roles: [role] }), process({ roles: [role] })];
  const runs = [one, two].map((each) => each.start(role, "Go.", { runId: ID }));
  const [first, second] = await Promise.allSettled(runs.map(({ result }) => result));
  expect(first).toMatchObject({ status: "fulfilled", value: { text: TEXT } });
  expect(second).toMatchObject({ status: "rejected", reason: { code: "run_exists" } });
  expect([two.sink.events, counts(done), done.asked.length]).toEqual([[], [1, 1], 3]);
  expect(clock.pendingTimers).toBe(0);
});

test("without a store an id is free again once its run has ended", async () => {
  const role = solo(doings());
  const one = new Orchestrator({ roles: [role] });
  const first = one.start(role, "Go.", { runId: ID });
  expect(await first.result).toMatchObject({ runId: ID, text: TEXT });
  const second = one.start(role, "Stay.", { runId: ID });
  expect(second).not.toBe(first);
  expect(await second.result).toMatchObject({ runId: ID, text: "Stay. worked 0, worked 1." });
});

proves(
  ["E11"],
  "an empty journal whose owner is gone is begun by start and by execute",
  async () => {
    for (const how of ["start", "execute"] as const) {
      const done = doings();
      const role = solo(done);
      const { process, store, clock, pushed } = engineWorld();
      // It dies between the making of the journal and its first record.
      const dying = dyingStore(store, { at: 1, how: "before" });
      const dead = process({ roles: [role], store: dying.store });
      await dead.start(role, "Go.", { runId: ID }).result.catch(() => undefined);
      expect(await store.find(runId(ID))).toMatchObject({ status: "open", recordCount: 0 });
      const two = process({ roles: [role] });
      // Its owner seems to live still.
      expect(await rejectionOf(two.start(role, "Go.", { runId: ID }).result)).toMatchObject({
        code: "run_exists",
      });
      expect(two.sink.events).toEqual([]);
      clock.advance(30_000);
      const order = { runId: ID, role: "solo", task: "Go." };
      const result =
        how === "start"
          ? await two.start(role, "Go.", { runId: ID }).result
          : await pushed(two.execute(order));
      expect(result).toMatchObject({ status: "completed", text: TEXT });
      expect([counts(done), done.asked.length]).toEqual([[1, 1], 3]);
    }
  },
);

proves(
  ["E11"],
  "a death at any of the first appends: execute goes on under the same id",
  async () => {
    for (const how of ["before", "after"] as const)
      for (const at of [1, 2, 3, 4, 5]) {
        const done = doings();
        const role = solo(done);
        const { process, store, pushed } = engineWorld();
        const dying = dyingStore(store, { at, how });
        const dead = process({ roles: [role], store: dying.store });
        await dead.start(role, "Go.", { runId: ID }).result.catch(() => undefined);
        expect(dying.isDead).toBe(true);
        const order = { runId: ID, role: "solo", task: "Go." };
        const result = await pushed(process({ roles: [role] }).execute(order), 5_000);
        expect(result, `${how} ${at}`).toMatchObject({ status: "completed", text: TEXT });
        expect((await store.find(runId(ID)))?.status).toBe("ended");
        expect(Math.max(...counts(done))).toBeLessThanOrEqual(2);
        const other = { ...order, task: "Stay." };
        expect(await rejectionOf(process({ roles: [role] }).execute(other))).toMatchObject({
          code: "run_id_conflict",
        });
      }
  },
);

proves(["E11"], "of processes at once that begin an empty journal one leads", async () => {
  const done = doings();
  const role = solo(done);
  const { process, store, clock, pushed } = engineWorld();
  const dying = dyingStore(store, { at: 1, how: "before" });
  const dead = process({ roles: [role], store: dying.store });
  await dead.start(role, "Go.", { runId: ID }).result.catch(() => undefined);
  clock.advance(30_000);
  const runs = [1, 2, 3].map(() => process({ roles: [role] }).start(role, "Go.", { runId: ID }));
  const settled = await pushed(Promise.allSettled(runs.map(({ result }) => result)));
  expect(settled.map(({ status }) => status).toSorted()).toEqual([
    "fulfilled",
    "rejected",
    "rejected",
  ]);
  expect([counts(done), (await store.find(runId(ID)))?.status]).toEqual([[1, 1], "ended"]);
});

proves(["E11"], "who comes to an empty journal too late leaves it as it is", async () => {
  const done = doings();
  const { process, store, pushed } = engineWorld();
  const made = await store.create(runId(ID), "", { token: "t", hostname: "h", processId: 1 });
  await store.release(made, "open");
  const gate = latch();
  const slow = {
    ...forwarding(store),
    claim: async (...given: Parameters<typeof store.claim>) => {
      await gate.opened;
      return await store.claim(...given);
    },
  };
  const role = solo(done);
  const late = process({ roles: [role], store: slow }).start(role, "Go.", { runId: ID });
  await turns(10);
  const one = process({ roles: [role] });
  expect(await pushed(one.start(role, "Go.", { runId: ID }).result)).toMatchObject({ text: TEXT });
  gate.open();
  expect(await rejectionOf(pushed(late.result))).toMatchObject({ code: "run_exists" });
  expect(await store.find(runId(ID))).toMatchObject({ status: "ended", owner: null });
  expect(counts(done)).toEqual([1, 1]);
});

proves(["E10"], "it is found by its id while it is under way", async () => {
  const gate = latch();
  const done = doings();
  const role = solo(done, { hold: () => gate.opened });
  const { process } = engineWorld();
  const one = process({ roles: [role] });
  const run = one.start(role, "Go.", { runId: ID });
  await turns(10);
  expect(one.findActiveRun(ID)).toBe(run);
  gate.open();
  expect(await run.result).toMatchObject({ text: TEXT });
  expect(one.findActiveRun(ID)).toBeUndefined();
});
