// Goal: the store in PostgreSQL fulfils the contract of a store, also over several processes and
// broken connections (D4, D5).
// Method: a real local server; the contract suite; connections ended by the server; the server
// stopped, crashed and restarted.

import { Pool, type PoolClient } from "pg";
import { afterAll, describe, expect, test } from "vitest";

import { RunIdSchema, SessionIdSchema } from "../../../src/protocol/ids.ts";
import { postgresStore } from "../../../src/store/postgres/postgres-store.ts";
import type { RunOwner } from "../../../src/store/run-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { storeContract } from "../../../src/testing/store-contract.ts";
import { textsOf } from "../../support/store/texts-of.ts";
import { findPostgres } from "../../support/store/postgres-server.ts";

const found = await findPostgres();
const server = typeof found === "string" ? undefined : found;
if (typeof found === "string") console.warn(`Tests of PostgreSQL are skipped: ${found}.`);
const url = server?.url ?? "";
const admin = new Pool({ connectionString: url, max: 1 });
admin.on("error", () => undefined);

let schemaCount = 0;
const schemas: string[] = [];

function newSchema(): string {
  schemaCount += 1;
  const schema = `espalier_test_${process.pid}_${schemaCount}`;
  schemas.push(schema);
  return schema;
}

function open(schema = newSchema()): Store {
  return postgresStore({ connectionString: url, schema });
}

afterAll(async () => {
  if (server === undefined) return;
  for (const schema of schemas) await admin.query(`drop schema if exists ${schema} cascade`);
  await admin.end();
  await server.close();
});

const runId = RunIdSchema().parse("run_1");
const sessionId = SessionIdSchema().parse("session_1");

function ownerOf(token: string): RunOwner {
  return { token, hostname: "one", processId: 1 };
}

const isOurs = server?.machine !== undefined;

describe.skipIf(server === undefined)("the contract", () => {
  for (const { name, run } of storeContract()) test(name, () => run(async () => open()));
});

describe.skipIf(server === undefined)("several stores of one database", () => {
  test("create a missing schema once if they open it concurrently", async () => {
    const schema = newSchema();
    const stores = Array.from({ length: 8 }, () => open(schema));
    expect(await Promise.all(stores.map((store) => store.list()))).toEqual(stores.map(() => []));
    const { rows } = await admin.query(`select version from ${schema}.migration`);
    expect(rows).toEqual([{ version: 1 }]);
    for (const store of stores) await store.close();
  });

  test("refuse every write of an owner that was superseded through another store", async () => {
    const schema = newSchema();
    const [one, two] = [open(schema), open(schema)];
    const first = await one.create(runId, "", ownerOf("a"));
    await one.append(first, { firstNumber: 1, records: ["1"] });
    const second = await two.claim(runId, {
      owner: ownerOf("b"),
      staleAfterMs: 1e9,
      takeOver: true,
    });
    const late = { firstNumber: 2, records: ['"late"'] };
    await expect(one.append(first, late)).rejects.toMatchObject({ code: "run_fenced" });
    await expect(one.heartbeat(first)).rejects.toMatchObject({ code: "run_fenced" });
    await expect(one.release(first, "ended")).rejects.toMatchObject({ code: "run_fenced" });
    await two.append(second, { firstNumber: 2, records: ["2"] });
    expect(await textsOf(one.read(runId))).toEqual(["1", "2"]);
    await one.close();
    await two.close();
  });

  test("refuse an append that waits for a claim once the claim has won", async () => {
    const schema = newSchema();
    const store = open(schema);
    const held = await store.create(runId, "", ownerOf("a"));
    const rival = await admin.connect();
    await rival.query("begin");
    await rival.query(`select 1 from ${schema}.run where run_id = $1 for update`, [runId]);
    const append = store.append(held, { firstNumber: 1, records: ["1"] });
    const refused = expect(append).rejects.toMatchObject({
      code: "run_fenced",
      data: { foundEpoch: 2 },
    });
    await lockAwaited(rival);
    await rival.query(`update ${schema}.run set epoch = 2, owner_token = 'b' where run_id = $1`, [
      runId,
    ]);
    await rival.query("commit");
    rival.release();
    await refused;
    expect(await textsOf(store.read(runId))).toEqual([]);
    await store.close();
  });

  test("take their times from the database", async () => {
    const store = open();
    const { rows } = await admin.query("select extract(epoch from clock_timestamp()) * 1000 as ms");
    const ms: unknown = Reflect.get(Object(rows[0]), "ms");
    await store.create(runId, "", ownerOf("a"));
    const run = await store.find(runId);
    expect(run?.createdAtMs).toBeGreaterThanOrEqual(Math.floor(Number(ms)));
    await store.close();
  });

  test("use a pool of the user, and do not end it", async () => {
    const pool = new Pool({ connectionString: url, max: 2 });
    const schema = newSchema();
    const store = postgresStore({ pool, schema });
    await store.create(runId, "", ownerOf("a"));
    await store.close();
    expect(pool.listenerCount("error")).toBe(0);
    expect((await pool.query(`select run_id from ${schema}.run`)).rows).toEqual([
      { run_id: runId },
    ]);
    await pool.end();
  });
});

describe.skipIf(server === undefined)("a schema", () => {
  test("is refused and not changed if its version is another", async () => {
    const schema = newSchema();
    const store = open(schema);
    await store.list();
    await admin.query(`insert into ${schema}.migration (version) values (999)`);
    const other = open(schema);
    const refusal = { code: "unsupported_version", data: { expected: 1, got: 999 } };
    await expect(other.list()).rejects.toMatchObject(refusal);
    await expect(other.create(runId, "", ownerOf("a"))).rejects.toMatchObject(refusal);
    await admin.query(`delete from ${schema}.migration where version = 999`);
    expect(await other.list()).toEqual([]);
    await store.close();
    await other.close();
  });

  // Creates a role, and needs a server that accepts it.
  test.skipIf(!isOurs)(
    "is used if another user created it, and works for a user with only read and write permissions",
    async () => {
      const schema = newSchema();
      await admin.query(`create schema ${schema}`);
      const store = open(schema);
      await store.create(runId, "", ownerOf("a"));
      const role = `${schema}_role`;
      await admin.query(`create role ${role} login`);
      await admin.query(`grant usage on schema ${schema} to ${role}`);
      await admin.query(
        `grant select, insert, update, delete on all tables in schema ${schema} to ${role}`,
      );
      await admin.query(`grant usage on all sequences in schema ${schema} to ${role}`);
      const asRole = new URL(url);
      asRole.username = role;
      const other = postgresStore({ connectionString: asRole.href, schema });
      expect(await other.writeSession(sessionId, 0, "1")).toBe(1);
      await other.create(RunIdSchema().parse("run_2"), "", ownerOf("a"));
      expect((await other.list()).map((run) => run.runId)).toEqual(["run_2", "run_1"]);
      const stranger = postgresStore({ connectionString: asRole.href, schema: newSchema() });
      await expect(stranger.list()).rejects.toMatchObject({
        code: "store_failed",
        data: { reason: "denied", isTransient: false },
      });
      for (const one of [store, other, stranger]) await one.close();
      await admin.query(`drop owned by ${role}`);
      await admin.query(`drop role ${role}`);
    },
  );

  test("with a gap in a journal rejects reads of that journal as corrupt", async () => {
    const schema = newSchema();
    const store = open(schema);
    const held = await store.create(runId, "", ownerOf("a"));
    await store.append(held, { firstNumber: 1, records: ["1", "2", "3"] });
    await admin.query(`delete from ${schema}.journal where number = 2`);
    const corrupt = { code: "store_failed", data: { reason: "corrupt", isTransient: false } };
    await expect(textsOf(store.read(runId))).rejects.toMatchObject(corrupt);
    await admin.query(`delete from ${schema}.journal`);
    await expect(textsOf(store.read(runId))).rejects.toMatchObject(corrupt);
    await store.close();
  });
});

/** Resolves once another connection waits for a lock of this connection. */
async function lockAwaited(holder: PoolClient): Promise<void> {
  const sql = "select 1 from pg_locks where not granted";
  while ((await holder.query(sql)).rows.length === 0);
}

/** Returns a store at another address. */
function at(change: (to: URL) => void): Store {
  const to = new URL(url);
  change(to);
  return postgresStore({ connectionString: to.href });
}

/** Ends every connection to the server except the one of the query. */
async function endConnections(): Promise<void> {
  await admin.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
     where pid <> pg_backend_pid() and datname = current_database() and application_name = 'espalier'`,
  );
}

const LOST = { code: "store_failed", data: { reason: "connection", isTransient: true } };

describe.skipIf(server === undefined)("connections", () => {
  test("break during an append, which can be retried and is applied once", async () => {
    const schema = newSchema();
    const store = open(schema);
    const held = await store.create(runId, "", ownerOf("a"));
    const batch = { firstNumber: 1, records: ["1", "2"] };
    const rival = await admin.connect();
    await rival.query("begin");
    await rival.query(`select 1 from ${schema}.run where run_id = $1 for update`, [runId]);
    const lost = expect(store.append(held, batch)).rejects.toMatchObject(LOST);
    await lockAwaited(rival);
    await rival.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'espalier' and state = 'active'`,
    );
    await lost;
    await rival.query("commit");
    rival.release();
    await store.append(held, batch);
    await store.append(held, batch);
    expect(await textsOf(store.read(runId))).toEqual(["1", "2"]);
    await store.close();
  });

  test("end while they are idle without harm to later appends", async () => {
    const store = open();
    const held = await store.create(runId, "", ownerOf("a"));
    for (let round = 1; round <= 3; round += 1) {
      await endConnections();
      const batch = { firstNumber: round, records: [`${round}`] };
      // The end of a connection may be noticed only at its next use.
      await store.append(held, batch).catch(async (cause: unknown) => {
        expect(cause).toMatchObject(LOST);
        await store.append(held, batch);
      });
    }
    expect(await textsOf(store.read(runId))).toEqual(["1", "2", "3"]);
    await store.close();
  });

  test("fail with a coded error without a server, without the database, and under an unknown role", async () => {
    const absent = at((to) => void (to.port = "1"));
    await expect(absent.list()).rejects.toMatchObject(LOST);
    const nowhere = at((to) => void (to.pathname = "/no_such_database"));
    const role = at((to) => void (to.username = "no_such_role"));
    for (const store of [nowhere, role]) {
      await expect(store.list()).rejects.toMatchObject({
        code: "store_failed",
        data: { reason: "denied", isTransient: false },
      });
      await store.close();
    }
    await absent.close();
  });

  test("are abandoned with a statement that exceeds its timeout", async () => {
    const schema = newSchema();
    const made = open(schema);
    const held = await made.create(runId, "", ownerOf("a"));
    const store = postgresStore({ connectionString: url, schema, timeoutMs: 3_000 });
    await store.list();
    const rival = await admin.connect();
    await rival.query("begin");
    await rival.query(`select 1 from ${schema}.run where run_id = $1 for update`, [runId]);
    const batch = { firstNumber: 1, records: ["1"] };
    await expect(store.append(held, batch)).rejects.toMatchObject(LOST);
    await rival.query("commit");
    rival.release();
    await store.append(held, batch);
    expect(await textsOf(store.read(runId))).toEqual(["1"]);
    await store.close();
    await made.close();
  });
});

describe.skipIf(!isOurs)("a restarted server", () => {
  test("has all acknowledged records, both after a stop and after a crash", async () => {
    const store = open();
    const held = await store.create(runId, "", ownerOf("a"));
    const machine = server?.machine ?? expect.fail("no server of our own");
    let number = 0;
    for (const end of [() => machine.stop(), () => machine.crash()]) {
      // Appends are in progress when the server ends. Whether the last one was applied is unknown.
      const ended = (async () => {
        for (;;) {
          const batch = { firstNumber: number + 1, records: [`${number + 1}`] };
          await store.append(held, batch);
          number += 1;
          if (number % 50 === 0) void end();
        }
      })();
      await expect(ended).rejects.toMatchObject(LOST);
      await expect(store.heartbeat(held)).rejects.toMatchObject(LOST);
      await end();
      await machine.start();
      await store.append(held, { firstNumber: number + 1, records: [`${number + 1}`] });
      number += 1;
      const records = await textsOf(store.read(runId));
      expect(records).toEqual(Array.from({ length: number }, (_, index) => `${index + 1}`));
    }
    expect(number).toBeGreaterThan(100);
    await store.close();
  });
});

test("refuses invalid options, and names the field", () => {
  const connectionString = "postgres://localhost/nothing";
  const pool = { connect: () => expect.fail("not yet"), on: () => pool, off: () => pool };
  const refused: readonly (readonly [string, Parameters<typeof postgresStore>[0]])[] = [
    ["connectionString", {}],
    ["connectionString", { connectionString: "" }],
    ["connectionString", { connectionString, pool }],
    ["maxConnections", { pool, maxConnections: 3 }],
    ["timeoutMs", { pool, timeoutMs: 3 }],
    ["maxConnections", { connectionString, maxConnections: 0 }],
    ["timeoutMs", { connectionString, timeoutMs: Number.NaN }],
    ["schema", { connectionString, schema: 'a"; drop table run; --' }],
    ["schema", { connectionString, schema: "" }],
    ["schema", { connectionString, schema: "a".repeat(64) }],
  ];
  for (const [field, options] of refused) {
    const data: unknown = expect.objectContaining({ field });
    expect(() => postgresStore(options), field).toThrow(
      expect.objectContaining({ code: "invalid_argument", data }),
    );
  }
});

test("does not connect before the first use", async () => {
  const store = postgresStore({ connectionString: "postgres://127.0.0.1:1/nothing" });
  await store.close();
  await expect(store.list()).rejects.toMatchObject({ data: { reason: "closed" } });
});
