// Goal: whatever a disk does, the store names the fault, keeps what it had, and applies no batch in
// part (D5).
// Method: full disks by a maximum of pages, files of other programs, truncated and overwritten
// files, locks by a second connection, failing commits.

import { spawnSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

import { afterAll, describe, expect, test } from "vitest";

import { RunIdSchema, SessionIdSchema } from "../../../src/protocol/ids.ts";
import type { RunOwner } from "../../../src/store/run-store.ts";
import { prepareFile } from "../../../src/store/sqlite/sqlite-schema.ts";
import { getOpener, type SqliteDatabase } from "../../../src/store/sqlite/sqlite-driver.ts";
import { sqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { proves } from "../../harness/proves.ts";
import { DRIVERS } from "../../support/store/drivers.ts";
import { fileStore, until } from "../../support/store/file-under-test.ts";
import { textsOf } from "../../support/store/texts-of.ts";

const folder = mkdtempSync(join(tmpdir(), "store-"));
afterAll(() => rmSync(folder, { recursive: true }));

let fileCount = 0;

function newPath(): string {
  fileCount += 1;
  return join(folder, `${fileCount}.db`);
}

const runId = RunIdSchema().parse("run_1");
const runId2 = RunIdSchema().parse("run_2");
const SESSION = SessionIdSchema().parse("session_1");
const runId3 = RunIdSchema().parse("run_3");

function ownerOf(token: string): RunOwner {
  return { token, hostname: "here", processId: process.pid };
}

function failure(reason: string, isTransient = false): object {
  return { code: "store_failed", data: { reason, isTransient } };
}

/** Returns the path of a closed file, in which a run has this number of records. */
async function filledPath(recordCount: number): Promise<string> {
  const path = newPath();
  const store = sqliteStore(path);
  const held = await store.create(runId, "", ownerOf("a"));
  const records = Array.from({ length: recordCount }, (_, index) => `"${index}${"x".repeat(200)}"`);
  await store.append(held, { firstNumber: 1, records });
  await store.close();
  return path;
}

/** Limits the disk to 40 pages. */
function bound(database: SqliteDatabase): void {
  database.exec("pragma max_page_count = 40");
}

describe.each(DRIVERS)("a full disk, with driver %s", (driver) => {
  test("refuses a batch without room completely, and accepts it again once there is room", async () => {
    let database: SqliteDatabase | undefined;
    const store = fileStore(newPath(), {
      driver,
      opened: (found) => {
        database = found;
        bound(found);
      },
    });
    const held = await store.create(runId, "", ownerOf("a"));
    await store.append(held, { firstNumber: 1, records: ["1"] });
    const large = JSON.stringify("x".repeat(150_000));
    const batch = { firstNumber: 2, records: ["2", large, "4"] };
    for (let round = 1; round <= 3; round += 1)
      await expect(store.append(held, batch)).rejects.toMatchObject(failure("full"));
    expect(await textsOf(store.read(runId))).toEqual(["1"]);
    await store.heartbeat(held);
    database?.exec("pragma max_page_count = 4000");
    await store.append(held, batch);
    expect(await textsOf(store.read(runId))).toEqual(["1", "2", large, "4"]);
    await store.close();
  });

  test("refuses only the batch without room of a group, and applies the others", async () => {
    const store = fileStore(newPath(), { driver, opened: bound });
    const ids = [runId, runId2, runId3];
    const held = await Promise.all(ids.map((id) => store.create(id, "", ownerOf(id))));
    const large = JSON.stringify("x".repeat(150_000));
    const outcomes = await Promise.allSettled(
      held.map((one, index) =>
        store.append(one, { firstNumber: 1, records: index === 1 ? ["1", large] : ["1", "2"] }),
      ),
    );
    expect(outcomes).toMatchObject([
      { status: "fulfilled" },
      { status: "rejected", reason: failure("full") },
      { status: "fulfilled" },
    ]);
    const journals = await Promise.all(ids.map((id) => textsOf(store.read(id))));
    expect(journals).toEqual([["1", "2"], [], ["1", "2"]]);
    await store.close();
  });
});

/** Returns a store that waits for 100 ms by a clock that does not advance by itself. */
async function patientStore() {
  const path = newPath();
  const clock = new ManualClock(1_000);
  const store = fileStore(path, { clock, busyTimeoutMs: 100 });
  const held = await store.create(runId, "", ownerOf("a"));
  return { path, clock, store, held };
}

describe("a file that another connection has locked", () => {
  test("is awaited without blocking, and written once it is free", async () => {
    const { path, clock, store, held } = await patientStore();
    const rival = new DatabaseSync(path);
    rival.exec("begin immediate");
    const appends = [
      store.append(held, { firstNumber: 1, records: ["1"] }),
      store.append(held, { firstNumber: 2, records: ["2"] }),
    ];
    await until(() => clock.pendingTimers === 1);
    appends.push(store.append(held, { firstNumber: 3, records: ["3"] }));
    // Reads are served meanwhile.
    expect(await textsOf(store.read(runId))).toEqual([]);
    clock.advance(10);
    await until(() => clock.pendingTimers === 1);
    rival.exec("commit");
    rival.close();
    clock.advance(10);
    await Promise.all(appends);
    expect(await textsOf(store.read(runId))).toEqual(["1", "2", "3"]);
    await store.close();
  });

  test("fails writes as busy after the timeout, and accepts them later", async () => {
    const { path, clock, store, held } = await patientStore();
    const rival = new DatabaseSync(path);
    rival.exec("begin immediate");
    const batch = { firstNumber: 1, records: ["1"] };
    const writes = Promise.allSettled([
      store.append(held, batch),
      store.writeSession(SESSION, 0, "1"),
    ]);
    for (let round = 1; round <= 10; round += 1) {
      await until(() => clock.pendingTimers === 1);
      clock.advance(10);
    }
    expect(await writes).toMatchObject([
      { status: "rejected", reason: failure("busy", true) },
      { status: "rejected", reason: failure("busy", true) },
    ]);
    rival.exec("rollback");
    rival.close();
    await store.append(held, batch);
    expect(await textsOf(store.read(runId))).toEqual(["1"]);
    await store.close();
  });
});

/** Returns an error as the driver throws it. */
function ioError(): Error {
  return Object.assign(new Error("disk I/O error"), { errcode: 1034 });
}

describe("failing commits", () => {
  test("allow a retry of a batch whose commit succeeded without an acknowledgement", async () => {
    let isLost = false;
    const store = fileStore(newPath(), {
      exec: (sql, run) => {
        run();
        if (sql === "commit" && isLost) throw ioError();
      },
    });
    const held = await store.create(runId, "", ownerOf("a"));
    const batch = { firstNumber: 1, records: ["1", "2"] };
    isLost = true;
    await expect(store.append(held, batch)).rejects.toMatchObject(failure("input_output"));
    isLost = false;
    await store.append(held, batch);
    expect(await textsOf(store.read(runId))).toEqual(["1", "2"]);
    await store.close();
  });

  test("repeat the writes of a group one at a time", async () => {
    let commits = 0;
    const failing = new Set([2]);
    const store = fileStore(newPath(), {
      exec: (sql, run) => {
        if (sql === "commit") commits += 1;
        // The third of the single writes fails again.
        if (sql === "commit" && (failing.has(commits) || commits === 5)) throw ioError();
        run();
      },
    });
    await store.list(); // The first commit is that of the schema.
    const outcomes = await Promise.allSettled(
      [runId, runId2, runId3].map((id) => store.create(id, "", ownerOf(id))),
    );
    expect(outcomes).toMatchObject([
      { status: "fulfilled", value: { runId } },
      { status: "fulfilled", value: { runId: runId2 } },
      { status: "rejected", reason: failure("input_output") },
    ]);
    expect((await store.list()).map((run) => run.runId)).toEqual([runId2, runId]);
    expect(commits).toBe(5);
    await store.close();
  });

  test.each(["abort", "rollback"])(
    "do not harm other writes of the group if one fails with %s",
    async (how) => {
      let database: SqliteDatabase | undefined;
      const store = fileStore(newPath(), { opened: (found) => (database = found) });
      const ids = [runId, runId2, runId3];
      const held = await Promise.all(ids.map((id) => store.create(id, "", ownerOf(id))));
      // After `abort` the transaction continues, after `rollback` it has ended.
      database?.exec(
        `create trigger refuse before insert on journal when new.record = '"bad"'
         begin select raise(${how}, 'refused'); end`,
      );
      const outcomes = await Promise.allSettled(
        held.map((one, index) =>
          store.append(one, { firstNumber: 1, records: ["1", index === 1 ? '"bad"' : "2"] }),
        ),
      );
      expect(outcomes).toMatchObject([
        { status: "fulfilled" },
        { status: "rejected", reason: failure("other") },
        { status: "fulfilled" },
      ]);
      const journals = await Promise.all(ids.map((id) => textsOf(store.read(id))));
      expect(journals).toEqual([["1", "2"], [], ["1", "2"]]);
      await store.close();
    },
  );

  test("report an unknown error of the driver as `other`", async () => {
    let isBroken = false;
    const store = fileStore(newPath(), {
      exec: (sql, run) => {
        if (isBroken && sql === "begin immediate") throw new Error("out of order");
        run();
      },
    });
    await store.list();
    isBroken = true;
    const creation = store.create(runId, "", ownerOf("a"));
    await expect(creation).rejects.toMatchObject(failure("other"));
    isBroken = false;
    await store.create(runId, "", ownerOf("a"));
    await store.close();
  });
});

describe("a file", () => {
  test("with a log that is truncated anywhere contains only complete batches, in order", async () => {
    const path = newPath();
    const store = sqliteStore(path);
    const held = await store.create(runId, "", ownerOf("a"));
    const batches = Array.from({ length: 12 }, (_, batch) =>
      [0, 1, 2].map((index) => JSON.stringify(`${batch}.${index} ${"x".repeat(batch * 300)}`)),
    );
    for (const [index, records] of batches.entries())
      await store.append(held, { firstNumber: index * 3 + 1, records });
    const { size } = statSync(`${path}-wal`);
    const counts = new Set<number>();
    for (let cut = 0; cut <= 60; cut += 1) {
      const copy = newPath();
      copyFileSync(path, copy);
      copyFileSync(`${path}-wal`, `${copy}-wal`);
      truncateSync(`${copy}-wal`, Math.floor((size * cut) / 60));
      const found = sqliteStore(copy);
      const { recordCount } = (await found.find(runId)) ?? { recordCount: undefined };
      if (recordCount !== undefined) {
        expect(recordCount % 3).toBe(0);
        expect(await textsOf(found.read(runId))).toEqual(batches.flat().slice(0, recordCount));
        counts.add(recordCount);
      }
      await found.close();
    }
    expect(counts.size).toBeGreaterThan(6);
    expect(Math.max(...counts)).toBe(36);
    await store.close();
  });

  test.each(DRIVERS)("is reported as corrupt if it is damaged: %s", async (driver) => {
    const overwritten = newPath();
    writeFileSync(overwritten, "This is no database. ".repeat(1_000));
    const cut = await filledPath(2_000);
    truncateSync(cut, statSync(cut).size / 2);
    const wiped = await filledPath(2_000);
    const bytes = readFileSync(wiped);
    writeFileSync(wiped, bytes.fill(0xa5, 4_096));
    for (const path of [overwritten, cut, wiped]) {
      const store = sqliteStore(path, { driver });
      await expect(textsOf(store.read(runId))).rejects.toMatchObject(failure("corrupt"));
      await store.close();
    }
    expect(readFileSync(overwritten, "utf8")).toBe("This is no database. ".repeat(1_000));
  });

  test("with a gap in a journal rejects reads of that journal as corrupt", async () => {
    const path = await filledPath(10);
    for (const missing of ["number = 4", "number > 3"]) {
      const database = new DatabaseSync(path);
      database.exec(`delete from journal where ${missing}`);
      database.close();
      const store = sqliteStore(path);
      await expect(textsOf(store.read(runId))).rejects.toMatchObject(failure("corrupt"));
      await store.close();
    }
  });

  test("contains nothing of a removed run", async () => {
    const path = await filledPath(10);
    const store = sqliteStore(path);
    expect(await store.remove(runId, 0)).toBe(true);
    await store.close();
    const database = new DatabaseSync(path);
    const rows = database
      .prepare("select run_id from run union all select record from journal")
      .all();
    database.close();
    expect(rows).toEqual([]);
  });

  test("is used as it is if another process has created it meanwhile", async () => {
    const path = newPath();
    const rival = await getOpener("node")(path, "write");
    let rivals = 0;
    const store = fileStore(path, {
      exec: (sql, run) => {
        if (sql === "begin immediate" && rivals === 0) {
          rivals += 1;
          prepareFile(rival, path);
          rival.exec(`insert into session values ('session_1', 5, '"theirs"', 1, 0)`);
          rival.close();
        }
        run();
      },
    });
    expect(await store.readSession(SESSION)).toEqual({ version: 5, body: '"theirs"' });
    expect(rivals).toBe(1);
    await store.close();
  });

  proves(["D645"], "is refused and not changed if its version is another", async () => {
    for (const version of [0, 2, 3]) {
      const path = await filledPath(1);
      const database = new DatabaseSync(path);
      database.exec(`pragma user_version = ${version}; create table more (a)`);
      database.close();
      const before = readFileSync(path);
      const store = sqliteStore(path);
      const refusal = {
        code: "unsupported_version",
        data: { expected: 1, got: version },
        message: `Expected the store ${JSON.stringify(path)} to have version 1, got ${version}. Use the version of espalier that wrote it, or another location.`,
      };
      await expect(store.list()).rejects.toMatchObject(refusal);
      await expect(store.create(runId2, "", ownerOf("a"))).rejects.toMatchObject(refusal);
      await store.close();
      expect(readFileSync(path).equals(before)).toBe(true);
    }
  });

  test("is refused and not changed if another program wrote it", async () => {
    for (const sql of [
      "create table theirs (a)",
      "pragma user_version = 1",
      "pragma application_id = 7",
    ]) {
      const path = newPath();
      const database = new DatabaseSync(path);
      database.exec(`${sql}; pragma journal_mode = delete`);
      database.close();
      const before = readFileSync(path);
      const store = sqliteStore(path);
      await expect(store.list()).rejects.toMatchObject(failure("not_a_store"));
      await store.close();
      expect(readFileSync(path).equals(before)).toBe(true);
    }
  });

  test("cannot be opened in a missing folder, and works with the same store once the folder exists", async () => {
    const inner = join(folder, "inner");
    const store = sqliteStore(join(inner, "runs.db"));
    await expect(store.list()).rejects.toMatchObject(failure("cannot_open"));
    await expect(store.create(runId, "", ownerOf("a"))).rejects.toMatchObject(
      failure("cannot_open"),
    );
    mkdirSync(inner);
    expect(await store.list()).toEqual([]);
    await store.close();
    expect(existsSync(join(inner, "runs.db-wal"))).toBe(false);
  });

  const program = join(import.meta.dirname, "../../support/store/appending-process.ts");
  // Root may write to any file: as root, the process runs as nobody.
  const user = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};
  const mayRead = spawnSync("test", ["-r", program], user).status === 0;

  test.skipIf(!mayRead)("is reported as read_only if the process may not write to it", async () => {
    const outer = join(folder, "read-only");
    mkdirSync(outer);
    chmodSync(folder, 0o755);
    const path = join(outer, "runs.db");
    copyFileSync(await filledPath(1), path);
    if (user.uid !== undefined) chownSync(outer, user.uid, user.gid);
    chmodSync(path, 0o444);
    const options = ["--no-warnings", program, path, "run_9", "token", "1"];
    const { stdout } = spawnSync(process.execPath, options, { ...user, encoding: "utf8" });
    expect(stdout).toBe("store_failed read_only\n");
  });
});

test("reports read_only if the driver only allows reads", async () => {
  let database: SqliteDatabase | undefined;
  const store = fileStore(newPath(), { opened: (found) => (database = found) });
  await store.list();
  database?.exec("pragma query_only = on");
  await expect(store.create(runId, "", ownerOf("a"))).rejects.toMatchObject(failure("read_only"));
  expect(await store.list()).toEqual([]);
  await store.close();
});
