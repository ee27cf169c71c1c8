// Workers and clients over the store engine: what they refuse, leave to others, hand back and find.

import { expect } from "vitest";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import type { Engine, RunExecutor, RunTicket } from "../../../src/engine/engine.ts";
import { storeEngine } from "../../../src/engine/store-engine.ts";
import type { Model } from "../../../src/model/model.ts";
import type { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { RunClient } from "../../../src/orchestrator/run/run-client.ts";
import type { WorkerOptions } from "../../../src/orchestrator/run/worker.ts";
import { createStoreError } from "../../../src/store/store-errors.ts";
import { proves } from "../../harness/proves.ts";
import { aborted } from "../../support/journal/crash-play.ts";
import { forwarding } from "../../support/journal/forwarding-store.ts";
import { rejectionOf } from "../../support/thrown.ts";
import {
  clientOf,
  counts,
  doings,
  engineWorld,
  latch,
  runId,
  solo,
  turns,
  type Doings,
  type EngineWorld,
} from "../../support/engine/engine-world.ts";

const ID = runId("order-4711");
const TEXT = "Go. worked 0, worked 1.";

/** Returns the model of `solo`. */
function quickModel(done: Doings): Model {
  const { model } = solo(done);
  if ("provider" in model) return model;
  throw new Error("It has a fallback.");
}

/** Starts a worker and a client in one process, over their own engine. */
async function served(
  world: EngineWorld,
  roles: readonly AgentRole[],
  options: WorkerOptions = {},
) {
  const { clock, store, process } = world;
  const engine = storeEngine({ clock });
  const orchestrator: Orchestrator = process({ roles });
  const worker = await orchestrator.startWorker(engine, { context: () => undefined, ...options });
  return { worker, orchestrator, engine, client: new RunClient({ store, engine, clock }) };
}

proves(["E21"], "tries a run with a permanent error once, and returns the reason", async () => {
  const world = engineWorld();
  const { store, pushed, clock } = world;
  const done = doings();
  let attempts = 0;
  const context = () => {
    attempts += 1;
    if (attempts < 3) throw new Error("No database.");
    return undefined;
  };
  const { worker, client } = await served(world, [solo(done)], { context });
  const run = await client.start("solo", "Go.", { runId: ID });
  const failed = await rejectionOf(pushed(run.getResult()));
  expect(failed).toMatchObject({ code: "context_failed" });
  expect(failed.message).toContain("No database.");
  for (let wait = 0; wait < 20; wait += 1) {
    clock.advance(1_000);
    await turns(5);
  }
  expect([attempts, done.asked]).toEqual([1, []]);
  expect(await store.find(ID)).toMatchObject({ status: "paused", owner: null });
  // The run is resumed, and then ordered again.
  await run.sendCommand({ type: "resume" });
  expect(await rejectionOf(pushed(run.getResult()))).toMatchObject({ code: "context_failed" });
  expect(attempts).toBe(2);
  const again = await client.start("solo", "Go.", { runId: ID });
  expect(await pushed(again.getResult())).toMatchObject({ status: "completed", text: TEXT });
  expect(attempts).toBe(3);
  expect((await store.find(ID))?.status).toBe("ended");
  await pushed(worker.close());
});

proves(["E21"], "tries a refused run again when another process orders it again", async () => {
  const world = engineWorld();
  const { pushed } = world;
  const done = doings();
  let attempts = 0;
  const context = () => {
    attempts += 1;
    if (attempts === 1) throw new Error("No database.");
    return undefined;
  };
  const { worker } = await served(world, [solo(done)], { context });
  const client = clientOf(world);
  const run = await client.start("solo", "Go.", { runId: ID });
  expect(await rejectionOf(pushed(run.getResult()))).toMatchObject({ code: "context_failed" });
  const again = await client.start("solo", "Go.", { runId: ID });
  expect(await pushed(again.getResult())).toMatchObject({ status: "completed", text: TEXT });
  await pushed(worker.close());
});

proves(
  ["E21"],
  "pauses an active run that gets a definition error in another worker, and resumes it in a third",
  async () => {
    const world = engineWorld();
    const { pushed } = world;
    const done = doings();
    const first = await served(world, [solo(done, { hold: (_nth, signal) => aborted(signal) })]);
    const run = await first.client.start("solo", "Go.", { runId: ID, budget: { costUsd: 1 } });
    await turns(20);
    await pushed(first.worker.close({ graceMs: 100 }));
    const { price: _known, ...model } = quickModel(done);
    const bad = solo(done, { more: { model } });
    const second = await served(world, [bad]);
    const failed = await rejectionOf(pushed(run.getResult()));
    expect(failed.code).toBe("price_unknown");
    await pushed(second.worker.close());
    const third = await served(world, [solo(done)]);
    await clientOf(world).attach(ID).sendCommand({ type: "resume" });
    expect(await pushed(run.getResult())).toMatchObject({ status: "completed", text: TEXT });
    await pushed(third.worker.close());
  },
);

proves(["E21"], "records no refusal of a worker for a run that another worker owns", async () => {
  const world = engineWorld();
  const { pushed, store } = world;
  const done = doings();
  const gate = latch();
  const first = await served(world, [solo(done, { hold: () => gate.opened })]);
  const run = await first.client.start("solo", "Go.", { runId: ID });
  await turns(20);
  const context = () => {
    throw new Error("No database.");
  };
  const second = await served(world, [solo(done)], { context });
  await second.client.attach(ID).sendCommand({ type: "steer", message: "Hurry." });
  await turns(20);
  expect((await store.readMail(ID)).map(({ key }) => key.split(":")[0])).toEqual([
    "order",
    "steer",
  ]);
  gate.open();
  expect(await pushed(run.getResult())).toMatchObject({ status: "completed" });
  await second.engine.enqueue({ runId: ID, role: "solo", version: "1" });
  await turns(20);
  expect(await pushed(run.getResult())).toMatchObject({ status: "completed" });
  for (const { worker } of [first, second]) await pushed(worker.close());
});

/** An engine that remembers the tickets and the executor that it received. */
function listening(): Engine & { readonly led: RunTicket[]; executor?: RunExecutor } {
  const led: RunTicket[] = [];
  const engine: Engine & { led: RunTicket[]; executor?: RunExecutor } = {
    led,
    enqueue: async (ticket) => void led.push(ticket),
    serve: async (executor) => {
      engine.executor = executor;
      return { close: async () => undefined };
    },
  };
  return engine;
}

proves(
  ["E22"],
  "rejects an execution with a transient error so that the engine repeats it",
  async () => {
    const world = engineWorld();
    const { store, clock, pushed, process } = world;
    const engine = listening();
    let isDown = false;
    const shaky = forwarding(store, {
      find: async (...given: Parameters<typeof store.find>) => {
        if (isDown) throw createStoreError("other", "Expected a store, got none. Wait.");
        return await store.find(...given);
      },
    });
    const worker = await process({ roles: [solo(doings())], store: shaky }).startWorker(engine, {
      context: () => undefined,
    });
    await new RunClient({ store, engine, clock }).start("solo", "Go.", { runId: ID });
    const settle = async (id = ID, leave = new AbortController().signal) =>
      await engine.executor?.execute(id, leave);
    isDown = true;
    expect(await rejectionOf(settle())).toMatchObject({
      code: "store_failed",
    });
    expect((await store.readMail(ID)).map(({ key }) => key)).toEqual(["order"]);
    isDown = false;
    const left = settle(ID, AbortSignal.abort());
    expect(await rejectionOf(left)).toMatchObject({ code: "run_released" });
    expect(await pushed(settle())).toEqual({ type: "ended" });
    expect(await settle(runId("gone"))).toEqual({ type: "ended" });
    await worker.close();
  },
);

proves(["E22"], "leaves runs of other roles and versions to other workers", async () => {
  const world = engineWorld();
  const { pushed, store } = world;
  const done = doings();
  const one = await served(world, [solo(done, { name: "other" })]);
  const two = await served(world, [solo(done)], { rolesVersion: "v2" });
  const run = await clientOf(world).start("solo", "Go.", { runId: ID });
  const waits = run.getResult();
  await pushed(turns(100));
  expect([done.asked, (await store.find(ID))?.recordCount]).toEqual([[], 0]);
  expect(await rejectionOf(one.client.start("solo", "Go."))).toMatchObject({
    code: "unknown_role",
  });
  const three = await served(world, [solo(done)]);
  expect(await pushed(waits)).toMatchObject({ text: TEXT });
  expect((await store.readMail(ID)).map(({ key }) => key)).toEqual(["order"]);
  for (const { worker } of [one, two, three]) await pushed(worker.close());
});

proves(["E22"], "executes at most `maxRuns` runs at once", async () => {
  const world = engineWorld();
  const { pushed } = world;
  const done = doings();
  const gate = latch();
  let [under, most] = [0, 0];
  const role = solo(done, {
    count: 1,
    hold: async () => {
      under += 1;
      most = Math.max(most, under);
      await gate.opened;
      under -= 1;
    },
  });
  const { worker, client } = await served(world, [role], { maxRuns: 3 });
  const runs = await Promise.all(Array.from({ length: 10 }, () => client.start("solo", "Go.")));
  await turns(60);
  expect([under, most]).toEqual([3, 3]);
  gate.open();
  const results = await pushed(Promise.all(runs.map((run) => run.getResult())));
  expect(results.every(({ status }) => status === "completed")).toBe(true);
  expect([most, counts(done).length]).toEqual([3, 10]);
  await pushed(worker.close());
});

proves(
  ["E22"],
  "finds a run that the engine was never notified of, even if its client died while ordering it",
  async () => {
    const world = engineWorld();
    const { store, pushed, clock } = world;
    const done = doings();
    const { worker } = await served(world, [solo(done)]);
    // The client created the journal and died; it orders again when it is back.
    await store.create(ID, "", { token: "t", hostname: "far", processId: 1 });
    clock.advance(30_000);
    for (let sweep = 0; sweep < 5; sweep += 1) {
      await turns(5);
      clock.advance(200);
    }
    const run = await clientOf(world).start("solo", "Go.", { runId: ID });
    expect(await pushed(run.getResult())).toMatchObject({ status: "completed", text: TEXT });
    await pushed(worker.close());
    expect(clock.pendingTimers).toBe(0);
  },
);

proves(["E22"], "executes a run although its order could not be read at first", async () => {
  const world = engineWorld();
  const { store, pushed, clock, process } = world;
  let isDown = true;
  let failures = 0;
  const shaky = forwarding(store, {
    readMail: async (...given: Parameters<typeof store.readMail>) => {
      if (!isDown) return await store.readMail(...given);
      failures += 1;
      throw createStoreError("other", "Expected a store, got none. Wait.");
    },
  });
  const engine = storeEngine({ clock });
  const worker = await process({ roles: [solo(doings())], store: shaky }).startWorker(engine, {
    context: () => undefined,
  });
  const run = await clientOf(world).start("solo", "Go.", { runId: ID });
  await turns(5);
  for (let sweep = 0; sweep < 5; sweep += 1) {
    clock.advance(200);
    await turns(5);
  }
  expect(failures).toBeGreaterThan(0);
  isDown = false;
  expect(await pushed(run.getResult())).toMatchObject({ text: TEXT });
  await pushed(worker.close());
});

proves(
  ["E23"],
  "releases the runs of a closed worker within the grace period, and continues them in another",
  async () => {
    const world = engineWorld();
    const { pushed, clock, store } = world;
    const done = doings();
    const first = await served(world, [
      solo(done, { hold: (nth, signal) => (nth === 1 ? aborted(signal) : undefined) }),
    ]);
    const runs = await Promise.all(
      ["a", "b"].map((id) => first.client.start("solo", "Go.", { runId: id })),
    );
    await turns(40);
    const beganMs = clock.nowMs();
    await pushed(first.worker.close({ graceMs: 1_000 }));
    expect(clock.nowMs() - beganMs).toBeLessThanOrEqual(1_050);
    expect(first.orchestrator.activeRuns()).toEqual([]);
    for (const id of ["a", "b"])
      expect(await store.find(runId(id))).toMatchObject({ status: "open", owner: null });
    await first.worker.close();
    const second = await served(world, [solo(done)]);
    const results = await pushed(Promise.all(runs.map((run) => run.getResult())));
    expect(results.map(({ text }) => text)).toEqual([TEXT, TEXT]);
    expect(counts(done).toSorted((left, right) => left - right)).toEqual([1, 1, 2, 2]);
    await pushed(second.worker.close());
    expect(clock.pendingTimers).toBe(0);
  },
);

proves(["E23"], "takes no run from another worker over the store engine", async () => {
  const world = engineWorld();
  const { pushed, clock } = world;
  const done = doings();
  const gate = latch();
  const make = () =>
    served(world, [solo(done, { hold: (nth) => (nth === 0 ? gate.opened : undefined) })]);
  const workers = [await make(), await make(), await make()];
  const client = clientOf(world);
  const runs = await Promise.all(
    ["a", "b", "c"].map((id) => client.start("solo", "Go.", { runId: id })),
  );
  for (let push = 0; push < 60; push += 1) {
    await turns(5);
    clock.advance(100);
  }
  expect(counts(done)).toEqual([1, 1, 1]);
  gate.open();
  const results = await pushed(Promise.all(runs.map((run) => run.getResult())));
  expect(results.map(({ text }) => text)).toEqual([TEXT, TEXT, TEXT]);
  expect(counts(done)).toEqual([1, 1, 1, 1, 1, 1]);
  expect(done.asked.length).toBe(9);
  for (const { worker } of workers) await pushed(worker.close());
});

proves(["E23"], "serves on after another worker of the same engine has closed", async () => {
  const world = engineWorld();
  const { pushed, clock, store, process } = world;
  const done = doings();
  const engine = storeEngine({ clock, sweepIntervalMs: 1_000_000 });
  const options = { context: () => undefined };
  const one = await process({ roles: [solo(done)] }).startWorker(engine, options);
  const two = await process({ roles: [solo(done)] }).startWorker(engine, options);
  await pushed(one.close());
  const client = new RunClient({ store, engine, clock });
  const run = await client.start("solo", "Go.", { runId: ID });
  await turns(60);
  expect((await store.find(ID))?.status).toBe("ended");
  expect(await run.getResult()).toMatchObject({ text: TEXT });
  await pushed(two.close());
});
