// `RunClient` over the store engine, with workers in other processes: one run, however often it is
// started, attached to, or taken over.

import { expect } from "vitest";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { storeEngine } from "../../../src/engine/store-engine.ts";
import { RunClient } from "../../../src/orchestrator/run/run-client.ts";
import type { EspalierEvent } from "../../../src/protocol/event.ts";
import { approve, deny } from "../../../src/protocol/question.ts";
import type { Store } from "../../../src/store/store.ts";
import { proves } from "../../harness/proves.ts";
import { aborted } from "../../support/journal/crash-play.ts";
import { dyingStore } from "../../support/journal/dying-store.ts";
import { forwarding } from "../../support/journal/forwarding-store.ts";
import { storedEvents } from "../../support/journal/stored-events.ts";
import { countedTool, thinker } from "../../support/journal/thinkers.ts";
import { allOf } from "../../support/all-of.ts";
import { rejectionOf, thrownBy } from "../../support/thrown.ts";
import {
  clientOf,
  counts,
  doings,
  engineWorld,
  latch,
  runId,
  solo,
  turns,
  workerIn,
  type Doings,
} from "../../support/engine/engine-world.ts";

const ID = runId("order-4711");
const TEXT = "Go. worked 0, worked 1.";

/** Makes two calls that need an approval, then replies with their results. */
function asker(done: Doings) {
  return defineAgent({
    name: "solo",
    description: "Asks.",
    instructions: "You ask.",
    model: thinker("solo", ({ results }) => {
      done.asked.push(`solo ${results.length}`);
      const calls = ["a", "b"].map((thing) => ["work", { thing }] as const);
      return results.length < 2 ? { calls } : { text: results.join(" ") };
    }),
    tools: [countedTool(done.calls, "work", undefined, { needsApproval: true })],
  });
}

proves(
  ["E24"],
  "executes a run once that three clients start a hundred times at once, with two workers",
  async () => {
    const world = engineWorld();
    const { pushed, clock, store } = world;
    const done = doings();
    const workers = [
      await workerIn(world, { roles: [solo(done)] }),
      await workerIn(world, { roles: [solo(done)] }),
    ];
    const clients = [1, 2, 3].map(() => clientOf(world));
    const started = await pushed(
      Promise.all(
        Array.from(
          { length: 100 },
          async (_, nth) => await clients[nth % 3]?.start("solo", "Go.", { runId: ID }),
        ),
      ),
    );
    const results = await pushed(Promise.all(started.map(async (run) => await run?.getResult())));
    expect(new Set(results.map((result) => result?.text))).toEqual(new Set([TEXT]));
    expect([counts(done), done.asked.length, (await store.readMail(ID)).length]).toEqual([
      [1, 1],
      3,
      1,
    ]);
    for (const worker of workers) await pushed(worker.close());
    expect([(await store.list()).length, clock.pendingTimers]).toEqual([1, 0]);
  },
);

proves(["E24"], "refuses an id that another run has, and leaves that run unchanged", async () => {
  const world = engineWorld();
  const { process, store, pushed } = world;
  const done = doings();
  const client = clientOf(world);
  await client.start("solo", "Go.", { runId: ID });
  for (const [role, task, more] of [
    ["solo", "Stay.", {}],
    ["other", "Go.", {}],
    ["solo", "Go.", { budget: { steps: 1 } }],
  ] as const)
    expect(await rejectionOf(client.start(role, task, { runId: ID, ...more }))).toMatchObject({
      code: "run_id_conflict",
    });
  expect((await store.readMail(ID)).length).toBe(1);
  const role = solo(done);
  await process({ roles: [role] }).start(role, "Go.", { runId: "own" }).result;
  expect((await rejectionOf(client.start("solo", "Go.", { runId: "own" }))).code).toBe(
    "run_exists",
  );
  expect(await pushed(client.attach("own").getResult())).toMatchObject({ text: TEXT });
  expect(await rejectionOf(client.attach("nobody").getResult())).toMatchObject({
    code: "unknown_run",
  });
  expect(thrownBy(() => client.attach(""))).toMatchObject({ code: "invalid_argument" });
});

proves(["E24"], "treats an undefined budget axis like an absent one", async () => {
  const world = engineWorld();
  const client = clientOf(world);
  const budget = { steps: 5, costUsd: undefined };
  // @ts-expect-error: programs without `exactOptionalPropertyTypes` can pass it.
  for (let time = 0; time < 2; time += 1) await client.start("solo", "Go.", { runId: ID, budget });
  await client.start("solo", "Go.", { runId: ID, budget: { steps: 5 } });
  expect(await world.store.readMail(ID)).toHaveLength(1);
});

proves(["E24"], "starts a run again after its client died at any step of ordering it", async () => {
  const steps = ["create", "sendMail", "release", "enqueue"] as const satisfies readonly (
    | keyof Store
    | "enqueue"
  )[];
  for (const dies of steps) {
    const world = engineWorld();
    const { store, clock, pushed } = world;
    const done = doings();
    const worker = await workerIn(world, { roles: [solo(done)] });
    let deaths = 0;
    const fail = (): never => {
      deaths += 1;
      throw new Error("It died.");
    };
    const dead = forwarding(store, dies === "enqueue" ? {} : { [dies]: fail });
    const engine = { enqueue: async () => (dies === "enqueue" ? fail() : undefined), serve: fail };
    const first = new RunClient({ store: dead, engine, clock });
    await first.start("solo", "Go.", { runId: ID }).catch(() => undefined);
    expect(deaths, dies).toBe(1);
    const run = await clientOf(world).start("solo", "Go.", { runId: ID });
    const result = await pushed(run.getResult(), 500);
    expect(result, dies).toMatchObject({ status: "completed", text: TEXT });
    expect(counts(done)).toEqual([1, 1]);
    await pushed(worker.close());
  }
});

proves(
  ["E24"],
  "completes a run that another client hands over, and a worker claims, before its client releases it",
  async () => {
    const world = engineWorld();
    const { store, clock, pushed } = world;
    const done = doings();
    const release: Store["release"] = async (ownership, ...rest) => {
      const owner = { token: "of a worker", hostname: "elsewhere", processId: 1 };
      const taken = await store.claim(ID, { owner, staleAfterMs: 30_000, takeOver: true });
      await store.release(taken, "open");
      await store.release(ownership, ...rest);
    };
    const engine = storeEngine({ clock });
    const slow = new RunClient({ store: forwarding(store, { release }), engine, clock });
    const run = await slow.start("solo", "Go.", { runId: ID });
    const worker = await workerIn(world, { roles: [solo(done)] });
    expect(await pushed(run.getResult(), 500)).toMatchObject({ status: "completed", text: TEXT });
    expect(counts(done)).toEqual([1, 1]);
    await pushed(worker.close());
  },
);

proves(
  ["E24"],
  "lists and answers questions one by one for a client that knows only the run id",
  async () => {
    const world = engineWorld();
    const { pushed, store } = world;
    const done = doings();
    const worker = await workerIn(world, { roles: [asker(done)], unansweredPolicy: "pause" });
    await clientOf(world).start("solo", "Go.", { runId: ID });
    const run = clientOf(world).attach(ID);
    const paused = await pushed(run.getResult());
    expect(paused.status).toBe("paused");
    const questions = await run.getQuestions();
    expect(questions).toEqual(paused.questions);
    const [a, b] = questions;
    if (a === undefined || b === undefined) throw new Error("Nothing was asked.");
    expect(await run.answer([approve(a)])).toEqual([b]);
    expect(await run.getQuestions()).toEqual([b]);
    expect(await pushed(run.getResult())).toMatchObject({ status: "paused", questions: [b] });
    expect(await run.answer([deny(b, "Not that.")])).toEqual([]);
    const result = await pushed(run.getResult());
    expect([result.status, counts(done), done.asked.length]).toEqual(["completed", [1], 2]);
    expect((await rejectionOf(run.answer([approve(b)]))).code).toBe("invalid_answer");
    expect((await store.find(ID))?.status).toBe("ended");
    await pushed(worker.close());
  },
);

proves(["E24"], "cancels runs that have not started, are paused, or are active", async () => {
  const world = engineWorld();
  const { pushed, clock } = world;
  const done = doings();
  const client = clientOf(world);
  const unbegun = await client.start("solo", "Go.", { runId: "unbegun" });
  await unbegun.cancel("Not needed.");
  const worker = await workerIn(world, { roles: [asker(done)], unansweredPolicy: "pause" });
  const cancelled = { status: "cancelled", reason: { message: "Not needed." } };
  expect(await pushed(unbegun.getResult())).toMatchObject(cancelled);
  expect(done.asked).toEqual([]);
  const paused = await client.start("solo", "Go.", { runId: "paused" });
  expect(await pushed(paused.getResult())).toMatchObject({ status: "paused" });
  await paused.cancel("Not needed.");
  expect(await pushed(paused.getResult())).toMatchObject(cancelled);
  expect([done.asked.length, done.calls.size]).toEqual([1, 0]);
  expect(await rejectionOf(paused.cancel())).toMatchObject({ code: "run_ended" });
  await pushed(worker.close());
  const hanging = await workerIn(world, {
    roles: [solo(done, { hold: (_nth, signal) => aborted(signal) })],
  });
  const led = await client.start("solo", "Go.", { runId: "led" });
  const outcome = led.getResult();
  await pushed(
    (async () => {
      while (done.calls.size === 0) await turns(5);
    })(),
  );
  await led.cancel("Not needed.");
  expect(await pushed(outcome)).toMatchObject(cancelled);
  await pushed(hanging.close());
  expect(clock.pendingTimers).toBe(0);
});

async function seqsOf(events: readonly EspalierEvent[], from = 1): Promise<void> {
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_event, index) => from + index));
}

proves(
  ["E25"],
  "returns the events of a run from any number on, once and without gaps, across a takeover",
  async () => {
    const world = engineWorld();
    const { pushed, clock, store, process } = world;
    const done = doings();
    const client = clientOf(world);
    const run = await client.start("solo", "Go.", { runId: ID });
    const all = allOf(run.events());
    const later = allOf(client.attach(ID).events({ from: 7 }));
    const dying = dyingStore(store, { at: 5, how: "after" });
    const first = await process({ roles: [solo(done)], store: dying.store }).startWorker(
      storeEngine({ clock }),
      { context: () => undefined },
    );
    await pushed(
      (async () => {
        while (!dying.isDead) await turns(5);
      })(),
    );
    await pushed(first.close({ graceMs: 0 }));
    const second = await workerIn(world, { roles: [solo(done)] });
    const events = await pushed(all, 1_000);
    expect(events).toEqual(await storedEvents(store, ID));
    await seqsOf(events);
    expect(await pushed(later)).toEqual(events.slice(6));
    expect(events.at(-1)).toMatchObject({ type: "run.ended", status: "completed" });
    expect(events.filter(({ type }) => type === "run.resumed")).toHaveLength(1);
    expect(await allOf(run.events({ from: 4 }))).toEqual(events.slice(3));
    expect(await allOf(run.events({ from: events.length + 1 }))).toEqual([]);
    await pushed(second.close());
  },
);

proves(
  ["E25"],
  "ends the events at a pause, and continues them from the next number after the answers",
  async () => {
    const world = engineWorld();
    const { pushed, store } = world;
    const done = doings();
    const worker = await workerIn(world, { roles: [asker(done)], unansweredPolicy: "pause" });
    const run = await clientOf(world).start("solo", "Go.", { runId: ID });
    const before = await pushed(allOf(run.events()));
    expect(before.at(-1)?.type).toBe("run.paused");
    await run.answer((await run.getQuestions()).map((one) => approve(one)));
    const after = await pushed(allOf(run.events({ from: before.length + 1 })));
    expect([...before, ...after]).toEqual(await storedEvents(store, ID));
    expect(after.at(-1)?.type).toBe("run.ended");
    await pushed(worker.close());
  },
);

proves(
  ["E25"],
  "rejects a read whose signal is aborted with its reason, and leaves no timer behind",
  async () => {
    const world = engineWorld();
    const { pushed, clock } = world;
    const run = await clientOf(world).start("solo", "Go.", { runId: ID });
    const controller = new AbortController();
    const { signal } = controller;
    const waits = [run.getResult({ signal }), allOf(run.events({ signal }))];
    const settled = Promise.allSettled(waits);
    await turns(10);
    controller.abort(new Error("Enough."));
    expect(await pushed(settled)).toMatchObject([
      { status: "rejected", reason: { message: "Enough." } },
      { status: "rejected", reason: { message: "Enough." } },
    ]);
    expect(clock.pendingTimers).toBe(0);
    for (const from of [0, -1, 1.5])
      expect(await rejectionOf(allOf(run.events({ from })))).toMatchObject({
        code: "invalid_argument",
      });
    expect(await rejectionOf(allOf(clientOf(world).attach("nobody").events()))).toMatchObject({
      code: "unknown_run",
    });
  },
);

proves(
  ["E24"],
  "completes a run at once, without a sweep, if worker and client share a process",
  async () => {
    const world = engineWorld();
    const { store, clock, process } = world;
    const done = doings();
    const gate = latch();
    const engine = storeEngine({ clock, sweepIntervalMs: 1_000_000 });
    const worker = await process({ roles: [solo(done, { hold: () => gate.opened })] }).startWorker(
      engine,
      {
        context: () => undefined,
      },
    );
    const client = new RunClient({ store, engine, clock });
    const run = await client.start("solo", "Go.", { runId: ID });
    gate.open();
    await turns(80);
    expect(await run.getResult()).toMatchObject({ status: "completed", text: TEXT });
    await worker.close();
    expect(clock.pendingTimers).toBe(0);
  },
);
