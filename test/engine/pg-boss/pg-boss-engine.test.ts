// Goal: the pg-boss engine executes runs as every engine has to; unusable configurations are
// refused with helpful messages.
// Method: a real PostgreSQL server of our own; a fake executor; users and schemas that cannot be
// used; a pg-boss instance of the user's.

import { PgBoss } from "pg-boss";
import { afterAll, describe, expect, test } from "vitest";

import {
  pgBossEngine,
  type PgBossEngineOptions,
} from "../../../src/engine/pg-boss/pg-boss-engine.ts";
import { proves } from "../../harness/proves.ts";
import { engineTrials } from "../../support/engine-trials.ts";
import { FakeExecutor } from "../../support/fake-executor.ts";
import { opened, served, ticketOf } from "../../support/opened-engine.ts";
import { PgBossPlace } from "../../support/pg-boss-place.ts";
import { outputWithout } from "../../support/without-package.ts";

const place = await PgBossPlace.find();
afterAll(() => place?.close());

function there(): PgBossPlace {
  return place ?? expect.fail("no server");
}

describe.skipIf(place === undefined)("the pg-boss engine in the trials of every engine", () => {
  for (const { name, run } of engineTrials())
    // Each trial proves one requirement, and names it.
    proves(["E40", "E41", "E42", "E43", "E44", "E45", "E46", "E47"], name, async () => {
      const schema = there().newSchema();
      await run(() => there().engine(schema));
    });
});

describe.skipIf(place === undefined)("a pg-boss instance of the user's", () => {
  proves(["E53"], "is used beside its other queues, and not stopped", async () => {
    const options = { connectionString: there().url, schema: there().newSchema() };
    const boss = new PgBoss({ ...options, superviseIntervalSeconds: 2, monitorIntervalSeconds: 2 });
    const engine = pgBossEngine({ boss });
    await expect(engine.enqueue(ticketOf("run_1"))).rejects.toMatchObject({
      code: "engine_failed",
    });
    await boss.start();
    await boss.createQueue("mine");
    await boss.send("mine", { own: true });
    const executor = new FakeExecutor();
    await served(engine, executor);
    await engine.enqueue(ticketOf("run_1"));
    (await executor.next()).end();
    executor.giveUp();
    await engine.close?.();
    expect(boss.listenerCount("error")).toBe(0);
    expect((await boss.fetch("mine")).map(({ data }) => data)).toEqual([{ own: true }]);
    expect(executor.begun).toEqual(["run_1"]);
    await boss.stop();
  });
});

describe.skipIf(place === undefined)("an unusable database", () => {
  /** Returns the errors that leading and serving are refused with. */
  async function refusals(options: PgBossEngineOptions): Promise<unknown> {
    const engine = opened(() => pgBossEngine(options));
    const asked = [engine.enqueue(ticketOf("run_1")), engine.serve(new FakeExecutor())];
    return await Promise.all(asked.map((one) => one.then(() => "done", String)));
  }

  /** Matches if both errors contain all of these words. */
  function refusedWith(...words: readonly string[]): unknown {
    const isSaid = (text: unknown): boolean => words.every((word) => String(text).includes(word));
    return [expect.toSatisfy(isSaid), expect.toSatisfy(isSaid)];
  }

  proves(
    ["E52"],
    "refuses a database that does not exist, one that is unreachable, and one without the rights",
    async () => {
      const elsewhere = there().url.replace(/postgres$/, "nothing");
      expect(await refusals({ connectionString: elsewhere })).toEqual(
        refusedWith("does not exist", "Check the name, the password and the rights"),
      );
      expect(await refusals({ connectionString: "postgres://127.0.0.1:1/nothing" })).toEqual(
        refusedWith("ECONNREFUSED", "Check that the server is running"),
      );
      const user = `guest_${process.pid}`;
      await there().admin.query(`create role ${user} login password 'x'`);
      const connectionString = there().url.replace("postgres@", `${user}:x@`);
      expect(await refusals({ connectionString })).toEqual(
        refusedWith("permission denied", "Check the name, the password and the rights"),
      );
      await there().admin.query(`drop role ${user}`);
    },
  );

  proves(["E52"], "refuses a read-only database", async () => {
    const connectionString = `${there().url}?options=-c%20default_transaction_read_only%3Don`;
    expect(await refusals({ connectionString })).toEqual(
      refusedWith("read-only transaction", "The server or the user is read-only"),
    );
  });

  proves(
    ["E52"],
    "shares the tables of a pg-boss instance that names its schema without quotes",
    async () => {
      const schema = there().newSchema();
      const bare = new PgBoss({ connectionString: there().url, schema });
      bare.on("error", () => undefined);
      await bare.start();
      await bare.createQueue("theirs");
      await bare.stop();
      const engine = opened(() => there().engine(schema));
      await engine.serve(new FakeExecutor({ maxRuns: 0 }));
      await engine.enqueue(ticketOf("run_1"));
      const { rows } = await there().admin.query(
        `select count(*)::int as queues from ${schema}.queue where name = 'theirs'`,
      );
      expect(rows).toEqual([{ queues: 1 }]);
      expect(await there().jobs(schema)).toMatchObject([{ run_id: "run_1" }]);
    },
  );

  proves(["E52"], "accepts a schema named like a reserved word of SQL", async () => {
    const executor = new FakeExecutor();
    const engine = opened(() => there().engine("user"));
    await served(engine, executor);
    await engine.enqueue(ticketOf("run_1"));
    (await executor.next()).end();
    await expect.poll(() => there().jobs('"user"')).toEqual([]);
    await engine.close?.();
    await there().admin.query(`drop schema "user" cascade`);
  });

  proves(["E52"], "refuses a schema that this release of pg-boss does not support", async () => {
    const schema = there().newSchema();
    const engine = there().engine(schema);
    await engine.serve(new FakeExecutor());
    await engine.close?.();
    await there().admin.query(`update ${schema}.version set version = 999`);
    await there().admin.query(`alter table ${schema}.queue rename column policy to rule`);
    expect(await refusals({ connectionString: there().url, schema })).toEqual(
      refusedWith("policy", "This release of pg-boss does not support the schema"),
    );
  });

  proves(["E52"], "tries again to set up its tables at the next call after a failure", async () => {
    const schema = there().newSchema();
    const user = `late_${process.pid}`;
    await there().admin.query(`create role ${user} login password 'x'`);
    const connectionString = there().url.replace("postgres@", `${user}:x@`);
    const engine = opened(() => pgBossEngine({ connectionString, schema, pollIntervalMs: 100 }));
    await expect(engine.serve(new FakeExecutor())).rejects.toMatchObject({
      code: "engine_failed",
      cause: { code: "42501" },
    });
    await there().admin.query(`create schema ${schema} authorization ${user}`);
    await there().admin.query(`grant create on database postgres to ${user}`);
    const executor = new FakeExecutor();
    await served(engine, executor);
    await engine.enqueue(ticketOf("run_1"));
    (await executor.next()).end();
    expect(executor.begun).toEqual(["run_1"]);
  });
});

test("refuses unusable options", () => {
  const connectionString = "postgres://localhost/nothing";
  const boss = new PgBoss(connectionString);
  const refused: readonly (readonly [string, PgBossEngineOptions])[] = [
    ["connectionString", {}],
    ["connectionString", { connectionString: "" }],
    ["connectionString", { connectionString, boss }],
    ["schema", { boss, schema: "jobs" }],
    ["schema", { connectionString, schema: "a".repeat(51) }],
    ["schema", { connectionString, schema: 'a"; drop table run; --' }],
    ["lostAfterMs", { connectionString, lostAfterMs: 9_000 }],
    ["lostAfterMs", { connectionString, lostAfterMs: 10_500 }],
    ["lostAfterMs", { connectionString, lostAfterMs: Infinity }],
    ["pollIntervalMs", { connectionString, pollIntervalMs: 0 }],
    ["pollIntervalMs", { connectionString, pollIntervalMs: Number.NaN }],
  ];
  for (const [field, options] of refused) {
    const data: unknown = expect.objectContaining({ field });
    expect(() => pgBossEngine(options), field).toThrow(
      expect.objectContaining({ code: "invalid_argument", data }),
    );
  }
  expect(boss.listenerCount("error")).toBe(0);
});

test("connects only when it is used, and refuses an invalid time and use after closing", async () => {
  const engine = pgBossEngine({ connectionString: "postgres://127.0.0.1:1/nothing" });
  await expect(engine.enqueue(ticketOf("run_1"), Number.NaN)).rejects.toMatchObject({
    code: "invalid_argument",
    data: { field: "atMs" },
  });
  await engine.close?.();
  await expect(engine.enqueue(ticketOf("run_1"))).rejects.toMatchObject({
    code: "engine_failed",
    message: "Cannot use the engine: it was closed. Close it after everything that uses it.",
  });
});

proves(["E52"], "names the missing package pg-boss and how to install it", () => {
  const output = outputWithout(
    "pg-boss",
    `import { pgBossEngine } from "./src/engine/pg-boss/pg-boss-engine.ts";
     const engine = pgBossEngine({ connectionString: "postgres://127.0.0.1:1/nothing" });
     await engine.enqueue({ runId: "run_1", role: "lead", version: "v1" }).catch(({ code, message, data }) => console.log(JSON.stringify({ code, message, data })));`,
  );
  expect(JSON.parse(output)).toEqual({
    code: "missing_package",
    message:
      "The package pg-boss is not installed: without it, this engine cannot run anything. Run: npm install pg-boss.",
    data: { package: "pg-boss" },
  });
});
