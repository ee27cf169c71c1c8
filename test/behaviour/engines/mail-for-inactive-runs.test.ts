// Goal: mail that arrives while a run pauses, and a deadline that passes while it is paused, are
// handled although its process is gone.
// Method: a store into which mail arrives at the last moment, and whose process dies then; workers
// over the store engine.

import { expect } from "vitest";

import type { Engine, RunExecutor } from "../../../src/engine/engine.ts";
import { storeEngine } from "../../../src/engine/store-engine.ts";
import { RunClient } from "../../../src/orchestrator/run/run-client.ts";
import { sendMail, type RunMail } from "../../../src/orchestrator/run/run-mail.ts";
import type { Store } from "../../../src/store/store.ts";
import { proves } from "../../harness/proves.ts";
import { forwarding } from "../../support/journal/forwarding-store.ts";
import { rejectionOf } from "../../support/thrown.ts";
import {
  clientOf,
  counts,
  doings,
  engineWorld,
  runId,
  solo,
  turns,
  workerIn,
  type EngineWorld,
} from "../../support/engine/engine-world.ts";

const ID = runId("order-4711");
const ORDER = { runId: ID, role: "solo", task: "Go." };
const ASKING = { count: 1, tool: { needsApproval: true } } as const;
const CANCEL: RunMail = { type: "cancel", message: "Not needed." };

/**
 * Returns the store of a process that dies once the pause of a run is stored; mail arrives at that
 * moment.
 */
function dyingAtRest(
  store: Store,
  mail: RunMail,
): { readonly store: Store; readonly dead: Promise<void> } {
  const { promise: dead, resolve } = Promise.withResolvers<void>();
  const release: Store["release"] = async (ownership, status, lastMail) => {
    if (status === "paused") await sendMail(store, ownership.runId, mail);
    await store.release(ownership, status, lastMail);
    if (status !== "paused") return;
    resolve();
    await new Promise(() => undefined);
  };
  return { store: forwarding(store, { release }), dead };
}

async function waited({ clock }: EngineWorld, seconds: number): Promise<void> {
  for (let passed = 0; passed < seconds; passed += 1) {
    clock.advance(1_000);
    await turns(5);
  }
}

proves(
  ["E110"],
  "handles mail that arrives after the owner's last read by a worker, although the owner has died",
  async () => {
    const world = engineWorld();
    const { store, clock, process, pushed } = world;
    const done = doings();
    const roles = [solo(done, ASKING)];
    await clientOf(world).start("solo", "Go.", { runId: ID });
    const dying = dyingAtRest(store, CANCEL);
    void process({ roles, store: dying.store, unansweredPolicy: "pause" }).execute(ORDER);
    await pushed(dying.dead);
    expect(await store.find(ID)).toMatchObject({ status: "open", owner: null });
    const two = process({ roles, unansweredPolicy: "pause" });
    const worker = await two.startWorker(storeEngine({ clock }), { context: () => undefined });
    await waited(world, 2);
    expect(await two.getResult(ID)).toMatchObject({ status: "cancelled" });
    expect(counts(done)).toEqual([]);
    await pushed(worker.close());
  },
);

proves(
  ["E111"],
  "finds a deadline in the store that only a dead process knew, and attempts a refused run once",
  async () => {
    const world = engineWorld();
    const { clock, pushed } = world;
    const done = doings();
    const roles = [solo(done, ASKING)];
    const asking = { roles, unansweredPolicy: "pause", answerTimeoutMs: 100_000 } as const;
    const client = clientOf(world);
    const first = await workerIn(world, asking);
    const run = await client.start("solo", "Go.", { runId: ID });
    const { questions } = await pushed(run.getResult());
    expect(questions.map(({ deadlineAtMs }) => deadlineAtMs !== null)).toEqual([true]);
    await pushed(first.close());
    await waited(world, 200);
    let attempts = 0;
    const context = () => {
      attempts += 1;
      throw new Error("No database.");
    };
    const second = await workerIn(world, asking, { context });
    await waited(world, 100);
    expect([attempts, (await rejectionOf(run.getResult())).code]).toEqual([1, "context_failed"]);
    await pushed(second.close());
    const third = await workerIn(world, asking);
    await run.sendCommand({ type: "resume" });
    expect(await pushed(run.getResult())).toMatchObject({ status: "completed" });
    expect(counts(done)).toEqual([]);
    await pushed(third.close());
    expect(clock.pendingTimers).toBe(0);
  },
);

proves(
  ["E111"],
  "finds the deadline of a run whose worker has closed, in a worker that already serves",
  async () => {
    const world = engineWorld();
    const { store, pushed } = world;
    const reads: string[] = [];
    const read: Store["read"] = (id, from) => {
      reads.push(id);
      return store.read(id, from);
    };
    const roles = [solo(doings(), ASKING)];
    const asking = { roles, unansweredPolicy: "pause", answerTimeoutMs: 100_000 } as const;
    const first = await workerIn(world, asking);
    const client = clientOf(world);
    const run = await client.start("solo", "Go.", { runId: ID });
    await pushed(run.getResult());
    const second = await workerIn(world, { ...asking, store: forwarding(store, { read }) });
    await pushed(first.close());
    await waited(world, 90);
    expect(reads).toEqual([ID]); // Read once, however many sweeps follow.
    await waited(world, 50);
    expect(await pushed(run.getResult())).toMatchObject({ status: "completed" });
    await pushed(second.close());
  },
);

proves(["E123"], "passes no deadline to the engine that is beyond the range of dates", async () => {
  for (const [answerTimeoutMs, hasTime] of [
    [1_000, true],
    [Number.MAX_SAFE_INTEGER, false],
    [1e300, false],
  ] as const) {
    const { clock, store, process } = engineWorld();
    const { promise, resolve } = Promise.withResolvers<RunExecutor>();
    const close = async (): Promise<void> => undefined;
    const engine: Engine = {
      enqueue: close,
      serve: async (executor) => {
        resolve(executor);
        return { close };
      },
    };
    const orchestrator = process({ roles: [solo(doings(), ASKING)], answerTimeoutMs });
    const worker = await orchestrator.startWorker(engine, { context: () => undefined });
    await new RunClient({ store, engine, clock }).start("solo", "Go.", { runId: ID });
    const executor = await promise;
    const settled = await executor.execute(ID, new AbortController().signal);
    const untilMs = clock.nowMs() + answerTimeoutMs;
    expect(settled).toEqual({ type: "waiting", ...(hasTime ? { untilMs } : {}) });
    await worker.close();
  }
});
