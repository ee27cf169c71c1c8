// Goal: runs are led over pg-boss as every engine has to lead them, also when its workers or its database go away.
// Method: a real PostgreSQL server of our own; a fake executor; a worker in a process of its own that is frozen or killed.

import { afterAll, describe, test } from "vitest";

import { pgBossEngine } from "../../src/engine/pg-boss/pg-boss-engine.ts";
import { engineTrials } from "../support/engine-trials.ts";
import { findPostgres } from "../store/postgres-server.ts";

const found = await findPostgres();
const server = typeof found === "string" ? undefined : found;
if (typeof found === "string") console.warn(`Tests of pg-boss are skipped: ${found}.`);
const connectionString = server?.url ?? "";
afterAll(() => server?.close());

let schemaCount = 0;

describe.skipIf(server === undefined)("as every engine", () => {
  for (const { ids, name, run } of engineTrials())
    test(`${name} [${ids.join(" ")}]`, async () => {
      schemaCount += 1;
      const schema = `jobs_${process.pid}_${schemaCount}`;
      await run(() => pgBossEngine({ connectionString, schema, pollIntervalMs: 100 }));
    });
});
