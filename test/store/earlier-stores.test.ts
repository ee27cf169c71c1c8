// Goal: what an earlier release kept is found whole, and has what came since.
// Method: a file and a schema as that release made and filled them, in its own statements.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

import { Client } from "pg";
import { afterAll, expect, test } from "vitest";

import { RunIdSchema, SessionIdSchema } from "../../src/protocol/ids.ts";
import { postgresStore } from "../../src/store/postgres/postgres-store.ts";
import { sqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../../src/store/store.ts";
import { proves } from "../harness/proves.ts";
import { findPostgres } from "./postgres-server.ts";
import { textsOf } from "./texts-of.ts";

const found = await findPostgres();
const server = typeof found === "string" ? undefined : found;
if (typeof found === "string") console.warn(`Tests of PostgreSQL are skipped: ${found}.`);

const folder = mkdtempSync(join(tmpdir(), "store-"));
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await server?.close();
});

const run1 = RunIdSchema.parse("run_1");
const run2 = RunIdSchema.parse("run_2");
const run3 = RunIdSchema.parse("run_3");

function statements(name: string): string {
  return readFileSync(new URL(`version-1/${name}.sql`, import.meta.url), "utf8");
}

/** Two stores of a new release open what there is at once. */
async function checkFirstVersion(open: () => Store): Promise<void> {
  const [one, two] = [open(), open()];
  const [runs] = await Promise.all([one.list(), two.list()]);
  const times = { createdAtMs: 1_000, updatedAtMs: 1_200, crashes: 0, lastCrashAtMs: null };
  const free = { ...times, owner: null, heartbeatAtMs: null };
  expect(runs).toEqual([
    {
      ...times,
      runId: run3,
      status: "open",
      title: "it was left",
      epoch: 1,
      recordCount: 0,
      owner: { token: "c", hostname: "elsewhere", processId: 7 },
      heartbeatAtMs: 1_100,
    },
    { ...free, runId: run2, status: "ended", title: "it has ended", epoch: 1, recordCount: 1 },
    { ...free, runId: run1, status: "paused", title: "it rests", epoch: 2, recordCount: 2 },
  ]);
  expect(await textsOf(one.read(run1))).toEqual(['"1"', '"2"']);
  expect(await one.readSession(SessionIdSchema.parse("session_1"))).toEqual({
    version: 3,
    body: "{}",
  });
  for (const { runId } of runs) expect(await one.posts(runId)).toEqual([]);
  expect(await one.post(run1, { key: "a", body: "1" })).toBe(1);
  expect(await two.post(run1, { key: "b", body: "2" })).toBe(2);
  expect((await one.posts(run1, 2)).map(({ key }) => key)).toEqual(["b"]);
  expect((await two.find(run1))?.status).toBe("open");
  expect(await two.post(run3, { key: "a", body: "1" })).toBe(1);
  await expect(one.post(run2, { key: "a", body: "1" })).rejects.toMatchObject({
    code: "run_ended",
  });
  for (const store of [one, two]) await store.close();
}

proves(["E2"], "a file of the first version", async () => {
  const path = join(folder, "first.db");
  const database = new DatabaseSync(path);
  database.exec(statements("sqlite"));
  database.close();
  await checkFirstVersion(() => sqliteStore(path));
});

test.skipIf(server === undefined)("a schema of the first version [E2]", async () => {
  const connectionString = server?.url ?? "";
  const schema = `espalier_first_${process.pid}`;
  const client = new Client({ connectionString });
  await client.connect();
  try {
    await client.query(statements("postgres").replaceAll("{schema}", schema));
    await checkFirstVersion(() => postgresStore({ connectionString, schema }));
  } finally {
    await client.query(`drop schema if exists ${schema} cascade`);
    await client.end();
  }
});
