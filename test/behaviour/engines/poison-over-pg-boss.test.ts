// Goal: over pg-boss, a run that ends each process that executes it fails after five deaths, and
// other runs complete.
// Method: real worker processes over pg-boss and PostgreSQL, each restarted after its death.
// pg-boss misses a dead worker after 10 s.

import { join } from "node:path";

import { describe, expect } from "vitest";

import { pgBossEngine } from "../../../src/engine/pg-boss/pg-boss-engine.ts";
import { RunClient } from "../../../src/engines.ts";
import { postgresStore } from "../../../src/store/postgres/postgres-store.ts";
import { afterwards } from "../../harness/afterwards.ts";
import { proves } from "../../harness/proves.ts";
import { findPostgres } from "../../support/store/postgres-server.ts";
import { newFolder, PoisonPlace } from "../../support/poison-place.ts";
import { whatBecomes, POISONED } from "./poisoned-runs.ts";
import type { Death, PoisonWorkerOptions } from "../../support/engine/poison-worker.ts";

const found = await findPostgres();
const server = typeof found === "string" ? undefined : found;
if (typeof found === "string") console.warn(`Tests of PostgreSQL are skipped: ${found}.`);

/** Five times the ten seconds after which a dead worker is missed, with room for slow machines. */
const LIMIT_MS = 400_000;

describe.skipIf(server === undefined)("over pg-boss", () => {
  proves(
    ["D460"],
    "fails the run after five deaths by exit, abort or a lack of memory",
    async () => {
      afterwards(() => server?.close());
      const connectionString = server?.url ?? "";
      const deaths: readonly Death[] = ["exit", "abort", "memory"];
      const outcomes = await Promise.all(
        deaths.map(async (death) => {
          const jobs = `poison_jobs_${process.pid}_${death}`;
          const place = { connectionString, schema: `poison_runs_${process.pid}_${death}` };
          const worker: PoisonWorkerOptions = {
            store: place,
            engine: { name: "pg-boss", connectionString, jobs },
            death,
            log: join(newFolder(), "calls"),
          };
          const store = postgresStore(place);
          afterwards(() => store.close());
          const engine = pgBossEngine({ connectionString, schema: jobs });
          afterwards(() => engine.close?.());
          const client = new RunClient({ store, engine, pollIntervalMs: 50 });
          return [death, await whatBecomes(client, PoisonPlace.open([worker]))];
        }),
      );
      expect(outcomes).toEqual(deaths.map((death) => [death, POISONED]));
    },
    LIMIT_MS,
  );
});
