// Requests, a released run, mail and a client over a database file that several connections have
// open.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, expect } from "vitest";

import type { Engine } from "../../../src/engine/engine.ts";
import { storeEngine } from "../../../src/engine/store-engine.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { RunClient } from "../../../src/orchestrator/run/run-client.ts";
import { sqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import { proves } from "../../harness/proves.ts";
import { storedEvents } from "../../support/journal/stored-events.ts";
import { allOf } from "../../support/all-of.ts";
import { rejectionOf } from "../../support/thrown.ts";
import { counts, doings, latch, runId, solo } from "../../support/engine/engine-world.ts";

const ID = runId("order-4711");
const ORDER = { runId: ID, role: "solo", task: "Go." };
const TEXT = "Go. worked 0, worked 1.";
const folder = mkdtempSync(join(tmpdir(), "espalier-engine-"));
afterAll(() => rmSync(folder, { recursive: true }));

proves(
  ["E19"],
  "executes a request once that three connections execute thirty times at once",
  async () => {
    const done = doings();
    const stores = [1, 2, 3].map(() => sqliteStore(join(folder, "orders.db")));
    const each = stores.map((store) => new Orchestrator({ roles: [solo(done)], store }));
    const executed = Array.from(
      { length: 30 },
      async (_, nth) => await each[nth % 3]?.execute(ORDER),
    );
    const results = await Promise.all(executed);
    expect(new Set(results.map((result) => result?.text))).toEqual(new Set([TEXT]));
    expect([counts(done), done.asked.length]).toEqual([[1, 1], 3]);
    expect(await stores[0]?.find(ID)).toMatchObject({ status: "ended", owner: null });
    for (const store of stores) await store.close();
  },
);

proves(
  ["E12", "E15", "E24", "E25"],
  "continues a run of a closed worker with its mail, and returns all events to a client",
  async () => {
    const done = doings();
    const gate = latch();
    const begun = latch();
    const hold = (nth: number) => {
      begun.open();
      return nth === 0 ? gate.opened : undefined;
    };
    const file = join(folder, "worker.db");
    const [first, second, own] = [sqliteStore(file), sqliteStore(file), sqliteStore(file)];
    const options = { context: () => undefined };
    const work = (store: typeof first) =>
      new Orchestrator({ roles: [solo(done, { hold })], store }).startWorker(
        storeEngine({ sweepIntervalMs: 20 }),
        options,
      );
    const one = await work(first);
    const client = new RunClient({ store: own, engine: storeEngine(), pollIntervalMs: 10 });
    const run = await client.start("solo", "Go.", { runId: ID });
    const events = allOf(run.events());
    await begun.opened;
    const closed = one.close();
    gate.open();
    await closed;
    expect(await own.find(ID)).toMatchObject({ status: "open", owner: null });
    await run.sendCommand({ type: "grant", budget: { steps: 1 }, by: "ops" });
    const two = await work(second);
    expect(await run.getResult()).toMatchObject({ status: "completed", text: TEXT });
    expect([counts(done), done.asked.length]).toEqual([[1, 1], 3]);
    const seen = await events;
    expect(seen).toEqual(await storedEvents(own, ID));
    expect(seen.map(({ seq }) => seq)).toEqual(seen.map((_event, index) => index + 1));
    await two.close();
    for (const store of [first, second, own]) await store.close();
  },
);

proves(["E127"], "refuses a worker over a read-only store before it serves", async () => {
  const file = join(folder, "read.db");
  const own = sqliteStore(file);
  await own.list();
  const store = sqliteStore(file, { access: "read" });
  let served = 0;
  const engine: Engine = {
    enqueue: async () => undefined,
    serve: async () => {
      served += 1;
      return { close: async () => undefined };
    },
  };
  const orchestrator = new Orchestrator({ roles: [solo(doings())], store });
  const refused = await rejectionOf(orchestrator.startWorker(engine, { context: () => undefined }));
  expect(refused).toMatchObject({ code: "store_failed", data: { reason: "read_only" } });
  expect(served).toBe(0);
  await store.close();
  await own.close();
});
