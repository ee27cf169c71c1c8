// Goal: over Restate, a run that ends each process that executes it fails after five deaths, and
// other runs complete.
// Method: a real Restate server, real worker processes over PostgreSQL, each restarted after its
// death.

import { join } from "node:path";

import { describe, expect } from "vitest";

import { restateEngine } from "../../../src/engine/restate/restate-engine.ts";
import { RunClient } from "../../../src/engines.ts";
import { postgresStore } from "../../../src/store/postgres/postgres-store.ts";
import { afterwards } from "../../harness/afterwards.ts";
import { proves } from "../../harness/proves.ts";
import { freePort } from "../../support/free-port.ts";
import { newFolder, PoisonPlace } from "../../support/poison-place.ts";
import { findServers } from "../../support/survey-place.ts";
import { whatBecomes, POISONED } from "./poisoned-runs.ts";
import type { Death, PoisonWorkerOptions } from "../../support/engine/poison-worker.ts";

const found = await findServers("restate");
const servers = typeof found === "string" ? undefined : found;
if (typeof found === "string") console.warn(`Tests of Restate are skipped: ${found}.`);

const LIMIT_MS = 300_000;

describe.skipIf(servers === undefined)("over Restate", () => {
  proves(
    ["D460"],
    "fails the run after five deaths by exit, SIGKILL or a lack of memory",
    async () => {
      const { postgres, restate } = servers ?? {};
      if (postgres === undefined || restate === undefined) throw new Error("Expected servers.");
      afterwards(() => Promise.all([postgres.close(), restate.close()]));
      const deaths: readonly Death[] = ["exit", "kill", "memory"];
      const outcomes: unknown[] = [];
      // One after the other: the workers of all places would serve the same role in the same
      // version.
      for (const death of deaths) {
        const { ingressUrl, adminUrl } = restate;
        const port = await freePort();
        const place = { connectionString: postgres.url, schema: `poison_${process.pid}_${death}` };
        const worker: PoisonWorkerOptions = {
          store: place,
          engine: { name: "restate", ingressUrl, adminUrl, port },
          death,
          log: join(newFolder(), "calls"),
        };
        const store = postgresStore(place);
        afterwards(() => store.close());
        const engine = restateEngine({ ingressUrl });
        const client = new RunClient({ store, engine, pollIntervalMs: 50 });
        const workers = PoisonPlace.open([worker]);
        outcomes.push([death, await whatBecomes(client, workers)]);
        await workers.close();
      }
      expect(outcomes).toEqual(deaths.map((death) => [death, POISONED]));
    },
    LIMIT_MS,
  );
});
