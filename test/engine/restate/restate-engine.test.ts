// Goal: over a real Restate server, workers execute the runs of their roles, one execution of a run
// at a time, until the runs pause or end.
// Method: executors that hand each execution to the test; no timing, the server reports what is
// pending.

import { afterAll, describe, expect } from "vitest";

import { createServiceName } from "../../../src/engine/restate/restate-object.ts";
import { restateEngine } from "../../../src/engine/restate/restate-engine.ts";
import { EspalierError } from "../../../src/kernel/error.ts";
import { RunIdSchema } from "../../../src/protocol/ids.ts";
import { afterwards } from "../../harness/afterwards.ts";
import { proves } from "../../harness/proves.ts";
import { balancer } from "../../support/balancer.ts";
import { freePort } from "../../support/free-port.ts";
import { findRestate } from "../../support/restate-server.ts";
import { GatedExecutor, LEFT, toBeLeft } from "../../support/engine/gated-executor.ts";

const found = await findRestate();
const server = typeof found === "string" ? undefined : found;
if (typeof found === "string") console.warn(`Tests of Restate are skipped: ${found}.`);
const { ingressUrl = "", adminUrl = "" } = server ?? {};
const client = restateEngine({ ingressUrl: ingressUrl || "http://127.0.0.1:8080" });

afterAll(() => server?.close());

const runId = RunIdSchema().parse("run/1 of §");
let count = 0;

/** Returns a role for one test. */
function newRole(): string {
  count += 1;
  return `role-${count}`;
}

async function serve(executor: GatedExecutor, at: { port: number; workerUrl?: string }) {
  const worker = await restateEngine({ ingressUrl, adminUrl, ...at }).serve(executor);
  afterwards(() => worker.close());
  return worker;
}

/** Starts a worker that Restate does not know. */
function serveAlone(port: number) {
  return restateEngine({ ingressUrl: "http://127.0.0.1:1", port }).serve(new GatedExecutor(["a"]));
}

async function otherWorker(): Promise<{ readonly port: number }> {
  const port = await freePort();
  const { close } = await serveAlone(port);
  afterwards(close);
  return { port };
}

async function worker(role = newRole(), version = "1") {
  const executor = new GatedExecutor([role], version);
  const port = await freePort();
  const { close } = await serve(executor, { port });
  const whenDone = () => server?.whenDone(createServiceName(role, version));
  return { executor, port, close, whenDone, ticket: { runId, role, version } };
}

describe.skipIf(server === undefined)("execution of runs", () => {
  proves(
    ["E60"],
    "executes a run once by a worker of its role and version, and by no other",
    async () => {
      const role = newRole();
      const [one, two, three] = [await worker(role), await worker(role, "2"), await worker()];
      await client.enqueue(one.ticket);
      const leading = await one.executor.next();
      leading.settle();
      await one.whenDone();
      const led = [one, two, three].map(({ executor }) => executor.led);
      expect([leading.runId, led]).toEqual([runId, [[runId], [], []]]);
    },
  );

  proves(
    ["E61"],
    "queues a request for an active run behind it, separately for each run",
    async () => {
      const { executor, ticket, whenDone } = await worker();
      await client.enqueue(ticket);
      const first = await executor.next();
      await client.enqueue(ticket);
      await client.enqueue({ ...ticket, runId: RunIdSchema().parse("run_2") });
      const other = await executor.next();
      first.settle();
      const second = await executor.next();
      second.settle();
      other.settle();
      await whenDone();
      expect([executor.led, executor.mostAtOnce]).toEqual([[runId, "run_2", runId], 1]);
    },
  );

  proves(["E61"], "executes a run a hundred times in sequence for a hundred requests", async () => {
    const { executor, ticket, whenDone } = await worker();
    await Promise.all(Array.from({ length: 100 }, () => client.enqueue(ticket)));
    for (let nth = 1; nth <= 100; nth += 1) (await executor.next()).settle();
    await whenDone();
    expect([executor.led.length, executor.mostAtOnce]).toEqual([100, 1]);
  });

  proves(["E62"], "executes a run at the requested time, not before", async () => {
    const { executor, ticket, whenDone } = await worker();
    const atMs = Date.now() + 400.5;
    await client.enqueue(ticket, atMs);
    await client.enqueue({ ...ticket, runId: RunIdSchema().parse("past") }, Date.now() - 1e6);
    const past = await executor.next();
    past.settle();
    const leading = await executor.next();
    leading.settle();
    await whenDone();
    expect([executor.led, leading.atMs >= atMs]).toEqual([["past", runId], true]);
  });

  proves(
    ["E62"],
    "executes a waiting run at its deadline, and one without deadline not at all",
    async () => {
      const { executor, ticket, whenDone } = await worker();
      await client.enqueue(ticket);
      const first = await executor.next();
      const untilMs = Date.now() + 400;
      first.settle({ type: "waiting", untilMs });
      const second = await executor.next();
      expect(second.atMs).toBeGreaterThanOrEqual(untilMs);
      second.settle({ type: "waiting" });
      await whenDone();
      expect(executor.led).toEqual([runId, runId]);
    },
  );

  proves(["E63"], "repeats a rejected execution until it settles, and then no more", async () => {
    const { executor, ticket, whenDone } = await worker();
    await client.enqueue(ticket);
    for (const code of ["store_failed", "run_active", "run_released"] as const)
      (await executor.next()).fail(new EspalierError({ code, message: "Not now." }));
    (await executor.next()).settle();
    await whenDone();
    expect([executor.led, executor.mostAtOnce]).toEqual([[runId, runId, runId, runId], 1]);
  });
});

describe.skipIf(server === undefined)("several workers at one address", () => {
  async function twoWorkers() {
    const role = newRole();
    const ports = [await freePort(), await freePort()] as const;
    const workerUrl = `http://127.0.0.1:${await balancer(ports)}`;
    const executors = ports.map(() => new GatedExecutor([role]));
    const workers = [];
    for (const [index, executor] of executors.entries())
      workers.push(await serve(executor, { port: ports[index] ?? 0, workerUrl }));
    return { executors, workers, ticket: { runId, role, version: "1" } };
  }

  proves(["E64"], "hand the runs of a closing worker to another one", async () => {
    const { executors, workers, ticket } = await twoWorkers();
    await client.enqueue(ticket);
    const leadings = executors.map((executor) => executor.next());
    const began = await Promise.race(
      leadings.map(async (next, index) => ({ index, leading: await next })),
    );
    const closed = workers[began.index]?.close();
    await toBeLeft(began.leading);
    began.leading.fail(LEFT);
    const other = await leadings[1 - began.index];
    await closed;
    other?.settle();
    await server?.whenDone(createServiceName(ticket.role, ticket.version));
    expect(executors.map(({ led }) => led)).toEqual([[runId], [runId]]);
  });
});

describe.skipIf(server === undefined)("the registered service", () => {
  proves(
    ["E63"],
    "retries without limit, retains no journal, and aborts no execution",
    async () => {
      const { ticket } = await worker();
      const response = await fetch(`${adminUrl}/services/${createServiceName(ticket.role, "1")}`);
      expect(await response.json()).toMatchObject({
        ty: "VirtualObject",
        handlers: [{ name: "lead", ty: "Exclusive" }],
        idempotency_retention: "1m",
        journal_retention: "0s",
        inactivity_timeout: "1d",
        abort_timeout: "1m",
        retry_policy: {
          initial_interval: "50ms",
          exponentiation_factor: 2,
          max_attempts: Number.MAX_SAFE_INTEGER,
          max_interval: "5s",
          on_max_attempts: "Kill",
        },
      });
    },
  );

  proves(
    ["E64"],
    "aborts no execution when a further worker registers at its address",
    async () => {
      const { executor, ticket, port, whenDone } = await worker();
      await client.enqueue(ticket);
      const leading = await executor.next();
      const workerUrl = `http://127.0.0.1:${port}`;
      await serve(new GatedExecutor([ticket.role]), { port: 0, workerUrl });
      expect(leading.leave.aborted).toBe(false);
      leading.settle();
      await whenDone();
      expect(executor.led).toEqual([runId]);
    },
  );

  proves(
    ["E65"],
    "delivers a run of a closed worker to the address that was registered last",
    async () => {
      const role = newRole();
      const [one, two] = [await worker(role), await worker(role)];
      // The address that was registered last is asked first.
      await client.enqueue(two.ticket);
      const leading = await two.executor.next();
      const three = await worker(role);
      const closed = two.close();
      leading.fail(LEFT);
      await closed;
      (await three.executor.next()).settle();
      await three.whenDone();
      const led = [one, two, three].map(({ executor }) => executor.led);
      expect(led).toEqual([[], [runId], [runId]]);
    },
  );

  proves(["E66"], "replaces the roles that were registered at its address before", async () => {
    const { ticket, port, close } = await worker();
    await close();
    const executor = new GatedExecutor([ticket.role], "2");
    await serve(executor, { port });
    await client.enqueue({ ...ticket, version: "2" });
    (await executor.next()).settle();
    await server?.whenDone(createServiceName(ticket.role, "2"));
    await expect(client.enqueue(ticket)).rejects.toMatchObject({ code: "unknown_role" });
  });
});

describe.skipIf(server === undefined)("an impossible request", () => {
  proves(
    ["E66"],
    "is refused with unknown_role for a role or version that no worker ever had",
    async () => {
      const { ticket } = await worker();
      for (const { role, version } of [
        { role: "nobody", version: "1" },
        { role: ticket.role, version: "2" },
      ])
        await expect(client.enqueue({ runId, role, version })).rejects.toMatchObject({
          code: "unknown_role",
          message: `Cannot start the run: no worker has served the role "${role}" in version ${version}. Start a worker with this role and version first, or correct the name.`,
          data: { role, version },
        });
    },
  );

  proves(["E67"], "is refused with a hint at the address if that is not the ingress", async () => {
    const { ticket } = await worker();
    await expect(restateEngine({ ingressUrl: adminUrl }).enqueue(ticket)).rejects.toMatchObject({
      code: "engine_failed",
      message: `Expected Restate at ${adminUrl} to accept the run, got status 404: an empty reply. Check the address.`,
      data: { url: adminUrl, status: 404 },
    });
  });

  proves(["E67"], "ends a worker that Restate cannot reach, without registering it", async () => {
    const port = await freePort();
    const workerUrl = `http://127.0.0.1:${await freePort()}`;
    const engine = restateEngine({ ingressUrl, adminUrl, port, workerUrl });
    await expect(engine.serve(new GatedExecutor([newRole()]))).rejects.toMatchObject({
      code: "engine_failed",
      message: `Expected Restate at ${adminUrl} to register the worker at ${workerUrl}, got status 500: [META0003] [META0003] error when calling '${workerUrl}/': h2 pool connection error: Connection refused (os error 111). Check its message, and try again.`,
      data: { url: adminUrl, status: 500 },
    });
    await (await serveAlone(port)).close();
  });

  proves(
    ["E67"],
    "does not register a worker at whose address another worker listens",
    async () => {
      const workerUrl = `http://127.0.0.1:${(await otherWorker()).port}`;
      const engine = restateEngine({ ingressUrl, adminUrl, port: 0, workerUrl });
      const role = newRole();
      await expect(engine.serve(new GatedExecutor([role]))).rejects.toMatchObject({
        code: "engine_failed",
        message: `Expected Restate at ${adminUrl} to register the worker at ${workerUrl}, got a worker without ${createServiceName(role, "1")} at that address. Check adminUrl and workerUrl.`,
      });
    },
  );
});
