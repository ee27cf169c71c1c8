// Goal: workers and clients over a database that cannot store their runs are refused at once, and
// nothing is served or ordered.
// Method: a real PostgreSQL server; a schema that a newer release wrote, and a user who may not
// create one.

import { afterAll, describe, expect } from "vitest";

import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { RunClient } from "../../../src/orchestrator/run/run-client.ts";
import { postgresStore } from "../../../src/store/postgres/postgres-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { afterwards } from "../../harness/afterwards.ts";
import { proves } from "../../harness/proves.ts";
import { opened } from "../../support/opened-engine.ts";
import { PgBossPlace } from "../../support/pg-boss-place.ts";
import { rejectionOf } from "../../support/thrown.ts";
import { doings, solo } from "../../support/engine/engine-world.ts";

const place = await PgBossPlace.find();
afterAll(() => place?.close());

function there(): PgBossPlace {
  return place ?? expect.fail("no server");
}

function storeIn(schema: string, connectionString = there().url): Store {
  const store = postgresStore({ connectionString, schema });
  afterwards(() => store.close());
  return store;
}

/**
 * Returns the errors of a worker, a client that orders and one that asks; and how many queues were
 * created meanwhile.
 */
async function refusals(store: Store): Promise<readonly unknown[]> {
  const jobs = there().newSchema();
  const engine = opened(() => there().engine(jobs));
  const orchestrator = new Orchestrator({ roles: [solo(doings())], store });
  const client = new RunClient({ store, engine });
  const errors = [
    await rejectionOf(orchestrator.startWorker(engine)),
    await rejectionOf(client.start("solo", "Go.", { runId: "order-1" })),
    await rejectionOf(client.attach("order-1").getResult()),
  ];
  const { rowCount } = await there().admin.query(
    "select 1 from information_schema.schemata where schema_name = $1",
    [jobs],
  );
  return [...errors, rowCount];
}

describe.skipIf(place === undefined)("a database that cannot store runs", () => {
  proves(["E114"], "refuses workers and clients if a newer release wrote its tables", async () => {
    const schema = there().newSchema();
    expect(await storeIn(schema).list()).toEqual([]);
    await there().admin.query(`insert into ${schema}.migration (version) values (999)`);
    const newer: unknown = expect.objectContaining({
      code: "unsupported_version",
      data: { expected: 1, got: 999 },
    });
    expect(await refusals(storeIn(schema))).toEqual([newer, newer, newer, 0]);
    const { rowCount } = await there().admin.query(`select 1 from ${schema}.run`);
    expect(rowCount).toBe(0);
  });

  proves(
    ["E114"],
    "refuses workers and clients if it lacks our tables and the right to create them",
    async () => {
      const user = `stranger_${process.pid}`;
      await there().admin.query(`create role ${user} login`);
      const stranger = there().url.replace("postgres@", `${user}@`);
      const message: unknown = expect.stringContaining("permission denied");
      const data: unknown = expect.objectContaining({ isTransient: false });
      const denied: unknown = expect.objectContaining({ code: "store_failed", message, data });
      const store = storeIn(there().newSchema(), stranger);
      expect(await refusals(store)).toEqual([denied, denied, denied, 0]);
      await store.close();
      await there().admin.query(`drop role ${user}`);
    },
  );
});
