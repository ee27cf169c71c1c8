// Goal: no run is lost and none is executed twice at a time when a worker dies or is frozen, or the
// database goes away.
// Method: a real PostgreSQL server, stopped, crashed and started; a worker in its own process,
// frozen and killed; times in the table moved back.

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

import { PgBoss } from "pg-boss";
import { afterAll, describe, expect, test } from "vitest";

import { afterwards } from "../../harness/afterwards.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { proves } from "../../harness/proves.ts";
import { FakeExecutor } from "../../support/fake-executor.ts";
import { opened, served, ticketOf } from "../../support/opened-engine.ts";
import { PgBossPlace } from "../../support/pg-boss-place.ts";

const place = await PgBossPlace.find();
afterAll(() => place?.close());

function there(): PgBossPlace {
  return place ?? expect.fail("no server");
}

/** A worker in another process, and the lines that it prints. */
class ServingProcess {
  readonly child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  constructor(schema: string) {
    const file = new URL("../../support/engine/serving-process.ts", import.meta.url).pathname;
    this.child = spawn(
      process.execPath,
      ["--conditions=@espalier/source", file, there().url, schema],
      {
        stdio: ["ignore", "pipe", "inherit"],
      },
    );
    const { stdout } = this.child;
    if (stdout === null) expect.fail("no output");
    this.#lines = createInterface({ input: stdout })[Symbol.asyncIterator]();
    afterwards(async () => {
      if (this.child.exitCode !== null || this.child.signalCode !== null) return;
      this.child.kill("SIGKILL");
      await once(this.child, "exit");
    });
  }

  async says(line: string): Promise<void> {
    expect(await this.#lines.next()).toEqual({ done: false, value: line });
  }
}

/** The worker of another process executes run_1; another one of this process serves. */
async function ledElsewhere() {
  const schema = there().newSchema();
  const process = new ServingProcess(schema);
  await process.says("serves");
  const client = opened(() => there().engine(schema));
  await client.enqueue(ticketOf("run_1"));
  await process.says("leads");
  const executor = new FakeExecutor();
  await served(
    opened(() => there().engine(schema)),
    executor,
  );
  return { schema, process, client, executor };
}

describe.skipIf(place === undefined)("a worker that is lost", () => {
  proves(["E48"], "loses its runs to another worker when it is killed", async () => {
    const { process, executor } = await ledElsewhere();
    process.child.kill("SIGKILL");
    const run = await executor.next();
    expect(run.runId).toBe("run_1");
    run.end();
  });

  proves(
    ["E48", "E49"],
    "loses its runs to another worker when it is frozen, and reports nothing about them when it wakes",
    async () => {
      const { schema, process, executor } = await ledElsewhere();
      process.child.kill("SIGSTOP");
      const run = await executor.next();
      process.child.kill("SIGCONT");
      await process.says("left");
      // If its report counted, the job would be queued again, beside the one in progress.
      const led = { run_id: "run_1", state: "active", retry_count: 1 };
      expect(await there().jobs(schema)).toEqual([led]);
      run.end();
      expect(executor.begun).toEqual(["run_1"]);
    },
  );

  proves(
    ["E49"],
    "releases a run whose job another worker was given, and its late report is ignored",
    async () => {
      const schema = there().newSchema();
      const [lost, other] = [new FakeExecutor(), new FakeExecutor()];
      const client = opened(() => there().engine(schema));
      await served(
        opened(() => there().engine(schema)),
        lost,
      );
      await client.enqueue(ticketOf("run_1"));
      const first = await lost.next();
      await served(
        opened(() => there().engine(schema)),
        other,
      );
      lost.maxRuns = 1; // So that the other worker gets the run.
      await there().admin.query(
        `update ${schema}.job set heartbeat_on = now() - interval '1 minute'`,
      );
      const second = await other.next();
      await first.left;
      first.end();
      await client.enqueue(ticketOf("run_2"));
      (await FakeExecutor.nextOf(lost, other)).end();
      await expect
        .poll(() => there().jobs(schema))
        .toEqual([{ run_id: "run_1", state: "active", retry_count: 1 }]);
      second.end();
    },
  );

  proves(
    ["E49"],
    "executes a run that it is given again only after it has released it",
    async () => {
      const schema = there().newSchema();
      const executor = new FakeExecutor();
      const client = opened(() => there().engine(schema));
      await served(
        opened(() => there().engine(schema)),
        executor,
      );
      await client.enqueue(ticketOf("run_1"));
      const first = await executor.next();
      await there().admin.query(
        `update ${schema}.job set heartbeat_on = now() - interval '1 minute'`,
      );
      await expect
        .poll(() => there().jobs(schema))
        .toEqual([{ run_id: "run_1", state: "active", retry_count: 1 }]);
      await client.enqueue(ticketOf("run_2"));
      (await executor.next()).end();
      expect(executor.begun).toEqual(["run_1", "run_2"]);
      first.fail("run_released");
      (await executor.next()).end();
      expect(executor.begun).toEqual(["run_1", "run_2", "run_1"]);
    },
  );
});

describe.skipIf(place === undefined)("times of jobs", () => {
  proves(
    ["E50"],
    "refreshes the heartbeat of a job for as long as the worker executes its run",
    async () => {
      const schema = there().newSchema();
      const executor = new FakeExecutor();
      const engine = opened(() => there().engine(schema));
      const worker = await served(engine, executor);
      await engine.enqueue(ticketOf("run_1"));
      const run = await executor.next();
      const signs = async (afterSeconds: number): Promise<unknown> => {
        const { rows } = await there().admin.query(
          `select heartbeat_on > started_on + $1 * interval '1 second' as is_later from ${schema}.job`,
          [afterSeconds],
        );
        return rows;
      };
      await expect.poll(() => signs(2), { timeout: 9_000 }).toEqual([{ is_later: true }]);
      // Also during its release, which may take the grace period.
      const closed = worker.close();
      await run.left;
      await expect.poll(() => signs(5), { timeout: 9_000 }).toEqual([{ is_later: true }]);
      run.end();
      await closed;
    },
  );

  proves(
    ["E50"],
    "allows a run to execute, and to wait, for longer than pg-boss keeps jobs",
    async () => {
      const schema = there().newSchema();
      const executor = new FakeExecutor();
      const client = opened(() => there().engine(schema));
      await served(
        opened(() => there().engine(schema)),
        executor,
      );
      await client.enqueue(ticketOf("run_1"));
      const run = await executor.next();
      await client.enqueue(ticketOf("run_1"));
      await client.enqueue(ticketOf("run_2"), 4e12);
      await there().admin.query(
        `update ${schema}.job set created_on = created_on - interval '20 years', started_on = started_on - interval '20 years',
        start_after = start_after - interval '20 years', keep_until = keep_until - interval '20 years'`,
      );
      const boss = new PgBoss({
        connectionString: there().url,
        schema,
        supervise: false,
        schedule: false,
        monitorIntervalSeconds: 1,
        maintenanceIntervalSeconds: 1,
      });
      boss.on("error", () => undefined);
      await boss.start();
      await there().admin.query(
        `update ${schema}.queue set monitor_claim_on = null, monitor_on = null, maintain_on = null`,
      );
      await boss.supervise();
      const { rows } = await there().admin.query(
        `select count(*)::int as checked from ${schema}.queue where maintain_on is not null`,
      );
      expect(rows).toEqual([{ checked: 2 }]);
      await boss.stop();
      expect(await there().jobs(schema)).toEqual([
        { run_id: "run_1", state: "active", retry_count: 0 },
        { run_id: "run_1", state: "created", retry_count: 0 },
        { run_id: "run_2", state: "created", retry_count: 0 },
      ]);
      run.end();
      (await executor.next()).end();
    },
  );
});

describe.skipIf(place?.machine === undefined)("a database that goes away", () => {
  for (const way of ["stop", "crash"] as const)
    proves(["E51"], `continues serving when the database is back (${way})`, async () => {
      const schema = there().newSchema();
      const machine = there().machine ?? expect.fail("not ours");
      const executor = new FakeExecutor();
      const client = opened(() => there().engine(schema));
      await served(
        opened(() => there().engine(schema)),
        executor,
      );
      await client.enqueue(ticketOf("run_1"));
      await client.enqueue(ticketOf("run_2"));
      const [one, two] = [await executor.next(), await executor.next()];
      await machine[way]();
      await expect(client.enqueue(ticketOf("run_3"))).rejects.toMatchObject({
        code: "engine_failed",
      });
      // No worker can be notified.
      one.end();
      await expect
        .poll(takeWarnings)
        .toEqual([expect.stringContaining("EspalierWarning: A pg-boss worker could not continue")]);
      await machine.start();
      await expect
        .poll(() =>
          client.enqueue(ticketOf("run_3")).then(
            () => "led",
            () => "failed",
          ),
        )
        .toBe("led");
      // A run whose end could not be reported is executed again; so may be the other one, if its
      // heartbeats were missing for too long.
      two.end();
      const seen = new Set<string>();
      while (!seen.has(one.runId) || !seen.has("run_3")) {
        const run = await executor.next();
        seen.add(run.runId);
        run.end();
      }
      executor.endAll();
      await expect.poll(() => there().jobs(schema)).toEqual([]);
      takeWarnings();
    });

  test("lets a worker and an engine close although the database never comes back", async () => {
    const schema = there().newSchema();
    const machine = there().machine ?? expect.fail("not ours");
    const executor = new FakeExecutor();
    const engine = there().engine(schema);
    const worker = await engine.serve(executor);
    await engine.enqueue(ticketOf("run_1"));
    const run = await executor.next();
    await machine.crash();
    afterwards(() => machine.start());
    const closed = worker.close();
    await run.left;
    run.fail("run_released");
    await closed;
    await engine.close?.();
    takeWarnings();
  });
});
