// Goal: a run that cannot be executed pauses with the reason, unless a request arrived meanwhile,
// and delays no worker.
// Method: workers over the store engine, whose `context` posts, hangs or fails; a store that has
// lost a record.

import { expect } from "vitest";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { Engine, RunExecutor } from "../../../src/engine/engine.ts";
import { storeEngine } from "../../../src/engine/store-engine.ts";
import { createStoreError } from "../../../src/store/store-errors.ts";
import { ScriptedModel } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { forwarding } from "../../support/journal/forwarding-store.ts";
import { rejectionOf, thrownBy } from "../../support/thrown.ts";
import {
  clientOf,
  counts,
  doings,
  engineWorld,
  runId,
  solo,
  turns,
  workerIn,
} from "../../support/engine/engine-world.ts";

const ID = runId("order-4711");
const TEXT = "Go. worked 0, worked 1.";

proves(
  ["E120"],
  "tries a run once more for a request that arrives between a failed attempt and its record",
  async () => {
    for (const failures of [1, Infinity]) {
      const world = engineWorld();
      const { clock, store, process, pushed } = world;
      const done = doings();
      const other = process({ roles: [] });
      let attempts = 0;
      const context = async () => {
        attempts += 1;
        // No engine is notified of it.
        if (attempts === 1) await other.sendCommand(ID, { type: "resume" });
        if (attempts <= failures) throw new Error("No database.");
      };
      const worker = await workerIn(world, { roles: [solo(done)] }, { context });
      const run = await clientOf(world).start("solo", "Go.", { runId: ID });
      const result = pushed(run.getResult());
      if (failures === 1) expect(await result).toMatchObject({ status: "completed", text: TEXT });
      else expect(await rejectionOf(result)).toMatchObject({ code: "context_failed" });
      for (let wait = 0; wait < 50; wait += 1) {
        clock.advance(1_000);
        await turns(5);
      }
      expect([attempts, counts(done).length]).toEqual([2, failures === 1 ? 2 : 0]);
      expect((await store.find(ID))?.status).toBe(failures === 1 ? "ended" : "paused");
      await pushed(worker.close());
    }
  },
);

proves(
  ["E120"],
  "attempts a refused run once for several notifications, and again for a resume",
  async () => {
    const world = engineWorld();
    const { process, store } = world;
    const served = Promise.withResolvers<RunExecutor>();
    const engine: Engine = {
      enqueue: async () => undefined,
      serve: async (executor) => {
        served.resolve(executor);
        return { close: async () => undefined };
      },
    };
    let attempts = 0;
    const context = () => {
      attempts += 1;
      throw new Error("No database.");
    };
    const worker = await process({ roles: [solo(doings())] }).startWorker(engine, { context });
    const run = await clientOf(world).start("solo", "Go.", { runId: ID });
    const executor = await served.promise;
    const { signal } = new AbortController();
    for (let told = 0; told < 3; told += 1)
      expect(await executor.execute(ID, signal)).toEqual({ type: "ended" });
    expect([attempts, (await store.readMail(ID)).length]).toEqual([1, 2]);
    await run.sendCommand({ type: "resume" });
    expect(await executor.execute(ID, signal)).toEqual({ type: "ended" });
    expect(attempts).toBe(2);
    await world.pushed(worker.close());
  },
);

proves(
  ["E121"],
  "closes a worker whose context never resolves, and leaves its run to another",
  async () => {
    const world = engineWorld();
    const { store, pushed } = world;
    const done = doings();
    const asked = Promise.withResolvers<void>();
    const context = async () => {
      asked.resolve();
      await new Promise(() => undefined);
    };
    const run = await clientOf(world).start("solo", "Go.", { runId: ID });
    const worker = await workerIn(world, { roles: [solo(done)] }, { context });
    const result = run.getResult();
    await asked.promise;
    await pushed(worker.close());
    expect(await store.find(ID)).toMatchObject({ status: "open", owner: null });
    expect((await store.readMail(ID)).map(({ key }) => key)).toEqual(["order"]);
    const second = await workerIn(world, { roles: [solo(done)] });
    expect(await pushed(result)).toMatchObject({ status: "completed", text: TEXT });
    await pushed(second.close());
  },
);

proves(["E121"], "closes a worker whose engine never replies to a sweep", async () => {
  const world = engineWorld();
  const { process, pushed, clock } = world;
  const asked = Promise.withResolvers<void>();
  const engine: Engine = {
    enqueue: async () => {
      asked.resolve();
      await new Promise(() => undefined);
    },
    serve: async () => ({ close: async () => undefined }),
  };
  await clientOf(world).start("solo", "Go.", { runId: ID });
  const worker = await process({ roles: [solo(doings())] }).startWorker(engine, {
    context: () => undefined,
  });
  await asked.promise;
  await pushed(worker.close());
  expect(clock.pendingTimers).toBe(0);
});

proves(
  ["E122"],
  "pauses a run whose records the store has lost, without repeated attempts",
  async () => {
    const world = engineWorld();
    const { clock, store, process, pushed } = world;
    const done = doings();
    let [isLost, reads] = [true, 0];
    const torn = forwarding(store, {
      async *read(...given: Parameters<typeof store.read>) {
        reads += 1;
        if (isLost)
          throw createStoreError("corrupt", "Expected 2 records, got 1. Restore the store.");
        yield* store.read(...given);
      },
    });
    // The run is active when its worker is closed.
    const first = await workerIn(world, {
      roles: [solo(done, { hold: async () => await new Promise(() => undefined) })],
    });
    const run = await clientOf(world).start("solo", "Go.", { runId: ID });
    while (counts(done).length === 0) {
      clock.advance(200);
      await turns(5);
    }
    await pushed(first.close({ graceMs: 0 }));
    const worker = await process({ roles: [solo(done)], store: torn }).startWorker(
      storeEngine({ clock }),
      {
        context: () => undefined,
      },
    );
    for (let wait = 0; wait < 50; wait += 1) {
      clock.advance(1_000);
      await turns(5);
    }
    expect((await store.find(ID))?.status).toBe("paused");
    expect(await rejectionOf(run.getResult())).toMatchObject({ code: "store_failed" });
    expect(reads).toBeLessThanOrEqual(3);
    isLost = false;
    await run.sendCommand({ type: "resume" });
    expect(await pushed(run.getResult())).toMatchObject({ status: "completed", text: TEXT });
    await pushed(worker.close());
  },
);

proves(
  ["D323"],
  "refuses invalid roles before a worker serves, and leaves their runs to others",
  async () => {
    const world = engineWorld();
    const { process, pushed, store } = world;
    const sound = solo(doings());
    const other = solo(doings());
    const astray = defineAgent({
      name: "astray",
      instructions: "Delegate.",
      model: new ScriptedModel([]),
      subagents: ["nobody"],
    });
    const unpriced = solo(doings(), {
      name: "unpriced",
      more: { model: new ScriptedModel([]), budget: { costUsd: 1 } },
    });
    const run = await clientOf(world).start("solo", "Go.", { runId: ID });
    const refused = [
      [[sound, astray], "unknown_subagent"],
      [[sound, unpriced], "price_unknown"],
    ] as const;
    for (const [roles, code] of refused) {
      const engine = unservedEngine();
      const working = process({ roles }).startWorker(engine, { context: () => undefined });
      expect((await rejectionOf(working)).code).toBe(code);
    }
    expect(thrownBy(() => process({ roles: [sound, other] })).code).toBe("duplicate_role");
    expect(await store.readMail(ID)).toHaveLength(1);
    const worker = await workerIn(world, { roles: [sound] });
    expect(await pushed(run.getResult())).toMatchObject({ status: "completed" });
    await pushed(worker.close());
  },
);

/** An engine that no worker may serve. */
function unservedEngine(): Engine {
  return {
    enqueue: async () => undefined,
    serve: () => expect.fail("It was to serve nobody."),
  };
}
