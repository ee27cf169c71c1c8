// Goal: a read-only store creates, changes and leaves behind nothing, and finds what others write
// at the same time.
// Method: real files and a real server, compared before and after; processes that write
// concurrently, and are killed.

import { spawn } from "node:child_process";
import {
  mkdtempSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { createInterface } from "node:readline";

import { Pool } from "pg";
import { afterAll, describe, expect, test } from "vitest";

import { systemClock } from "../../src/kernel/clock.ts";
import { RunIdSchema, SessionIdSchema } from "../../src/protocol/ids.ts";
import { postgresStore } from "../../src/store/postgres/postgres-store.ts";
import type { Ownership, RunOwner } from "../../src/store/run-store.ts";
import { SqlStore } from "../../src/store/sql-store.ts";
import { ReadOnlyFileDriver } from "../../src/store/sqlite/read-only-file-driver.ts";
import { getOpener, type SqliteAccess } from "../../src/store/sqlite/sqlite-driver.ts";
import { sqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../../src/store/store.ts";
import { proves } from "../harness/proves.ts";
import { BATCH_SIZE, recordOf } from "../support/store/appended-records.ts";
import { DRIVERS } from "../support/store/drivers.ts";
import { findPostgres } from "../support/store/postgres-server.ts";
import { textsOf } from "../support/store/texts-of.ts";

const found = await findPostgres();
const server = typeof found === "string" ? undefined : found;
if (typeof found === "string") console.warn(`Tests of PostgreSQL are skipped: ${found}.`);
const url = server?.url ?? "";
const admin = new Pool({ connectionString: url, max: 1 });

const folder = mkdtempSync(join(tmpdir(), "store-"));
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await admin.end();
  await server?.close();
});

const run1 = RunIdSchema().parse("run_1");
const run2 = RunIdSchema().parse("run_2");
const session1 = SessionIdSchema().parse("session_1");
const owner: RunOwner = { token: "a", hostname: "here", processId: 7 };

let folders = 0;
/** Returns a new folder. */
function newFolder(): string {
  folders += 1;
  const path = join(folder, `${folders}`);
  mkdirSync(path);
  return path;
}

/**
 * Stores two runs, one of them active, a mail and a session; returns the ownership of the first
 * run.
 */
async function fill(store: Store): Promise<Ownership> {
  const held = await store.create(run1, "the first", owner);
  await store.append(held, { firstNumber: 1, records: ["1", "2", "3"] });
  await store.create(run2, "the second", { ...owner, token: "b" });
  await store.sendMail(run1, { key: "k", body: "1" });
  await store.writeSession(session1, 0, "{}");
  return held;
}

async function allOf(store: Store): Promise<unknown> {
  return [
    await store.list(),
    await store.list({ before: run2 }),
    await store.find(run1),
    await textsOf(store.read(run1)),
    await textsOf(store.read(run1, 2, 1)),
    await store.readMail(run1),
    await store.readSession(session1),
    await store.listSessions(),
  ];
}

/** Returns all operations that write. */
function writesOn(store: Store): readonly (() => Promise<unknown>)[] {
  const held = { runId: run1, token: "a", epoch: 1 };
  return [
    () => store.create(RunIdSchema().parse("run_3"), "", owner),
    () => store.claim(run1, { owner, staleAfterMs: 0, takeOver: true }),
    () => store.append(held, { firstNumber: 4, records: ["4"] }),
    () => store.append(held, { firstNumber: 1, records: ["1"] }), // The record exists already.
    () => store.heartbeat(held),
    () => store.release(held, "ended"),
    () => store.sendMail(run1, { key: "other", body: "1" }),
    () => store.remove(run1, 0),
    () => store.writeSession(session1, 1, "[]"),
    () => store.removeSession(session1),
  ];
}

async function checkWritesNothing(store: Store): Promise<void> {
  const before = await allOf(store);
  const refused = { code: "store_failed", data: { reason: "read_only", isTransient: false } };
  for (const write of writesOn(store)) await expect(write()).rejects.toMatchObject(refused);
  expect(await allOf(store)).toEqual(before);
}

const MISSING = { code: "store_failed", data: { reason: "missing", isTransient: false } };

async function checkMissing(store: Store): Promise<void> {
  for (const look of [() => store.list(), () => store.find(run1), () => store.readMail(run1)])
    await expect(look()).rejects.toMatchObject(MISSING);
  await expect(textsOf(store.read(run1))).rejects.toMatchObject(MISSING);
  await expect(store.create(run1, "", owner)).rejects.toMatchObject({ code: "store_failed" });
}

describe.each(DRIVERS)("a file, opened read-only by %s", (driver) => {
  const reading = (path: string): Store => sqliteStore(path, { access: "read", driver });

  proves(
    ["V1"],
    `is read while it is open for writing and after that, and is not changed (${driver})`,
    async () => {
      const place = newFolder();
      const path = join(place, "a ?#%20.db");
      const writer = sqliteStore(path, { driver });
      const held = await fill(writer);
      const store = reading(path);
      const expected = await allOf(writer);
      expect(await allOf(store)).toEqual(expected);
      await checkWritesNothing(store);
      await writer.append(held, { firstNumber: 4, records: ["4"] });
      expect(await textsOf(store.read(run1, 4))).toEqual(["4"]);
      await writer.close();
      expect(readdirSync(place)).toEqual(["a ?#%20.db"]);
      const bytes = readFileSync(path);
      expect(await textsOf(store.read(run1))).toEqual(["1", "2", "3", "4"]);
      await checkWritesNothing(store);
      expect(readdirSync(place)).toEqual(["a ?#%20.db"]);
      expect(readFileSync(path).equals(bytes)).toBe(true);
      await store.close();
      await expect(store.list()).rejects.toMatchObject({ data: { reason: "closed" } });
    },
  );

  proves(["V2"], `is not created if it is missing or empty (${driver})`, async () => {
    const place = newFolder();
    writeFileSync(join(place, "empty.db"), "");
    for (const name of ["none.db", "none/none.db", "empty.db/none.db", "empty.db"]) {
      const store = reading(join(place, name));
      await checkMissing(store);
      await store.close();
    }
    expect(readdirSync(place)).toEqual(["empty.db"]);
    expect(readFileSync(join(place, "empty.db")).length).toBe(0);
    const later = reading(join(place, "none.db"));
    await expect(later.list()).rejects.toThrow(
      `Expected the file ${JSON.stringify(join(place, "none.db"))} to hold a store, got no such file. Check its name. Opening it without access: "read" creates the store.`,
    );
    const writer = sqliteStore(join(place, "none.db"), { driver });
    await fill(writer);
    expect(await allOf(later)).toEqual(await allOf(writer));
    await writer.close();
  });

  proves(
    ["V2"],
    `is refused if another program wrote it, or another version (${driver})`,
    async () => {
      const place = newFolder();
      const foreign = new DatabaseSync(join(place, "foreign.db"));
      foreign.exec("create table theirs (one integer) strict");
      foreign.close();
      await expect(reading(join(place, "foreign.db")).list()).rejects.toMatchObject({
        code: "store_failed",
        data: { reason: "not_a_store" },
      });
      const writer = sqliteStore(join(place, "other.db"), { driver });
      await fill(writer);
      await writer.close();
      for (const version of [0, 3]) {
        const other = new DatabaseSync(join(place, "other.db"));
        other.exec(`pragma user_version = ${version}`);
        other.close();
        await expect(reading(join(place, "other.db")).list()).rejects.toMatchObject({
          code: "unsupported_version",
          data: { expected: 1, got: version },
        });
      }
      writeFileSync(join(place, "text.db"), "no database at all".repeat(100));
      await expect(reading(join(place, "text.db")).list()).rejects.toMatchObject({
        data: { reason: "corrupt" },
      });
      expect(readdirSync(place).toSorted()).toEqual(["foreign.db", "other.db", "text.db"]);
    },
  );

  proves(
    ["V1"],
    `is found through a link, with changes that are not in it yet (${driver})`,
    async () => {
      const place = newFolder();
      const writer = sqliteStore(join(place, "real.db"), { driver });
      await fill(writer);
      const linked = newFolder();
      symlinkSync(join(place, "real.db"), join(linked, "link.db"));
      const store = reading(join(linked, "link.db"));
      expect(await allOf(store)).toEqual(await allOf(writer));
      await writer.close();
      expect((await store.list()).length).toBe(2);
      expect([readdirSync(place), readdirSync(linked)]).toEqual([["real.db"], ["link.db"]]);
    },
  );
});

proves(
  ["V4"],
  "reads a file while another process writes it, and after that process was killed",
  async () => {
    const place = newFolder();
    const path = join(place, "written.db");
    const program = join(import.meta.dirname, "../support/store/appending-process.ts");
    const arguments_ = ["--no-warnings", program, path, run1, "token", "1000000"];
    const child = spawn(process.execPath, arguments_, { stdio: ["ignore", "pipe", "inherit"] });
    const ended = new Promise((resolve) => child.once("close", resolve));
    const store = sqliteStore(path, { access: "read" });
    let acknowledged = 0;
    let lines = 0;
    for await (const line of createInterface(child.stdout)) {
      acknowledged = Number(line);
      lines += 1;
      if (lines % 10 === 0) {
        const next = await textsOf(store.read(run1, acknowledged - BATCH_SIZE + 1, BATCH_SIZE));
        expect(next).toEqual(
          Array.from({ length: BATCH_SIZE }, (_, at) =>
            recordOf(acknowledged - BATCH_SIZE + 1 + at),
          ),
        );
      }
      if (lines === 60) child.kill("SIGKILL");
    }
    await ended;
    const before = readdirSync(place).toSorted();
    const records = await textsOf(store.read(run1));
    expect(records).toEqual(Array.from(records, (_, index) => recordOf(index + 1)));
    expect([acknowledged, acknowledged + BATCH_SIZE]).toContain(records.length);
    expect(readdirSync(place).toSorted()).toEqual(before);
  },
);

proves(["V4"], "repeats a read of a file that changed meanwhile", async () => {
  const place = newFolder();
  const path = join(place, "changing.db");
  await fillAndClose(path);
  const opened: SqliteAccess[] = [];
  const driver = new ReadOnlyFileDriver({
    path,
    clock: systemClock,
    busyTimeoutMs: 5_000,
    open: async (name, access) => {
      opened.push(access);
      const database = await getOpener("node")(name, access);
      if (opened.length > 1) return database;
      // The file is read before and after another process writes it.
      database.prepare("select count(*) from run").all();
      const writer = sqliteStore(path);
      await writer.create(RunIdSchema().parse("run_3"), "", owner);
      await writer.close();
      return database;
    },
  });
  const store = new SqlStore(driver, () => false);
  expect((await store.list()).length).toBe(3);
  expect(opened).toEqual(["still", "still"]);
  expect(readdirSync(place)).toEqual(["changing.db"]);
});

async function fillAndClose(path: string): Promise<void> {
  const writer = sqliteStore(path);
  await fill(writer);
  await writer.close();
}

test("refuses invalid values of `access` at once", () => {
  const data: unknown = expect.objectContaining({ field: "access" });
  const refused = { code: "invalid_argument", data };
  const makes = [
    (): unknown => Reflect.apply(sqliteStore, undefined, ["a.db", { access: "none" }]),
    () => sqliteStore(":memory:", { access: "read" }),
    (): unknown =>
      Reflect.apply(postgresStore, undefined, [{ connectionString: url, access: "all" }]),
  ];
  for (const make of makes) expect(make).toThrow(expect.objectContaining(refused));
});

describe.skipIf(server === undefined)("a schema, opened read-only [V1 V2]", () => {
  const reading = (schema: string): Store =>
    postgresStore({ connectionString: url, schema, access: "read" });

  test("shows the records of a writer, and rejects all writes", async () => {
    const schema = "reading_1";
    const writer = postgresStore({ connectionString: url, schema });
    const held = await fill(writer);
    const store = reading(schema);
    expect(await allOf(store)).toEqual(await allOf(writer));
    await checkWritesNothing(store);
    await writer.append(held, { firstNumber: 4, records: ["4"] });
    expect(await textsOf(store.read(run1, 4))).toEqual(["4"]);
    await admin.query(`insert into ${schema}.migration (version) values (3)`);
    const other = reading(schema);
    await expect(other.list()).rejects.toMatchObject({
      code: "unsupported_version",
      data: { expected: 1, got: 3 },
    });
    for (const one of [writer, store, other]) await one.close();
  });

  test("is not created if it or its tables are missing", async () => {
    const store = reading("reading_2");
    await checkMissing(store);
    const schemas = "select nspname from pg_namespace where nspname = 'reading_2'";
    expect((await admin.query(schemas)).rows).toEqual([]);
    await admin.query("create schema reading_2");
    await checkMissing(store);
    const tables = "select 1 from pg_tables where schemaname = 'reading_2'";
    expect((await admin.query(tables)).rows).toEqual([]);
    const writer = postgresStore({ connectionString: url, schema: "reading_2" });
    await fill(writer);
    expect(await allOf(store)).toEqual(await allOf(writer));
    for (const one of [writer, store]) await one.close();
  });

  test("needs only the permission to read", async () => {
    const schema = "reading_3";
    const writer = postgresStore({ connectionString: url, schema });
    await fill(writer);
    await admin.query("create role reading_3_role login");
    await admin.query(`grant usage on schema ${schema} to reading_3_role`);
    await admin.query(`grant select on all tables in schema ${schema} to reading_3_role`);
    const asRole = new URL(url);
    asRole.username = "reading_3_role";
    const store = postgresStore({ connectionString: asRole.href, schema, access: "read" });
    expect(await allOf(store)).toEqual(await allOf(writer));
    for (const one of [writer, store]) await one.close();
  });
});
