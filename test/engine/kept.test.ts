// When a run can be relied upon: `run.whenPersisted()`.

import { expect } from "vitest";

import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import { memoryStore } from "../../src/store/memory-store.ts";
import { proves } from "../harness/proves.ts";
import { dyingStore } from "../journal/dying-store.ts";
import { rejectionOf } from "../support/thrown.ts";
import { counts, doings, engineWorld, latch, runId, solo, turns } from "./engine-world.ts";

const ID = runId("order-4711");

proves(["D241"], "then the store has it, and another process goes on with it", async () => {
  const done = doings();
  const { process, store, pushed, clock } = engineWorld();
  const dying = dyingStore(store, { at: 2, how: "before" });
  const run = process({ store: dying.store }).start(solo(done), "Go.", { runId: ID });
  expect(await store.find(ID)).toBeUndefined();
  await run.whenPersisted();
  expect(await store.find(ID)).toMatchObject({ status: "open" });
  expect((await store.find(ID))?.recordCount).toBeGreaterThan(0);
  expect((await rejectionOf(run.result)).code).toBe("store_failed");
  clock.advance(60_000);
  const { runs, failed } = await process({ roles: [solo(done)] }).resumeLostRuns();
  expect([runs.map((one) => one.runId), failed]).toEqual([[ID], []]);
  expect(await pushed(runs[0]?.result ?? Promise.reject(new Error("no run")))).toMatchObject({
    status: "completed",
    text: "Go. worked 0, worked 1.",
  });
  expect(counts(done)).toEqual([1, 1]);
});

proves(["D241"], "at any time: what has happened by then", async () => {
  const done = doings();
  const { process, store, pushed } = engineWorld();
  const begun = latch();
  const gate = latch();
  const hold = (): Promise<unknown> => {
    begun.open();
    return gate.opened;
  };
  const run = process({}).start(solo(done, { hold, count: 1 }), "Go.", { runId: ID });
  await begun.opened;
  await run.whenPersisted();
  const { recordCount = 0 } = (await store.find(ID)) ?? {};
  await run.whenPersisted(); // Nothing is due.
  await turns(5);
  expect((await store.find(ID))?.recordCount).toBe(recordCount);
  gate.open();
  await pushed(run.result);
  await run.whenPersisted(); // It has ended.
});

proves(["D241"], "without a store, or where another run has the id, it rejects", async () => {
  const done = doings();
  const without = new Orchestrator().start(solo(done), "Go.");
  expect((await rejectionOf(without.whenPersisted())).code).toBe("invalid_state");
  await without.result;
  const store = memoryStore();
  await new Orchestrator({ store }).start(solo(done), "Go.", { runId: ID }).result;
  const again = new Orchestrator({ store }).start(solo(done), "Go.", { runId: ID });
  // Nothing reads its result: that is no unhandled rejection.
  expect((await rejectionOf(again.whenPersisted())).code).toBe("run_exists");
});
