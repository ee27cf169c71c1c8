// Goal: the pg-boss engine fulfils the engine contract.
// Method: the contract suite, the store and the queues of each check in separate schemas on a real
// PostgreSQL server.

import { afterAll, describe, expect } from "vitest";

import { postgresStore } from "../../../src/store/postgres/postgres-store.ts";
import { engineContract } from "../../../src/testing/engine-contract.ts";
import { proves } from "../../harness/proves.ts";
import { PgBossPlace } from "../../support/pg-boss-place.ts";

const found = await PgBossPlace.find();
afterAll(() => found?.close());

describe.skipIf(found === undefined)("contract: over pg-boss", () => {
  for (const { name, run } of engineContract())
    proves(["E92"], name, () =>
      run(async () => {
        const place = found ?? expect.fail("no server");
        const jobs = place.newSchema();
        const store = postgresStore({ connectionString: place.url, schema: `${jobs}_runs` });
        return { createEngine: () => place.engine(jobs), store, close: () => store.close() };
      }),
    );
});
