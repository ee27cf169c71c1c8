// Goal: a run that ends each process that executes it fails after five deaths, and other runs
// complete.
// Method: real worker processes over the store engine, each restarted after its death, and a client
// beside them.

import { join } from "node:path";

import { describe, expect } from "vitest";

import { storeEngine } from "../../../src/engine/store-engine.ts";
import { RunClient } from "../../../src/engines.ts";
import { postgresStore } from "../../../src/store/postgres/postgres-store.ts";
import { sqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { afterwards } from "../../harness/afterwards.ts";
import { proves } from "../../harness/proves.ts";
import { findPostgres } from "../../support/store/postgres-server.ts";
import { newFolder, PoisonPlace } from "../../support/poison-place.ts";
import { whatBecomes, POISONED } from "./poisoned-runs.ts";
import type { Death, PoisonWorkerOptions } from "../../support/engine/poison-worker.ts";

const found = await findPostgres();
const server = typeof found === "string" ? undefined : found;
if (typeof found === "string") console.warn(`Tests of PostgreSQL are skipped: ${found}.`);

async function ofWorkers(store: Store, workers: readonly PoisonWorkerOptions[]) {
  afterwards(() => store.close());
  const client = new RunClient({ store, engine: storeEngine(), pollIntervalMs: 50 });
  return await whatBecomes(client, PoisonPlace.open(workers));
}

describe("over the store engine", () => {
  proves(
    ["D460"],
    "fails the run after five deaths by exit, abort, SIGKILL or a lack of memory, over SQLite",
    async () => {
      const deaths: readonly Death[] = ["exit", "abort", "kill", "memory"];
      const outcomes = await Promise.all(
        deaths.map(async (death) => {
          const folder = newFolder();
          const path = join(folder, "runs.db");
          const log = join(folder, "calls");
          const worker = { store: { path }, engine: { name: "store" }, death, log } as const;
          return [death, await ofWorkers(sqliteStore(path), [worker])];
        }),
      );
      expect(outcomes).toEqual(deaths.map((death) => [death, POISONED]));
    },
  );
});

describe.skipIf(server === undefined)("over the store engine in PostgreSQL", () => {
  proves(["D460"], "fails the run after five deaths of two workers", async () => {
    afterwards(() => server?.close());
    const place = { connectionString: server?.url ?? "", schema: `poison_${process.pid}` };
    const log = join(newFolder(), "calls");
    const worker = { store: place, engine: { name: "store" }, death: "exit", log } as const;
    expect(await ofWorkers(postgresStore(place), [worker, worker])).toEqual(POISONED);
  });
});
