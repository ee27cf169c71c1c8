// Commands to a run by mail: applied once, in whichever process the run is and whenever that
// process dies, and reproduced by a replay.

import { expect } from "vitest";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { RunCommand } from "../../../src/orchestrator/run/run-mail.ts";
import { loadRecording } from "../../../src/testing/replay/recording.ts";
import type { ManualClock } from "../../../src/testing/manual-clock.ts";
import { proves } from "../../harness/proves.ts";
import { dyingStore } from "../../support/journal/dying-store.ts";
import { replaysToTheSame } from "../../support/journal/replay-story.ts";
import { storedEvents, storedRecords } from "../../support/journal/stored-events.ts";
import { countedTool, thinker } from "../../support/journal/thinkers.ts";
import { rejectionOf } from "../../support/thrown.ts";
import {
  counts,
  doings,
  engineWorld,
  latch,
  runId,
  turns,
  type Doings,
  type Latch,
} from "../../support/engine/engine-world.ts";

const ID = runId("order-4711");
const ORDER = { runId: ID, role: "worker", task: "Go." };

/**
 * Calls `work` three times, one after the other; the second call waits at the gate. Replies with
 * the other messages that it got.
 */
function worker(done: Doings, gate?: Latch): AgentRole {
  return defineAgent({
    name: "worker",
    description: "Works.",
    instructions: "You work.",
    budget: { steps: 10 },
    model: thinker("worker", ({ results, heard }) => {
      done.asked.push(`worker ${results.length}`);
      return results.length < 3
        ? { calls: [["work", { thing: `${results.length}` }]] }
        : { text: `Done. ${heard.join(" ")}` };
    }),
    tools: [
      countedTool(done.calls, "work", async ({ thing }) => {
        if (thing === "1") await gate?.opened;
        return `worked ${thing}`;
      }),
    ],
  });
}

const REQUESTS: readonly RunCommand[] = [
  { type: "steer", message: "Hurry." },
  { type: "grant", budget: { steps: 5 }, by: "ops" },
];

/** Lets a second pass. */
async function passing(clock: ManualClock): Promise<void> {
  for (let push = 0; push < 10; push += 1) {
    clock.advance(100);
    await turns(5);
  }
}

async function factsOf(store: Parameters<typeof storedEvents>[0]) {
  const events = await storedEvents(store, ID);
  const records = await storedRecords(store, ID);
  const grants = events.filter(({ type }) => type === "budget.granted").length;
  const posts = records.flatMap((record) => (record.type === "post" ? [record.number] : []));
  return { grants, posts };
}

proves(
  ["E15", "E17"],
  "applies commands to an active run from its own and another process, and replays them",
  async () => {
    for (const where of ["here", "elsewhere"] as const) {
      const done = doings();
      const gate = latch();
      const { process, store, pushed } = engineWorld();
      const one = process({ roles: [worker(done, gate)] });
      const executed = one.execute(ORDER);
      await turns(20);
      const asking = where === "here" ? one : process({});
      for (const request of REQUESTS) await asking.sendCommand(ID, request);
      await asking.sendCommand(ID, {
        type: "steer",
        message: "To whom?",
        agentPath: "worker/nobody#1",
      });
      const heeded = (async () => {
        while ((await factsOf(store)).posts.length < 3) await turns(5);
      })();
      await pushed(heeded);
      gate.open();
      const result = await pushed(executed);
      expect(result).toMatchObject({ status: "completed", text: "Done. Hurry." });
      expect(await factsOf(store)).toEqual({ grants: 1, posts: [1, 2, 3] });
      const records = await storedRecords(store, ID);
      const last = records.findLast((record) => record.type === "post");
      expect(last?.type === "post" ? last.problem : "").toContain("worker/nobody#1");
      await replaysToTheSame(
        { role: worker(doings()) },
        { recording: await loadRecording(store, ID), result },
      );
    }
  },
);

proves(["E15", "E17"], "pauses, resumes and refuses to stop an ended run by command", async () => {
  const done = doings();
  const gate = latch();
  const { process, store, pushed } = engineWorld();
  const executed = process({ roles: [worker(done, gate)] }).execute(ORDER);
  await turns(20);
  const other = process({});
  await other.sendCommand(ID, { type: "pause" });
  const heeded = (async () => {
    while ((await factsOf(store)).posts.length < 1) await turns(5);
  })();
  await pushed(heeded);
  gate.open();
  expect(await pushed(executed)).toMatchObject({
    status: "paused",
    reason: { code: "pause_requested" },
  });
  const asked = done.asked.length;
  // No command arrived: the run stays paused.
  const make = () => process({ roles: [worker(done)] });
  expect(await pushed(make().execute(ORDER))).toMatchObject({ status: "paused" });
  expect(done.asked.length).toBe(asked);
  await other.sendCommand(ID, { type: "steer", message: "Hurry." });
  await other.sendCommand(ID, { type: "pause" });
  expect(await pushed(make().execute(ORDER))).toMatchObject({ status: "paused" });
  await other.sendCommand(ID, { type: "resume" });
  const result = await pushed(make().execute(ORDER));
  expect(result).toMatchObject({ status: "completed", text: "Done. Hurry." });
  expect([counts(done), (await factsOf(store)).posts]).toEqual([
    [1, 1, 1],
    [1, 2, 3, 4],
  ]);
  await replaysToTheSame(
    { role: worker(doings()) },
    { recording: await loadRecording(store, ID), result },
  );
  expect(await rejectionOf(other.sendCommand(ID, { type: "stop" }))).toMatchObject({
    code: "run_ended",
  });
});

proves(["E15"], "stops a paused run by command", async () => {
  const done = doings();
  const gate = latch();
  const { process, pushed } = engineWorld();
  const one = process({ roles: [worker(done, gate)] });
  const executed = one.execute(ORDER);
  await turns(20);
  one.findActiveRun(ID)?.requestPause();
  gate.open();
  expect(await pushed(executed)).toMatchObject({ status: "paused" });
  const asked = done.asked.length;
  await process({}).sendCommand(ID, { type: "stop", message: "Enough." });
  const result = await pushed(process({ roles: [worker(done)] }).execute(ORDER));
  expect(result).toMatchObject({
    status: "stopped",
    reason: { code: "stop_requested", message: "Enough." },
  });
  expect(done.asked.length).toBe(asked);
});

proves(["E15"], "applies commands to a run whose process died in the next process", async () => {
  const done = doings();
  const { process, store, pushed } = engineWorld();
  const dying = dyingStore(store, { at: 4, how: "after" });
  await process({ roles: [worker(done)], store: dying.store })
    .execute(ORDER)
    .catch(() => undefined);
  for (const request of REQUESTS) await process({}).sendCommand(ID, request);
  const result = await pushed(process({ roles: [worker(done)] }).execute(ORDER), 5_000);
  expect(result).toMatchObject({ status: "completed", text: "Done. Hurry." });
  expect(await factsOf(store)).toEqual({ grants: 1, posts: [1, 2] });
});

proves(
  ["E15", "E17"],
  "applies each command once, although the process dies at any append before or after it",
  async () => {
    for (const how of ["before", "after"] as const)
      for (let at = 1; at <= 14; at += 1) {
        const done = doings();
        const gate = latch();
        const { process, store, pushed, clock } = engineWorld();
        const dying = dyingStore(store, { at, how });
        const one = process({ roles: [worker(done, gate)], store: dying.store });
        const first = one.execute(ORDER).catch(() => undefined);
        await turns(20);
        const isThere = (await store.find(ID)) !== undefined;
        for (const request of isThere ? REQUESTS : []) await process({}).sendCommand(ID, request);
        await passing(clock);
        gate.open();
        await turns(40);
        if (dying.isDead) await first;
        const two = process({ roles: [worker(done)] });
        const result = await pushed(two.execute(ORDER), 5_000);
        const expected = isThere ? "Done. Hurry." : "Done. ";
        expect(result, `${how} ${at}`).toMatchObject({ status: "completed", text: expected });
        const facts = isThere ? { grants: 1, posts: [1, 2] } : { grants: 0, posts: [] };
        expect(await factsOf(store), `${how} ${at}`).toEqual(facts);
        const recording = await loadRecording(store, ID);
        await replaysToTheSame({ role: worker(doings()) }, { recording, result });
      }
  },
);

proves(
  ["E15"],
  "leaves commands of a later release unread, and keeps the run open for others to find",
  async () => {
    const done = doings();
    const gate = latch();
    const { process, store, pushed } = engineWorld();
    const one = process({ roles: [worker(done, gate)] });
    const executed = one.execute(ORDER);
    await turns(20);
    for (const body of ['{"type":"fly","height":7}', '"fly"', "7"])
      await store.sendMail(ID, { key: body, body });
    await process({}).sendCommand(ID, { type: "pause" });
    const heeded = (async () => {
      while ((await factsOf(store)).posts.length < 1) await turns(5);
    })();
    await pushed(heeded);
    gate.open();
    const paused = await pushed(executed);
    expect([paused.status, (await factsOf(store)).posts]).toEqual(["paused", [4]]);
    await store.sendMail(ID, { key: "again", body: '{"type":"fly"}' });
    expect(await pushed(process({ roles: [worker(done)] }).execute(ORDER))).toMatchObject({
      status: "paused",
    });
    expect(await store.find(ID)).toMatchObject({ status: "open", owner: null });
    await process({}).sendCommand(ID, { type: "resume" });
    const result = await pushed(process({ roles: [worker(done)] }).execute(ORDER));
    expect(result).toMatchObject({ status: "completed", text: "Done. " });
    expect((await factsOf(store)).posts).toEqual([4, 6]);
  },
);

proves(["E15"], "refuses invalid commands, and posts none", async () => {
  const done = doings();
  const { process, store, pushed } = engineWorld();
  const one = process({ roles: [worker(done)] });
  const bad: readonly unknown[] = [
    {},
    { type: "fly" },
    { type: "pause", by: "me" },
    { type: "stop", message: "" },
    { type: "steer", message: "" },
    { type: "steer", message: "Hurry.", agentPath: "" },
    { type: "grant", budget: {}, by: "ops" },
    { type: "grant", budget: { steps: 1 } },
  ];
  await store.create(ID, "", { token: "t", hostname: "h", processId: 1 });
  for (const request of bad) {
    // @ts-expect-error: not a command.
    const { code } = await rejectionOf(one.sendCommand(ID, request));
    expect(code, JSON.stringify(request)).toBe("invalid_argument");
  }
  expect(await store.readMail(ID)).toEqual([]);
  expect(await rejectionOf(pushed(one.sendCommand("nobody", { type: "pause" })))).toMatchObject({
    code: "unknown_run",
  });
});
