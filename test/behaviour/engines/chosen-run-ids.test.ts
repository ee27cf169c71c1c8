// Runs under an id that the caller chose: one run, however often and wherever it is requested.

import { expect, test } from "vitest";

import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { MessageContent } from "../../../src/protocol/message-content.ts";
import { proves } from "../../harness/proves.ts";
import { aborted } from "../../support/journal/crash-play.ts";
import { dyingStore } from "../../support/journal/dying-store.ts";
import { forwarding } from "../../support/journal/forwarding-store.ts";
import { rejectionOf, thrownBy } from "../../support/thrown.ts";
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
const TEXT = "Go. worked 0, worked 1.";

proves(
  ["E10"],
  "returns the handle of the active run for a second start with the same id",
  async () => {
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
  },
);

proves(["E10"], "cancels the run when the signal of a later start is aborted", async () => {
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

proves(["E10"], "refuses another task or role under the id of an active run", async () => {
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

proves(["E10"], "accepts an equal task of message parts as the same task", async () => {
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

proves(["E10"], "refuses an invalid task as such under the id of an active run", async () => {
  const role = solo(doings());
  const one = engineWorld().process({ roles: [role] });
  const run = one.start(role, "Go.", { runId: ID });
  const unusable: readonly (readonly [task: unknown, code: string])[] = [
    ["", "invalid_argument"],
    [[], "invalid_argument"],
    [[{ role: "user", text: "Go." }], "invalid_argument"],
  ];
  for (const [task, code] of unusable)
    // @ts-expect-error: not a task.
    expect(thrownBy(() => one.start(role, task, { runId: ID }))).toMatchObject({ code });
  expect(await run.result).toMatchObject({ text: TEXT });
});

proves(
  ["E10"],
  "refuses invalid run ids before anything starts, and accepts one of 512 characters",
  async () => {
    const role = solo(doings());
    const { process, store } = engineWorld();
    const one = process({ roles: [role] });
    for (const bad of ["", "x".repeat(513), "a\0b", "\ud800", ".", "..", 7, null])
      // @ts-expect-error: some are not strings.
      expect(thrownBy(() => one.start(role, "Go.", { runId: bad }))).toMatchObject({
        code: "invalid_argument",
      });
    expect([one.activeRuns(), await store.list()]).toEqual([[], []]);
    const longest = "é".repeat(512);
    expect(await one.start(role, "Go.", { runId: longest }).result).toMatchObject({
      runId: longest,
    });
  },
);

proves(
  ["E10"],
  "rejects an id that exists in the store, and leaves the stored run unchanged",
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

proves(
  ["E10"],
  "lets one of two processes run an id that both start at once, and rejects the other without effects",
  async () => {
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
  },
);

test("accepts an id again once its run has ended, without a store", async () => {
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
  "starts a run with an empty journal, by start and by execute, once its owner is stale",
  async () => {
    for (const how of ["start", "execute"] as const) {
      const done = doings();
      const role = solo(done);
      const { process, store, clock, pushed } = engineWorld();
      // The process dies between the creation of the journal and its first record.
      const dying = dyingStore(store, { at: 1, how: "before" });
      const dead = process({ roles: [role], store: dying.store });
      await dead.start(role, "Go.", { runId: ID }).result.catch(() => undefined);
      expect(await store.find(runId(ID))).toMatchObject({ status: "open", recordCount: 0 });
      const two = process({ roles: [role] });
      // The owner still seems alive.
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
  "completes a run by execute under the same id after its process died at any of the first appends",
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

proves(
  ["E11"],
  "lets one of three processes start a run with an empty journal, and rejects the others",
  async () => {
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
  },
);

proves(
  ["E11"],
  "rejects a late start on an empty journal, and leaves the run of the other process unchanged",
  async () => {
    const done = doings();
    const { process, store, pushed } = engineWorld();
    const made = await store.create(runId(ID), "", { token: "t", hostname: "h", processId: 1 });
    await store.release(made, "open");
    const gate = latch();
    const slow = forwarding(store, {
      claim: async (...given: Parameters<typeof store.claim>) => {
        await gate.opened;
        return await store.claim(...given);
      },
    });
    const role = solo(done);
    const late = process({ roles: [role], store: slow }).start(role, "Go.", { runId: ID });
    await turns(10);
    const one = process({ roles: [role] });
    expect(await pushed(one.start(role, "Go.", { runId: ID }).result)).toMatchObject({
      text: TEXT,
    });
    gate.open();
    expect(await rejectionOf(pushed(late.result))).toMatchObject({ code: "run_exists" });
    expect(await store.find(runId(ID))).toMatchObject({ status: "ended", owner: null });
    expect(counts(done)).toEqual([1, 1]);
  },
);

proves(["E10"], "finds an active run by its id until it ends", async () => {
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
