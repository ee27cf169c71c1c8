// Promises of every engine. Each trial gets a factory of engines that share one place, as in
// several processes.

import { expect } from "vitest";

import type { Engine } from "../../src/engine/engine.ts";
import { churn } from "./engine-churn.ts";
import { FakeExecutor } from "./fake-executor.ts";
import { opened, served, ticketOf } from "./opened-engine.ts";

export interface EngineTrial {
  /** The promise that the trial proves. */
  readonly name: string;
  /** `open`: an engine of its own each time, over the same place. */
  run(open: () => Engine): Promise<void>;
}

/** The role is known from then on, and no worker serves it. */
async function madeKnown(engine: Engine, roles: readonly string[] = ["lead"]): Promise<void> {
  const worker = await engine.serve(new FakeExecutor({ roles }));
  await worker.close();
}

const trials: EngineTrial[] = [
  {
    name: "E40: a run is led by a worker that has its role in its version, whoever else serves",
    run: async (open) => {
      const [one, two, client] = [opened(open), opened(open), opened(open)];
      const writer = new FakeExecutor({ roles: ["writer"] });
      const lead = new FakeExecutor({ roles: ["lead"] });
      const newer = new FakeExecutor({ roles: ["lead", "writer"], version: "v2" });
      await served(one, writer);
      await served(one, newer);
      await served(two, lead);
      await client.enqueue(ticketOf("run_1", "lead"));
      await client.enqueue(ticketOf("run_2", "writer"));
      await client.enqueue(ticketOf("run_3", "writer", "v2"));
      (await lead.next()).end();
      (await writer.next()).end();
      (await newer.next()).end();
      expect([lead.begun, writer.begun, newer.begun]).toEqual([["run_1"], ["run_2"], ["run_3"]]);
    },
  },
  {
    name: "E40: what is led while nobody serves is led as soon as somebody does",
    run: async (open) => {
      const client = opened(open);
      await madeKnown(client, ["lead", "writer"]);
      await client.enqueue(ticketOf("run_1"));
      await client.enqueue(ticketOf("run_2", "writer"));
      const executor = new FakeExecutor({ roles: ["lead", "writer"] });
      await served(opened(open), executor);
      for (const led of [await executor.next(), await executor.next()]) led.end();
      expect(executor.begun.toSorted()).toEqual(["run_1", "run_2"]);
    },
  },
  {
    name: "E41: a role that no worker ever had in this version is unknown, now and for later",
    run: async (open) => {
      const client = opened(open);
      await madeKnown(opened(open));
      const unknown = (role: string, version: string) => ({
        code: "unknown_role",
        data: { role, version },
      });
      const later = 4e12;
      const lead = client.enqueue.bind(client);
      await expect(lead(ticketOf("run_1", "nobody"))).rejects.toMatchObject(
        unknown("nobody", "v1"),
      );
      await expect(lead(ticketOf("run_1", "lead", "v2"))).rejects.toMatchObject(
        unknown("lead", "v2"),
      );
      await expect(lead(ticketOf("run_1", "nobody"), later)).rejects.toMatchObject(
        unknown("nobody", "v1"),
      );
      await lead(ticketOf("run_1"), later);
    },
  },
  {
    name: "E42: of a hundred leads at once, while a run waits, one is led; while it is led, another one, after it",
    run: async (open) => {
      const clients = [opened(open), opened(open), opened(open)] as const;
      const [client] = clients;
      const leadOften = (runId: string) =>
        Promise.all(
          Array.from({ length: 34 }, () => clients)
            .flat()
            .map((client) => client.enqueue(ticketOf(runId))),
        );
      await madeKnown(opened(open));
      await leadOften("run_1");
      const [here, there] = [new FakeExecutor(), new FakeExecutor()];
      await served(opened(open), here);
      await served(opened(open), there);
      const first = await FakeExecutor.nextOf(here, there);
      await leadOften("run_1");
      // Later runs are executed meanwhile; the second execution of the same run is not.
      await client.enqueue(ticketOf("run_2"));
      (await FakeExecutor.nextOf(here, there)).end();
      expect([...here.begun, ...there.begun].toSorted()).toEqual(["run_1", "run_2"]);
      first.end();
      (await FakeExecutor.nextOf(here, there)).end();
      await client.enqueue(ticketOf("run_3"));
      (await FakeExecutor.nextOf(here, there)).end();
      const begun = [...here.begun, ...there.begun].toSorted();
      expect(begun).toEqual(["run_1", "run_1", "run_2", "run_3"]);
    },
  },
  {
    name: "E43: a lead for later waits until then, and holds no lead at once up",
    run: async (open) => {
      const client = opened(open);
      await madeKnown(client);
      const atMs = Date.now() + 2_500;
      await client.enqueue(ticketOf("run_1"), atMs + 4e9);
      await client.enqueue(ticketOf("run_1"), atMs);
      const executor = new FakeExecutor();
      await served(opened(open), executor);
      await client.enqueue(ticketOf("run_2"));
      (await executor.next()).end();
      await client.enqueue(ticketOf("run_1"));
      (await executor.next()).end();
      expect(executor.begun).toEqual(["run_2", "run_1"]);
      (await executor.next()).end();
      expect(executor.begun).toEqual(["run_2", "run_1", "run_1"]);
      expect(Date.now()).toBeGreaterThanOrEqual(atMs);
    },
  },
  {
    name: "E43: a lead for a time that is over is one at once",
    run: async (open) => {
      const client = opened(open);
      const executor = new FakeExecutor();
      await served(opened(open), executor);
      await client.enqueue(ticketOf("run_1"), 0);
      (await executor.next()).end();
      expect(executor.begun).toEqual(["run_1"]);
    },
  },
  {
    name: "E43: a run that waits until a time is led again then, and one that waits for its mailbox when it is led",
    run: async (open) => {
      const client = opened(open);
      const executor = new FakeExecutor();
      await served(opened(open), executor);
      await client.enqueue(ticketOf("run_1"));
      const untilMs = Date.now() + 1_000;
      (await executor.next()).waitUntil(untilMs);
      const again = await executor.next();
      expect(Date.now()).toBeGreaterThanOrEqual(untilMs);
      again.waitUntil(undefined);
      await client.enqueue(ticketOf("run_2"));
      (await executor.next()).end();
      await client.enqueue(ticketOf("run_1"));
      (await executor.next()).end();
      expect(executor.begun).toEqual(["run_1", "run_1", "run_2", "run_1"]);
    },
  },
  {
    name: "E44: what could not be led is led again, as often as it takes, while others are led",
    run: async (open) => {
      const client = opened(open);
      const executor = new FakeExecutor();
      await served(opened(open), executor);
      await client.enqueue(ticketOf("run_1"));
      for (const code of ["store_failed", "run_active", "run_fenced", "run_released"] as const)
        (await executor.next()).fail(code);
      await client.enqueue(ticketOf("run_2"));
      const both = [await executor.next(), await executor.next()];
      for (const led of both) led.end();
      expect(executor.begun.toSorted()).toEqual([
        ...Array.from({ length: 5 }, () => "run_1"),
        "run_2",
      ]);
    },
  },
  {
    name: "E45: a worker that closes takes nothing more, has its runs left, waits for that, and another one goes on with them",
    run: async (open) => {
      const client = opened(open);
      const leaving = new FakeExecutor();
      const worker = await served(opened(open), leaving);
      await client.enqueue(ticketOf("run_1"));
      await client.enqueue(ticketOf("run_2"));
      const [one, two] = [await leaving.next(), await leaving.next()];
      let isClosed = false;
      const closed = worker.close().then(() => (isClosed = true));
      await Promise.all([one.left, two.left]);
      await client.enqueue(ticketOf("run_3"));
      const staying = new FakeExecutor();
      await served(opened(open), staying);
      const third = await staying.next();
      expect([third.runId, isClosed]).toEqual(["run_3", false]);
      third.end();
      one.fail("run_released");
      const next = await staying.next();
      expect([next.runId, isClosed]).toEqual([one.runId, false]);
      next.end();
      // Within its grace period it has come to its end.
      two.end();
      await closed;
      await worker.close();
      expect([leaving.begun.toSorted(), staying.begun]).toEqual([
        ["run_1", "run_2"],
        ["run_3", one.runId],
      ]);
    },
  },
  {
    name: "E45: an engine that is closed closes its workers first, and is of no use then",
    run: async (open) => {
      const engine = open();
      const client = opened(open);
      const executor = new FakeExecutor();
      await engine.serve(executor);
      await client.enqueue(ticketOf("run_1"));
      const led = await executor.next();
      const closed = engine.close?.();
      await led.left;
      led.fail("run_released");
      await closed;
      await engine.close?.();
      await expect(engine.enqueue(ticketOf("run_2"))).rejects.toMatchObject({
        code: "engine_failed",
      });
      await expect(engine.serve(executor)).rejects.toMatchObject({ code: "engine_failed" });
      const other = new FakeExecutor();
      await served(client, other);
      (await other.next()).end();
      expect(other.begun).toEqual(["run_1"]);
    },
  },
  {
    name: "E46: a worker has no more runs than it has room for, over all its roles; the others wait for another worker or for room",
    run: async (open) => {
      const client = opened(open);
      const roles = ["lead", "writer", "reader"];
      const small = new FakeExecutor({ roles, maxRuns: 2 });
      await served(opened(open), small);
      for (const [index, role] of roles.entries())
        await client.enqueue(ticketOf(`run_${index}`, role));
      const [one, two] = [await small.next(), await small.next()];
      const large = new FakeExecutor({ roles, maxRuns: 50 });
      await served(opened(open), large);
      const three = await large.next();
      expect([one.runId, two.runId, three.runId].toSorted()).toEqual(["run_0", "run_1", "run_2"]);
      for (const led of [one, two, three]) led.end();
      const many = Array.from({ length: 40 }, (_, index) => ticketOf(`more_${index}`, "writer"));
      await Promise.all(many.map((ticket) => client.enqueue(ticket)));
      for (const _ of many) (await FakeExecutor.nextOf(small, large)).end();
      expect(small.mostAtOnce).toBeLessThanOrEqual(2);
      expect(small.begun.length + large.begun.length).toBe(43);
    },
  },
  {
    name: "E47: roles and versions may have any name",
    run: async (open) => {
      const client = opened(open);
      const names = [
        "a",
        "A",
        "a b",
        "a'b",
        'a"b',
        "a/b",
        "späher",
        "日本",
        "x".repeat(300),
        "*",
        "",
      ];
      const executor = new FakeExecutor({ roles: names, version: "v'1; drop table job; --" });
      await served(opened(open), executor);
      for (const [index, role] of names.entries())
        await client.enqueue(ticketOf(`run_${index}`, role, executor.version));
      for (const _ of names) (await executor.next()).end();
      expect(executor.begun.toSorted()).toEqual(names.map((_, index) => `run_${index}`).toSorted());
    },
  },
  {
    name: "E40: an engine serves twice, each with its own roles",
    run: async (open) => {
      const engine = opened(open);
      const [lead, writer] = [new FakeExecutor(), new FakeExecutor({ roles: ["writer"] })];
      const first = await served(engine, lead);
      await served(engine, writer);
      await engine.enqueue(ticketOf("run_1"));
      (await lead.next()).end();
      await first.close();
      await engine.enqueue(ticketOf("run_2", "writer"));
      (await writer.next()).end();
      expect([lead.begun, writer.begun]).toEqual([["run_1"], ["run_2"]]);
    },
  },
  {
    name: "E42: while workers come and go, no run is led twice at a time, and each is led after it was last asked for",
    run: churn,
  },
];

export function engineTrials(): readonly EngineTrial[] {
  return trials;
}
