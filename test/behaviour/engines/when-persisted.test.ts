// `run.whenPersisted()`: when another process can continue a run.

import { expect } from "vitest";

import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { proves } from "../../harness/proves.ts";
import { dyingStore } from "../../support/journal/dying-store.ts";
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

const ID = runId("order-4711");

proves(
  ["D241"],
  "resolves once the store has the run, and another process can continue it",
  async () => {
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
  },
);

proves(["D241"], "resolves at any time once all records so far are persisted", async () => {
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
  await run.whenPersisted(); // No record is pending.
  await turns(5);
  expect((await store.find(ID))?.recordCount).toBe(recordCount);
  gate.open();
  await pushed(run.result);
  await run.whenPersisted(); // The run has ended.
});

proves(["D241"], "rejects without a store, or if another run has the id", async () => {
  const done = doings();
  const without = new Orchestrator().start(solo(done), "Go.");
  expect((await rejectionOf(without.whenPersisted())).code).toBe("invalid_state");
  await without.result;
  const store = memoryStore();
  await new Orchestrator({ store }).start(solo(done), "Go.", { runId: ID }).result;
  const again = new Orchestrator({ store }).start(solo(done), "Go.", { runId: ID });
  // The result that nobody reads causes no unhandled rejection.
  expect((await rejectionOf(again.whenPersisted())).code).toBe("run_exists");
});
