// Goal: the contract suite fails for every engine that breaks a promise.
// Method: an engine in memory that breaks one promise at a time; all checks run concurrently in
// separate worlds.

import { expect, test } from "vitest";

import type { Engine, EngineWorker, RunExecutor, RunTicket } from "../../src/engine/engine.ts";
import { memoryStore } from "../../src/store/memory-store.ts";
import { engineContract, type EngineCheck } from "../../src/testing/engine-contract.ts";
import { proves } from "../harness/proves.ts";
import { MemoryQueue, MemoryWorker } from "../support/memory-engine.ts";

/** The changes to the engine and to the executor that it runs. */
interface Break {
  readonly lead?: (engine: Engine, ticket: RunTicket, atMs?: number) => Promise<void>;
  readonly executor?: (real: RunExecutor) => Partial<RunExecutor>;
  readonly worker?: (real: EngineWorker, queue: MemoryQueue) => Partial<EngineWorker>;
  readonly queue?: () => MemoryQueue;
  /** The name of a check that fails. */
  readonly noticed: string;
}

class Overwriting extends MemoryQueue {
  override take(ticket: RunTicket): void {
    if (!this.led.has(ticket.runId)) super.take(ticket);
  }
}

class Hasty extends MemoryQueue {
  override later(ticket: RunTicket): void {
    setTimeout(() => this.take(ticket), 5).unref();
  }
}

class Forgetful extends MemoryQueue {
  override over(ticket: RunTicket): void {
    super.over(ticket, false);
  }
}

class Doubling extends MemoryQueue {
  override assign(): void {
    const waiting = [...this.waiting.values()];
    super.assign();
    for (const ticket of waiting)
      for (const { executor, leave } of this.workers)
        if (this.led.has(ticket.runId) && executor.roles.includes(ticket.role))
          executor.execute(ticket.runId, leave.signal).catch(() => undefined);
  }
}

class Unbound extends MemoryWorker {
  override isFor({ role }: RunTicket): boolean {
    return this.executor.roles.includes(role);
  }
}

class VersionBlind extends MemoryQueue {
  override async serve(executor: RunExecutor): Promise<EngineWorker> {
    await (await super.serve(executor)).close();
    const worker = new Unbound(this, executor);
    this.workers.add(worker);
    this.assign();
    return worker;
  }
}

const LED = "a worker executes a run that any client starts, and any client reads its result";
const FOREIGN = "a worker executes only runs of its own roles and versions";
const AGAIN = "a run whose execution rejects is executed again until it succeeds";
const MEANWHILE = "an answer that arrives while a run pauses is not lost";
const DEADLINE = "a run continues by itself at the deadline of its question";
const HANDED = "a closing worker hands its runs over, and completed calls are not repeated";
const CLOSED = "a closed worker takes no further run and leaves no resources behind";

const BREAKS: Readonly<Record<string, Break>> = {
  "a lead is forgotten": { lead: async () => undefined, noticed: LED },
  "a run is led twice at a time": { queue: () => new Doubling(), noticed: LED },
  "what comes while a run is led is dropped": {
    queue: () => new Overwriting(),
    noticed: MEANWHILE,
  },
  "times are not waited for": { queue: () => new Hasty(), noticed: DEADLINE },
  "times are forgotten": {
    executor: (real) => ({
      execute: async (runId, leave) => {
        const { type } = await real.execute(runId, leave);
        return { type };
      },
    }),
    noticed: DEADLINE,
  },
  "rejections are swallowed": { queue: () => new Forgetful(), noticed: AGAIN },
  "what was left is not led by others": {
    executor: (real) => ({
      execute: async (runId, leave) => {
        try {
          return await real.execute(runId, leave);
        } catch (cause) {
          if (!leave.aborted) throw cause;
          return { type: "ended" };
        }
      },
    }),
    noticed: HANDED,
  },
  "versions are not looked at": { queue: () => new VersionBlind(), noticed: FOREIGN },
  "no run is left on closing": {
    executor: (real) => ({
      execute: (runId) => real.execute(runId, new AbortController().signal),
    }),
    noticed: HANDED,
  },
  "a worker is closed before its runs are left": {
    worker: (real) => ({
      close: async () => void real.close(),
    }),
    noticed: HANDED,
  },
  "a worker goes on after it was closed": {
    worker: (real, queue) => ({
      close: async () => {
        await real.close();
        if (real instanceof MemoryWorker) queue.workers.add(real);
      },
    }),
    noticed: CLOSED,
  },
};

/** Returns whether a check fails for an engine. */
async function isNoticed(
  { run }: EngineCheck,
  how: Partial<Break>,
  timeoutMs?: number,
): Promise<boolean> {
  const queue = how.queue?.() ?? new MemoryQueue();
  const store = memoryStore();
  const close = async (): Promise<void> => {
    queue.end();
    await store.close();
  };
  const place = { store, createEngine: () => broken(queue, how), close };
  const outcome = run(async () => (timeoutMs === undefined ? place : { ...place, timeoutMs }));
  return await outcome.then(
    () => false,
    () => true,
  );
}

function broken(queue: MemoryQueue, { lead, executor, worker }: Partial<Break>): Engine {
  const real = queue.engine();
  return {
    ...real,
    enqueue: (ticket, atMs) => (lead ?? leadAsEver)(real, ticket, atMs),
    serve: async (given) => {
      const serving = await real.serve({ ...given, ...executor?.(given) });
      const changed = worker?.(serving, queue) ?? {};
      return { close: () => (changed.close ?? (() => serving.close()))() };
    },
  };
}

function leadAsEver(engine: Engine, ticket: RunTicket, atMs?: number): Promise<void> {
  return engine.enqueue(ticket, atMs);
}

proves(["E90"], "passes for an engine that keeps its promises", async () => {
  const failed = engineContract().map(async (one) => ((await isNoticed(one, {})) ? one.name : []));
  expect((await Promise.all(failed)).flat()).toEqual([]);
});

proves(["E90"], "fails for every engine that breaks a promise", async () => {
  const unnoticed = Object.entries(BREAKS).map(async ([what, how]) => {
    const one = engineContract().find(({ name }) => name === how.noticed);
    // Correct engines take no time here, so a short limit is enough for one that hangs.
    return one !== undefined && (await isNoticed(one, how, 2_000)) ? [] : what;
  });
  expect((await Promise.all(unnoticed)).flat()).toEqual([]);
});

test("names its checks uniquely", () => {
  const names = engineContract().map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
});
