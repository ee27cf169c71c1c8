// Requests that are executed any number of times and in any process: one run, each effect once.

import { expect } from "vitest";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import type { RunRequest } from "../../../src/orchestrator/run/run-mail.ts";
import { parseId } from "../../../src/protocol/ids.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { proves } from "../../harness/proves.ts";
import { aborted } from "../../support/journal/crash-play.ts";
import { dyingStore } from "../../support/journal/dying-store.ts";
import { forwarding } from "../../support/journal/forwarding-store.ts";
import { rejectionOf } from "../../support/thrown.ts";
import {
  counts,
  doings,
  engineWorld,
  latch,
  runId,
  solo,
  turns,
} from "../../support/engine/engine-world.ts";

const ID = runId("order-4711");
const ORDER = { runId: ID, role: "solo", task: "Go." };
const TEXT = "Go. worked 0, worked 1.";

proves(
  ["E19"],
  "executes a request once that three processes execute a hundred times at once",
  async () => {
    const done = doings();
    const { process, pushed, store, clock } = engineWorld();
    const processes = [1, 2, 3].map(() => process({ roles: [solo(done)] }));
    const executed = Array.from(
      { length: 100 },
      async (_, nth) => await processes[nth % 3]?.execute(ORDER),
    );
    const results = await pushed(Promise.all(executed));
    expect(new Set(results.map((result) => result?.text))).toEqual(new Set([TEXT]));
    expect([counts(done), done.asked.length]).toEqual([[1, 1], 3]);
    expect(await store.find(ID)).toMatchObject({ status: "ended", owner: null });
    const begun = processes.map(
      ({ sink }) => sink.events.filter((event) => event.seq === 1).length,
    );
    expect(begun.reduce((sum, count) => sum + count, 0)).toBe(1);
    expect([clock.pendingTimers, (await store.list()).length]).toEqual([0, 1]);
    // A later execution returns the result alone.
    const again = await pushed(process({ roles: [solo(done)] }).execute(ORDER));
    expect(again).toEqual(results[0]);
    expect(done.asked.length).toBe(3);
  },
);

proves(["E19"], "joins a run that was started", async () => {
  const done = doings();
  const gate = latch();
  const role = solo(done, { hold: () => gate.opened });
  const { process, pushed } = engineWorld();
  const one = process({ roles: [role] });
  const run = one.start(role, "Go.", { runId: ID });
  const executed = one.execute(ORDER);
  await turns(10);
  expect(one.activeRuns()).toEqual([run]);
  gate.open();
  expect(await pushed(executed)).toEqual(await run.result);
  expect(counts(done)).toEqual([1, 1]);
});

proves(
  ["E19"],
  "waits for the result of another process, and takes the run over once that process is lost",
  async () => {
    for (const isLost of [false, true]) {
      const done = doings();
      const gate = latch();
      const { process, pushed, store, clock } = engineWorld();
      const dying = dyingStore(store, isLost ? { at: 4, how: "after" } : undefined);
      const first = solo(done, { hold: () => gate.opened });
      const one = process({ roles: [first], store: dying.store });
      const leading = one.start(first, "Go.", { runId: ID });
      leading.result.catch(() => undefined);
      await turns(20);
      let reads = 0;
      const counting = forwarding(store, {
        read: (...given: Parameters<typeof store.read>) => {
          reads += 1;
          return store.read(...given);
        },
      });
      const two = process({ roles: [solo(done)], store: counting });
      const executed = two.execute(ORDER);
      for (let beat = 0; beat < 20; beat += 1) {
        await turns(5);
        clock.advance(1_000);
      }
      expect([two.activeRuns(), reads]).toEqual([[], 0]); // Waiting reads no records.
      gate.open();
      const result = await pushed(executed, 500);
      expect(result).toMatchObject({ status: "completed", text: TEXT });
      expect(two.sink.events.length > 0).toBe(isLost);
    }
  },
);

proves(["E19"], "takes a run over from a live process after `takeOverAfterMs`", async () => {
  const done = doings();
  const first = solo(done, { hold: (_nth, signal) => aborted(signal) });
  const { process, pushed, clock } = engineWorld();
  const one = process({ roles: [first] });
  const run = one.start(first, "Go.", { runId: ID });
  await turns(20);
  const beganMs = clock.nowMs();
  const two = process({ roles: [solo(done)] });
  const result = await pushed(two.execute(ORDER, { takeOverAfterMs: 500 }));
  expect(result).toMatchObject({ status: "completed", text: TEXT });
  expect(clock.nowMs() - beganMs).toBeGreaterThanOrEqual(500);
  expect(clock.nowMs() - beganMs).toBeLessThan(1_500);
  clock.advance(5_000);
  expect(await rejectionOf(run.result)).toMatchObject({ code: "run_fenced" });
});

proves(
  ["E19"],
  "applies the configured heartbeat interval and the time after which an owner is stale",
  async () => {
    const done = doings();
    const { process, store, clock } = engineWorld();
    const first = solo(done, { hold: (_nth, signal) => aborted(signal) });
    const times = { heartbeatIntervalMs: 300, staleAfterMs: 1_000 };
    const dying = dyingStore(store, { at: 5, how: "before" });
    const one = process({ roles: [first], store: dying.store, ...times });
    const run = one.start(first, "Go.", { runId: ID });
    await turns(20);
    const beganMs = clock.nowMs();
    for (let beat = 1; beat <= 5; beat += 1) {
      clock.advance(300);
      await turns(2);
      expect((await store.find(ID))?.heartbeatAtMs).toBe(beganMs + beat * 300);
    }
    const two = process({ roles: [solo(done)], ...times });
    clock.advance(200);
    expect((await rejectionOf(two.resume(ID))).code).toBe("run_active");
    run.requestPause(); // The process dies at this record.
    await rejectionOf(run.result);
    clock.advance(799);
    expect((await rejectionOf(two.resume(ID))).code).toBe("run_active");
    clock.advance(1);
    expect(await (await two.resume(ID)).result).toMatchObject({ text: TEXT });
  },
);

proves(
  ["E19"],
  "corrects the status of an ended run whose process died before it released the run",
  async () => {
    const done = doings();
    const { process, pushed, store, clock } = engineWorld();
    const deaf = forwarding(store, {
      release: () => Promise.reject(new Error("It is gone.")),
    });
    const role = solo(done);
    await process({ roles: [role], store: deaf }).start(role, "Go.", { runId: ID }).result;
    clock.advance(30_000);
    expect((await store.find(ID))?.status).toBe("open");
    expect(await pushed(process({ roles: [role] }).execute(ORDER))).toMatchObject({ text: TEXT });
    expect(await store.find(ID)).toMatchObject({ status: "ended", owner: null });
    expect(done.asked.length).toBe(3);
  },
);

proves(
  ["E19"],
  "returns the result of another process if it claims an empty journal too late",
  async () => {
    const done = doings();
    const clock = new ManualClock(1_000_000);
    const inner = memoryStore({ clock });
    const { process, pushed, store } = engineWorld(inner, clock);
    await store.release(
      await store.create(ID, "", { token: "t", hostname: "h", processId: 1 }),
      "open",
    );
    const gate = latch();
    const slow = forwarding(store, {
      claim: async (...given: Parameters<typeof store.claim>) => {
        await gate.opened;
        return await store.claim(...given);
      },
    });
    const late = process({ roles: [solo(done)], store: slow }).execute(ORDER);
    await turns(5);
    expect(await pushed(process({ roles: [solo(done)] }).execute(ORDER))).toMatchObject({
      text: TEXT,
    });
    gate.open();
    expect(await pushed(late)).toMatchObject({ text: TEXT });
    expect(await store.find(ID)).toMatchObject({ status: "ended", owner: null });
    expect(counts(done)).toEqual([1, 1]);
  },
);

proves(
  ["E19"],
  "passes budget, metadata, deadline and session of a request to the run",
  async () => {
    const done = doings();
    const { process, pushed, store } = engineWorld();
    const orders: readonly (RunRequest & { readonly runId: string })[] = [
      { ...ORDER, runId: "a", budget: { steps: 1 } },
      { ...ORDER, runId: "b", deadlineAtMs: 5 },
      { ...ORDER, runId: "c", metadata: { tenant: "acme" }, sessionId: "talk" },
      { ...ORDER, runId: "d", task: "And now?", sessionId: "talk" },
    ];
    const results = [];
    for (const order of orders)
      results.push(await pushed(process({ roles: [solo(done)] }).execute(order)));
    expect(results).toMatchObject([
      { runId: "a", status: "stopped", reason: { code: "step_limit" } },
      { runId: "b", status: "stopped", reason: { code: "time_limit" } },
      { runId: "c", status: "completed", agents: [{ metadata: { tenant: "acme" } }] },
      { runId: "d", status: "completed", agents: [{ metadata: {} }] },
    ]);
    expect(await store.listSessions()).toEqual(["talk"]);
    expect((await store.readSession(parseId<"SessionId">("talk")))?.version).toBe(2);
  },
);

proves(
  ["E124"],
  "cancels the run by the signal of any execution, even one that joined it or waits for another process",
  async () => {
    for (const where of ["begun", "joined", "elsewhere"] as const) {
      const done = doings();
      const { process, pushed, store } = engineWorld();
      const roles = [solo(done, { hold: (_nth, signal) => aborted(signal) })];
      const one = process({ roles });
      const two = where === "elsewhere" ? process({ roles }) : one;
      const controller = new AbortController();
      const { signal } = controller;
      const first = one.execute(ORDER, where === "begun" ? { signal } : {});
      await turns(20);
      const second = two.execute(ORDER, where === "begun" ? {} : { signal });
      await turns(20);
      controller.abort(new Error("Not needed."));
      const results = await pushed(Promise.all([first, second]));
      const message = "The signal of the run was aborted: Not needed.";
      const cancelled = { status: "cancelled", reason: { message } };
      expect(results, where).toMatchObject([cancelled, cancelled]);
      expect(await store.readMail(ID)).toHaveLength(where === "elsewhere" ? 1 : 0);
      expect([counts(done), done.asked.length]).toEqual([[1], 1]);
    }
  },
);

proves(["E20", "D647"], "refuses invalid requests and options, and creates nothing", async () => {
  const { process, store } = engineWorld();
  const one = process({ roles: [solo(doings())] });
  const bad: readonly (readonly [string, object])[] = [
    ["unsupported_version", { version: 2 }],
    ["unsupported_version", { version: "2" }],
    ["invalid_argument", { runId: "" }],
    ["invalid_argument", { role: "" }],
    ["unknown_role", { role: "other" }],
    ["invalid_argument", { task: "" }],
    ["invalid_argument", { task: undefined, extra: 1 }],
    ["invalid_argument", { rolesVersion: "a b" }],
    ["invalid_argument", { deadlineAtMs: -1 }],
    ["invalid_argument", { sessionId: "" }],
  ];
  for (const [code, more] of bad)
    expect(
      await rejectionOf(one.execute({ ...ORDER, ...more })),
      JSON.stringify(more),
    ).toMatchObject({ code });
  for (const options of [{ graceMs: -1 }, { takeOverAfterMs: Number.NaN }, { isLeftAlone: true }])
    expect(await rejectionOf(one.execute(ORDER, options))).toMatchObject({
      code: "invalid_argument",
    });
  expect(await store.list()).toEqual([]);
});

proves(
  ["E19"],
  "rejects an execution that only waits as soon as its release signal is aborted",
  async () => {
    const done = doings();
    const { process, pushed } = engineWorld();
    const first: AgentRole = solo(done, { hold: (_nth, signal) => aborted(signal) });
    const run = process({ roles: [first] }).start(first, "Go.", { runId: ID });
    await turns(20);
    const two = process({ roles: [solo(done)] });
    const leave = new AbortController();
    const executed = two.execute(ORDER, { releaseSignal: leave.signal });
    await turns(10);
    leave.abort();
    expect(await rejectionOf(pushed(executed))).toMatchObject({ code: "run_released" });
    const already = two.execute(ORDER, { releaseSignal: AbortSignal.abort() });
    expect(await rejectionOf(pushed(already))).toMatchObject({ code: "run_released" });
    void run.cancel("Over.").catch(() => undefined);
    await pushed(run.result);
  },
);

proves(
  ["E19"],
  "rejects a waiting execution of a closed orchestrator, and starts no run",
  async () => {
    const done = doings();
    const { process, pushed, store } = engineWorld();
    const first = solo(done, { hold: (_nth, signal) => aborted(signal) });
    const dying = dyingStore(store, { at: 4, how: "after" });
    const run = process({ roles: [first], store: dying.store }).start(first, "Go.", { runId: ID });
    run.result.catch(() => undefined);
    await turns(20);
    const two = process({ roles: [solo(done)] });
    const executed = two.execute(ORDER);
    await turns(10);
    await two.close();
    expect(await rejectionOf(pushed(executed, 1_000))).toMatchObject({ code: "invalid_state" });
    expect(two.activeRuns()).toEqual([]);
  },
);

proves(
  ["E112"],
  "rejects one of two executions of a process that is released, and continues the run for the other",
  async () => {
    const done = doings();
    const gate = latch();
    const { process, pushed, store, clock } = engineWorld();
    const one = process({ roles: [solo(done, { hold: () => gate.opened })] });
    const [leave, other] = [new AbortController(), new AbortController()];
    const executed = one.execute(ORDER, { releaseSignal: leave.signal });
    await turns(20);
    const stays = one.execute(ORDER, { releaseSignal: other.signal });
    await turns(20);
    leave.abort();
    expect(await rejectionOf(executed)).toMatchObject({ code: "run_released" }); // Rejects at once.
    const late = one.execute(ORDER, { releaseSignal: leave.signal });
    expect(await rejectionOf(late)).toMatchObject({ code: "run_released" });
    gate.open();
    expect(await pushed(stays)).toMatchObject({ status: "completed", text: TEXT });
    expect([counts(done), done.asked.length]).toEqual([[1, 1], 3]);
    expect([(await store.find(runId(ID)))?.status, clock.pendingTimers]).toEqual(["ended", 0]);
  },
);

proves(["E112"], "releases a run with the last of its executions", async () => {
  const done = doings();
  const { process, pushed, store } = engineWorld();
  const one = process({ roles: [solo(done, { hold: (_nth, signal) => aborted(signal) })] });
  const executions = [];
  for (const leave of [new AbortController(), new AbortController()]) {
    const executed = one.execute(ORDER, { releaseSignal: leave.signal, graceMs: 100 });
    executions.push({ leave, executed });
    await turns(20);
  }
  for (const { leave, executed } of executions) {
    expect(one.activeRuns()).toHaveLength(1);
    leave.abort();
    expect(await rejectionOf(pushed(executed))).toMatchObject({ code: "run_released" });
  }
  expect(await store.find(runId(ID))).toMatchObject({ status: "open", owner: null });
  const two = process({ roles: [solo(done)] });
  expect(await pushed(two.execute(ORDER))).toMatchObject({ text: TEXT });
});
