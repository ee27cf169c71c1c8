// Goal: the Restate engine fulfils the engine contract.
// Method: the contract suite, each check with its own Restate server and its own schema in a real
// PostgreSQL server. Workers of one deployment listen at ports behind one address, as behind a load
// balancer.

import { afterAll, describe, expect } from "vitest";

import type { Engine } from "../../../src/engine/engine.ts";
import { restateEngine } from "../../../src/engine/restate/restate-engine.ts";
import { postgresStore } from "../../../src/store/postgres/postgres-store.ts";
import { engineContract, type EngineSetup } from "../../../src/testing/engine-contract.ts";
import { proves } from "../../harness/proves.ts";
import { findPostgres } from "../../support/store/postgres-server.ts";
import { balancer } from "../../support/balancer.ts";
import { freePort } from "../../support/free-port.ts";
import { findRestate, whyNoRestate } from "../../support/restate-server.ts";

const postgres = await findPostgres();
const why = typeof postgres === "string" ? postgres : whyNoRestate();
if (why !== undefined) console.warn(`The contract over Restate is skipped: ${why}.`);
afterAll(() => (typeof postgres === "string" ? undefined : postgres.close()));

/** The most deployments of a check, and the most workers of a deployment. */
const DEPLOYMENTS = 3;
const WORKERS = 4;

let placeCount = 0;

async function newPlace(): Promise<EngineSetup> {
  const server = await findRestate();
  if (typeof postgres === "string" || typeof server === "string") return expect.fail("no server");
  const { ingressUrl, adminUrl } = server;
  const free = await Promise.all(Array.from({ length: DEPLOYMENTS }, newDeployment));
  const taken = new Map<string, Deployment>();
  const engine = (deployment?: string): Engine => {
    if (deployment === undefined) return restateEngine({ ingressUrl });
    const at = taken.get(deployment) ?? free.pop() ?? expect.fail("no address");
    taken.set(deployment, at);
    const { workerUrl } = at;
    const port = at.freePorts.pop() ?? expect.fail("no port");
    return restateEngine({ ingressUrl, adminUrl, workerUrl, port });
  };
  placeCount += 1;
  const schema = `runs_${process.pid}_${placeCount}`;
  const store = postgresStore({ connectionString: postgres.url, schema });
  return {
    createEngine: engine,
    store,
    close: async () => {
      await store.close();
      await server.close();
    },
  };
}

/** An address, and the ports behind it that no worker uses yet. */
interface Deployment {
  readonly workerUrl: string;
  readonly freePorts: number[];
}

async function newDeployment(): Promise<Deployment> {
  const ports = await Promise.all(Array.from({ length: WORKERS }, freePort));
  return { workerUrl: `http://127.0.0.1:${await balancer(ports)}`, freePorts: [...ports] };
}

describe.skipIf(why !== undefined)("contract: over Restate", () => {
  for (const { name, run } of engineContract()) proves(["E93"], name, () => run(newPlace));
});
