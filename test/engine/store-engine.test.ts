// The store engine with several workers in one process, and its options.

import { expect } from "vitest";

import { storeEngine } from "../../src/engine/store-engine.ts";
import { RunClient } from "../../src/orchestrator/run/run-client.ts";
import { proves } from "../harness/proves.ts";
import { thrownBy } from "../support/thrown.ts";
import { doings, engineWorld, runId, solo } from "../support/engine/engine-world.ts";
import { GatedExecutor } from "../support/engine/gated-executor.ts";

const ID = runId("order-1");
const ticketOf = (role: string, id = ID, version = "1") => ({ runId: id, role, version });

proves(["D321"], "hands a run to the worker that has its role", async () => {
  const { clock, store, process, pushed } = engineWorld();
  const engine = storeEngine({ clock });
  const client = new RunClient({ store, engine, clock });
  const [red, blue] = [solo(doings(), { name: "red" }), solo(doings(), { name: "blue" })];
  const first = await process({ roles: [red] }).startWorker(engine);
  const second = await process({ roles: [blue] }).startWorker(engine);
  const led = async (role: string): Promise<string> => {
    const run = await client.start(role, "Go.");
    return (await pushed(run.getResult())).status;
  };
  expect([await led("red"), await led("blue")]).toEqual(["completed", "completed"]);
  await pushed(second.close());
  expect(await led("red")).toBe("completed");
  await pushed(first.close());
});

proves(
  ["D321"],
  "accepts a role of a closed worker, and refuses a role that no worker had",
  async () => {
    const engine = storeEngine();
    const red = await engine.serve(new GatedExecutor(["red"]));
    const blue = await engine.serve(new GatedExecutor(["blue"]));
    await red.close();
    await engine.enqueue(ticketOf("red"));
    await expect(engine.enqueue(ticketOf("green"))).rejects.toMatchObject({ code: "unknown_role" });
    await engine.enqueue(ticketOf("green", ID, "2"));
    await blue.close();
    await engine.enqueue(ticketOf("green"));
  },
);

proves(
  ["D321"],
  "notifies the owner of a run again, and hands new runs to other workers",
  async () => {
    const engine = storeEngine();
    const [left, right] = [new GatedExecutor(["red"]), new GatedExecutor(["red"])];
    const workers = [await engine.serve(left), await engine.serve(right)];
    await engine.enqueue(ticketOf("red"));
    const leading = await left.next();
    await engine.enqueue(ticketOf("red"));
    const other = runId("order-2");
    await engine.enqueue(ticketOf("red", other));
    (await right.next()).settle();
    leading.settle();
    (await left.next()).settle();
    await Promise.all(workers.map((worker) => worker.close()));
    expect([left.led, right.led]).toEqual([[ID, ID], [other]]);
  },
);

proves(["D321"], "hands no new run to a worker that closes", async () => {
  const engine = storeEngine();
  const [left, right] = [new GatedExecutor(["red"]), new GatedExecutor(["red"])];
  const closing = await engine.serve(left);
  await engine.enqueue(ticketOf("red"));
  const leading = await left.next();
  const worker = await engine.serve(right);
  const closed = closing.close();
  const other = runId("order-2");
  await engine.enqueue(ticketOf("red", other));
  (await right.next()).settle();
  leading.settle();
  await closed;
  await worker.close();
  expect([left.led, right.led]).toEqual([[ID], [other]]);
});

proves(["D322"], "refuses unknown and invalid options", () => {
  const given: Record<string, unknown>[] = [
    { sweepIntervalMs: -1 },
    { sweepIntervalMs: NaN },
    { sweepms: 5 },
  ];
  for (const options of given)
    expect(thrownBy(() => storeEngine(options)).code).toBe("invalid_argument");
});
