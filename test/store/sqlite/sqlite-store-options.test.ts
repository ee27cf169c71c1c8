// Goal: options of the store in a file have their documented effect, and invalid ones are refused;
// writes of one turn are committed together.
// Method: the real drivers, inspected; processes in which a driver cannot be loaded.

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, expect, test } from "vitest";

import { RunIdSchema, SessionIdSchema, type RunId } from "../../../src/protocol/ids.ts";
import type { SqliteDatabase } from "../../../src/store/sqlite/sqlite-driver.ts";
import { sqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { DRIVERS } from "../../support/store/drivers.ts";
import { fileStore } from "../../support/store/file-under-test.ts";
import { textsOf } from "../../support/store/texts-of.ts";

const folder = mkdtempSync(join(tmpdir(), "store-"));
afterAll(() => rmSync(folder, { recursive: true }));

const runId = RunIdSchema().parse("run_1");
const sessionId = SessionIdSchema().parse("session_1");
const owner = { token: "a", hostname: "here", processId: 7 };

function idOf(index: number): RunId {
  return RunIdSchema().parse(`run_${index}`);
}

test("commits writes of one turn together in their order, and settles each by itself", async () => {
  const statements: string[] = [];
  const store = fileStore(join(folder, "grouped.db"), {
    exec: (sql, run) => {
      run();
      statements.push(sql);
    },
  });
  const held = await Promise.all(
    Array.from({ length: 20 }, (_, index) => store.create(idOf(index), "", owner)),
  );
  statements.length = 0;
  const fenced = { runId: idOf(3), token: "b", epoch: 1 };
  const writes = await Promise.allSettled([
    ...held.map((one) => store.append(one, { firstNumber: 1, records: ["1"] })),
    store.append(fenced, { firstNumber: 2, records: ["2"] }),
    ...held.map((one) => store.append(one, { firstNumber: 2, records: ["2"] })),
    ...held.map((one) => store.release(one, "ended")),
    store.writeSession(sessionId, 0, "1"),
  ]);
  const refused = writes.flatMap(({ status }, index) => (status === "rejected" ? [index] : []));
  expect(refused).toEqual([20]);
  expect(writes[20]).toMatchObject({ reason: { code: "run_fenced" } });
  const count = (sql: string): number => statements.filter((one) => one === sql).length;
  expect([count("begin immediate"), count("commit")]).toEqual([1, 1]);
  for (const { runId } of held) expect(await textsOf(store.read(runId))).toEqual(["1", "2"]);
  expect((await store.list({ status: "ended" })).length).toBe(20);
  await store.close();
});

test("completes earlier writes before it closes", async () => {
  const path = join(folder, "closed.db");
  const store = sqliteStore(path);
  const writes = [store.create(runId, "", owner), store.writeSession(sessionId, 0, "1")];
  await store.close();
  expect(await Promise.all(writes)).toEqual([{ runId, token: "a", epoch: 1 }, 1]);
  const again = sqliteStore(path);
  expect(await again.readSession(sessionId)).toEqual({ version: 1, body: "1" });
  await again.close();
});

test.each(DRIVERS)(
  "sets the journal mode and the synchronous mode of each durability: %s",
  async (driver) => {
    for (const [durability, synchronous] of [
      ["full", 2],
      ["process", 1],
    ] as const) {
      const databases: SqliteDatabase[] = [];
      const store = fileStore(join(folder, `${driver}-${durability}.db`), {
        driver,
        durability,
        opened: (database) => databases.push(database),
      });
      await store.list();
      const [database] = databases;
      expect({ ...Object(database?.prepare("pragma synchronous").all()[0]) }).toEqual({
        synchronous,
      });
      const mode: unknown = database?.prepare("pragma journal_mode").all()[0];
      expect({ ...Object(mode) }).toEqual({ journal_mode: "wal" });
      expect(databases.length).toBe(1);
      await store.close();
    }
  },
);

test("checks whether the process of an owner is gone only on its own machine", async () => {
  const asked: number[] = [];
  const clock = new ManualClock(5_000);
  const store = sqliteStore(":memory:", {
    clock,
    isProcessGone: (processId) => {
      asked.push(processId);
      return processId === 7;
    },
  });
  await store.create(runId, "", owner);
  const claimant = { token: "b", hostname: "there", processId: 8 };
  const claim = { owner: claimant, staleAfterMs: 100 };
  await expect(store.claim(runId, claim)).rejects.toMatchObject({ code: "run_active" });
  expect(asked).toEqual([]);
  const near = { ...claim, owner: { ...claimant, hostname: "here" } };
  expect((await store.claim(runId, near)).epoch).toBe(2);
  const next = { ...near, owner: { ...near.owner, token: "c" } };
  await expect(store.claim(runId, next)).rejects.toMatchObject({
    data: { hostname: "here", processId: 8, silentMs: 0 },
  });
  clock.advance(100);
  expect((await store.claim(runId, next)).epoch).toBe(3);
  expect(asked).toEqual([7, 8]);
  const local = { token: "d", hostname: hostname(), processId: 7 };
  await store.claim(runId, { owner: local, staleAfterMs: 100, takeOver: true });
  expect(await store.remove(runId, 100)).toBe(true);
  await store.close();
});

test("does not change the age of an owner if the clock is set back", async () => {
  let nowMs = 10_000;
  const clock = { nowMs: () => nowMs, monotonicMs: () => 0, setTimer: () => () => undefined };
  const store = sqliteStore(":memory:", { clock });
  await store.create(runId, "", owner);
  nowMs = 1_000.5;
  const claim = { owner: { ...owner, token: "b" }, staleAfterMs: 1, takeOver: false };
  await expect(
    store.claim(runId, { ...claim, owner: { ...claim.owner, hostname: "there" } }),
  ).rejects.toMatchObject({ code: "run_active" });
  expect((await store.claim(runId, { ...claim, staleAfterMs: 0 })).epoch).toBe(2);
  expect((await store.find(runId))?.heartbeatAtMs).toBe(1_000);
  await store.close();
});

test("refuses invalid options at once, and names the field", () => {
  const refused: readonly (readonly [string, string, object])[] = [
    ["path", "", {}],
    ["path", "a\0b", {}],
    ["busyTimeoutMs", ":memory:", { busyTimeoutMs: -1 }],
    ["busyTimeoutMs", ":memory:", { busyTimeoutMs: Number.NaN }],
    ["driver", ":memory:", { driver: "sqlite3" }],
    ["durability", ":memory:", { durability: "none" }],
    ["options.durable", ":memory:", { durable: true }],
  ];
  for (const [field, path, options] of refused) {
    const data: unknown = expect.objectContaining({ field });
    // As a program without types may do.
    const make = (): unknown => Reflect.apply(sqliteStore, undefined, [path, options]);
    expect(make, field).toThrow(expect.objectContaining({ code: "invalid_argument", data }));
  }
});

/** Returns the output of a program in which a module cannot be found. */
function outcomeWithout(module: string, code: string, work: string): string {
  const hook = `
    import { registerHooks } from "node:module";
    registerHooks({
      resolve(specifier, context, next) {
        if (specifier !== ${JSON.stringify(module)}) return next(specifier, context);
        throw Object.assign(new Error("Cannot find package '" + specifier + "'"), { code: ${JSON.stringify(code)} });
      },
    });`;
  const program = `
    const { sqliteStore } = await import(${JSON.stringify(join(import.meta.dirname, "../../../src/store/sqlite/sqlite-store.ts"))});
    const { postgresStore } = await import(${JSON.stringify(join(import.meta.dirname, "../../../src/store/postgres/postgres-store.ts"))});
    const store = ${work};
    await store.list().catch(({ code, message }) => console.log(code + ": " + message));
    await store.close();`;
  const hooks = `data:text/javascript,${encodeURIComponent(hook)}`;
  const options = ["--no-warnings", "--import", hooks, "--input-type=module", "--eval", program];
  const { stdout, stderr } = spawnSync(process.execPath, options, { encoding: "utf8" });
  expect(stderr).toBe("");
  return stdout;
}

test("reports a package that is not installed, with the command to install it", () => {
  const missing = "ERR_MODULE_NOT_FOUND";
  expect(
    outcomeWithout(
      "better-sqlite3",
      missing,
      'sqliteStore(":memory:", { driver: "better-sqlite3" })',
    ),
  ).toBe(
    'missing_package: Cannot open the store: the driver "better-sqlite3" is not installed. Run: npm install better-sqlite3.\n',
  );
  expect(
    outcomeWithout("node:sqlite", "ERR_UNKNOWN_BUILTIN_MODULE", 'sqliteStore(":memory:")'),
  ).toBe(
    'missing_package: Cannot open the store: the driver "node" is not installed. Use Node 24, or choose driver: "better-sqlite3" and run: npm install better-sqlite3.\n',
  );
  expect(
    outcomeWithout("pg", missing, 'postgresStore({ connectionString: "postgres://localhost" })'),
  ).toBe(
    "missing_package: The package pg is not installed: without it, PostgreSQL cannot be reached. Run: npm install pg.\n",
  );
});
