// Cancelling a run by its id, whichever process owns it.

import { expect } from "vitest";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { proves } from "../../harness/proves.ts";
import { aborted } from "../../support/journal/crash-play.ts";
import { forwarding } from "../../support/journal/forwarding-store.ts";
import { dyingStore } from "../../support/journal/dying-store.ts";
import { countedTool, thinker } from "../../support/journal/thinkers.ts";
import { rejectionOf } from "../../support/thrown.ts";
import {
  doings,
  engineWorld,
  latch,
  runId,
  solo,
  turns,
  type Doings,
} from "../../support/engine/engine-world.ts";

const ID = runId("order-4711");
const ORDER = { runId: ID, role: "solo", task: "Go." };
const CANCELLED = { status: "cancelled", reason: { code: "cancelled", message: "Not needed." } };
const WHY = { message: "Not needed." };

const hanging = (done: Doings) => solo(done, { hold: (_nth, signal) => aborted(signal) });

proves(["E18"], "cancels a run of this process at once", async () => {
  const done = doings();
  const { process, store } = engineWorld();
  const role = hanging(done);
  const one = process({ roles: [role] });
  const run = one.start(role, "Go.", { runId: ID });
  await turns(15);
  await one.cancel(ID, WHY);
  expect(await run.result).toMatchObject(CANCELLED);
  expect([done.asked.length, (await store.find(ID))?.status]).toEqual([1, "ended"]);
  expect(await rejectionOf(one.cancel(ID))).toMatchObject({ code: "run_ended" });
});

proves(
  ["E18"],
  "cancels a run that another process executes by its mailbox, within a second",
  async () => {
    const done = doings();
    const { process, pushed, store, clock } = engineWorld();
    const run = process({ roles: [hanging(done)] }).execute(ORDER);
    await turns(15);
    await process({}).cancel(ID, WHY);
    const beganMs = clock.nowMs();
    expect(await pushed(run)).toMatchObject(CANCELLED);
    expect(clock.nowMs() - beganMs).toBeLessThanOrEqual(1_000);
    expect([done.asked.length, (await store.find(ID))?.status]).toEqual([1, "ended"]);
  },
);

proves(["E18"], "cancels a run that another process started, with its next heartbeat", async () => {
  const done = doings();
  const { process, pushed } = engineWorld();
  const role = hanging(done);
  const run = process({ roles: [role], heartbeatIntervalMs: 700 }).start(role, "Go.", {
    runId: ID,
  });
  await turns(15);
  await process({}).cancel(ID, WHY);
  expect(await pushed(run.result)).toMatchObject(CANCELLED);
  expect(done.asked.length).toBe(1);
});

proves(
  ["E18"],
  "cancels a run that is paused with questions without making its calls",
  async () => {
    const done = doings();
    const { process, pushed, store } = engineWorld();
    const role = defineAgent({
      name: "solo",
      description: "Asks.",
      instructions: "You ask.",
      model: thinker("solo", () => {
        done.asked.push("solo");
        return { calls: [["work", { thing: "a" }]] };
      }),
      tools: [countedTool(done.calls, "work", undefined, { needsApproval: true })],
    });
    const options = { roles: [role], unansweredPolicy: "pause" } as const;
    expect(await pushed(process(options).execute(ORDER))).toMatchObject({ status: "paused" });
    const two = process(options);
    await pushed(two.cancel(ID, WHY));
    expect(await two.getResult(ID)).toMatchObject(CANCELLED);
    expect([done.asked.length, done.calls.size]).toEqual([1, 0]);
    expect((await store.find(ID))?.status).toBe("ended");
  },
);

proves(["E18"], "cancels a run whose process died when another process takes it over", async () => {
  const done = doings();
  const { process, pushed, store, clock } = engineWorld();
  const dying = dyingStore(store, { at: 4, how: "after" });
  const dead = process({ roles: [hanging(done)], store: dying.store });
  await dead.execute(ORDER).catch(() => undefined);
  const asked = done.asked.length;
  const two = process({ roles: [solo(done)] });
  await two.cancel(ID, WHY); // The owner still seems alive: the request stays in the mailbox.
  clock.advance(30_000);
  expect(await pushed(two.execute(ORDER))).toMatchObject(CANCELLED);
  expect(done.asked.length).toBe(asked);
});

proves(["E18"], "cancels a run that has not started before its first model call", async () => {
  const done = doings();
  const { process, pushed, store } = engineWorld();
  const made = await store.create(ID, "", { token: "t", hostname: "h", processId: 1 });
  await store.release(made, "open");
  await process({}).cancel(ID, WHY);
  expect(await pushed(process({ roles: [solo(done)] }).execute(ORDER))).toMatchObject(CANCELLED);
  expect([done.asked, done.calls.size]).toEqual([[], 0]);
});

proves(
  ["E18"],
  "rejects the cancellation without the role of the run, and leaves it to a process that has the role",
  async () => {
    const done = doings();
    const { process, pushed, store } = engineWorld();
    const gate = latch();
    const one = process({ roles: [solo(done, { hold: () => gate.opened })] });
    const run = one.execute(ORDER);
    await turns(15);
    one.findActiveRun(ID)?.requestPause();
    gate.open();
    expect(await pushed(run)).toMatchObject({ status: "paused" });
    const asked = done.asked.length;
    expect((await rejectionOf(process({}).cancel(ID, WHY))).code).toBe("invalid_paused_run");
    expect(await store.find(ID)).toMatchObject({ status: "open", owner: null });
    expect(await pushed(process({ roles: [solo(done)] }).execute(ORDER))).toMatchObject(CANCELLED);
    expect(done.asked.length).toBe(asked);
  },
);

proves(["E18"], "accepts a cancellation that another process applies meanwhile", async () => {
  const done = doings();
  const { process, pushed, store } = engineWorld();
  const gate = latch();
  const one = process({ roles: [solo(done, { hold: () => gate.opened })] });
  const run = one.execute(ORDER);
  await turns(15);
  one.findActiveRun(ID)?.requestPause();
  gate.open();
  await pushed(run);
  const two = process({ roles: [solo(done)] });
  let applied: string | undefined;
  const slow = forwarding(store, {
    sendMail: async (...given: Parameters<typeof store.sendMail>) => {
      const number = await store.sendMail(...given);
      applied = (await pushed(two.execute(ORDER))).status;
      return number;
    },
  });
  await process({ roles: [solo(done)], store: slow }).cancel(ID, WHY);
  expect(applied).toBe("cancelled");
  expect(await two.getResult(ID)).toMatchObject(CANCELLED);
});

proves(
  ["E18"],
  "refuses unknown runs, empty run ids, empty messages and unknown options",
  async () => {
    const one = engineWorld().process({});
    expect(await rejectionOf(one.cancel("nobody"))).toMatchObject({ code: "unknown_run" });
    const { code } = await rejectionOf(one.cancel(ID, { message: "" }));
    expect(code).toBe("invalid_argument");
    const why: object = { why: "x" };
    expect(await rejectionOf(one.cancel(ID, why))).toMatchObject({ code: "invalid_argument" });
    expect(await rejectionOf(one.cancel(""))).toMatchObject({ code: "invalid_argument" });
  },
);
