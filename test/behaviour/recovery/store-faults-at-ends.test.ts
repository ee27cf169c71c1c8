// Goal: if a store fails at the beginning or at the end of a run, no caller waits forever and no
// result is lost.
// Method: a store in front of another one, of which one method fails; a manual clock between its
// attempts.

import { expect, test } from "vitest";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { EspalierError } from "../../../src/kernel/error.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { PausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import { approve } from "../../../src/protocol/question.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { createStoreError } from "../../../src/store/store-errors.ts";
import type { Store } from "../../../src/store/store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { withApproval } from "../../../src/tools/wrappers/with-approval.ts";
import { rejectionOf } from "../../support/thrown.ts";
import { turns } from "../../support/journal/crash-play.ts";
import { forwarding } from "../../support/journal/forwarding-store.ts";
import { countedTool, thinker } from "../../support/journal/thinkers.ts";

const role = defineAgent({
  name: "solo",
  instructions: "You work.",
  model: thinker("solo", () => ({ text: "Done." })),
});

const cautious = defineAgent({
  name: "cautious",
  instructions: "You work.",
  model: thinker("cautious", ({ results }) =>
    results.length === 0 ? { calls: [["pay", { thing: "tree" }]] } : { text: results.join() },
  ),
  tools: [withApproval(countedTool(new Map(), "pay", () => Promise.resolve("Paid.")))],
});

const broken = new TypeError("the disk is on fire");
const fenced = new EspalierError({ code: "run_fenced", message: "Taken over." });

test.each([broken, createStoreError("full", "Expected room, got none."), fenced])(
  "returns the result of a run whose end is persisted although its release fails: %s",
  async (cause) => {
    const store = memoryStore();
    const stubborn: Store = forwarding(store, { release: () => Promise.reject(cause) });
    const run = new Orchestrator({ store: stubborn }).start(role, "Go.");
    expect(await run.result).toMatchObject({ status: "completed", text: "Done." });
    expect(await run.settled).toMatchObject({ status: "completed" });
    const again = new Orchestrator({ store, roles: [role] });
    const error = await rejectionOf(again.resume(run.runId, { takeOver: true }));
    expect(error).toMatchObject({ code: "run_ended" });
    expect(await store.find(run.runId)).toMatchObject({ status: "ended", owner: null });
  },
);

test.each([
  ["completed", "ended"],
  ["paused", "paused"],
])(
  "releases a run that was persisted as %s without a release when its request is executed again",
  async (status, rest) => {
    const store = memoryStore();
    const stubborn: Store = forwarding(store, { release: () => Promise.reject(broken) });
    const roles = [role, cautious];
    const name = status === "paused" ? "cautious" : "solo";
    const order = { runId: "run-1", role: name, task: "Go." };
    const result = await new Orchestrator({ store: stubborn, roles }).execute(order);
    expect(result.status).toBe(status);
    expect(await store.find(result.runId)).toMatchObject({ status: "open" });
    const next = new Orchestrator({ store, roles });
    expect(await next.execute(order, { takeOverAfterMs: 0 })).toEqual(result);
    expect(await store.find(result.runId)).toMatchObject({ status: rest, owner: null });
  },
);

test.each(["create", "append"] as const)(
  "reports an error that %s of a store throws as store_failed, with a reason",
  async (method) => {
    const store: Store = forwarding(memoryStore(), { [method]: () => Promise.reject(broken) });
    const run = new Orchestrator({ store }).start(role, "Go.");
    expect(await rejectionOf(run.result)).toMatchObject({
      code: "store_failed",
      data: { reason: "other", isTransient: false },
    });
  },
);

test.each([
  ["was not reached", false],
  ["lost the acknowledgement", true],
])("starts a run although the store %s at first", async (_what, isTaken) => {
  const [store, clock] = [memoryStore(), new ManualClock()];
  let attempts = 0;
  const distant: Store = forwarding(store, {
    create: async (...asked) => {
      attempts += 1;
      if (isTaken || attempts === 3) await store.create(...asked);
      if (attempts < 3) throw createStoreError("connection", "Expected the store, got nothing.");
      return await store.create(...asked);
    },
  });
  const run = new Orchestrator({ store: distant, clock }).start(role, "Go.");
  for (const delayMs of [20, 100]) {
    await turns(10);
    clock.advance(delayMs);
  }
  expect(await run.result).toMatchObject({ status: "completed", text: "Done." });
  expect([attempts, (await store.find(run.runId))?.epoch]).toEqual([3, 1]);
});

async function pausedRun(store: Store): Promise<PausedRun> {
  const { pausedRun: paused } = await new Orchestrator({ store }).start(cautious, "Go.").result;
  if (paused === undefined) throw new Error("It is not paused.");
  return paused;
}

test.each(["find", "claim"] as const)(
  "resumes a pause after a failure of the store at %s",
  async (method) => {
    const store = memoryStore();
    const paused = await pausedRun(store);
    let isBroken = true;
    const asked = <T>(ask: () => Promise<T>): Promise<T> =>
      isBroken ? Promise.reject(broken) : ask();
    const works = forwarding(store);
    const failing = {
      find: (...given: Parameters<Store["find"]>) => asked(() => store.find(...given)),
      claim: (...given: Parameters<Store["claim"]>) => asked(() => store.claim(...given)),
    };
    const own: Store = { ...works, [method]: failing[method] };
    const orchestrator = new Orchestrator({ store: own, roles: [cautious] });
    const answers = paused.questions.map((question) => approve(question));
    const error = await rejectionOf(orchestrator.resume(paused, { answers }).result);
    expect(error).toMatchObject({ code: "store_failed" });
    isBroken = false;
    const run = orchestrator.resume(paused, { answers });
    expect(await run.result).toMatchObject({ status: "completed", text: "Paid." });
    expect(() => orchestrator.resume(paused, { answers })).toThrow(/it was already resumed/);
  },
);

test("resumes a pause into another store whose first process died before it wrote a record", async () => {
  const paused = await pausedRun(memoryStore());
  const store = memoryStore();
  const owner = { token: "gone", hostname: "here", processId: 1 };
  await store.release(await store.create(paused.runId, "Go.", owner), "paused");
  const answers = paused.questions.map((question) => approve(question));
  const run = new Orchestrator({ store, roles: [cautious] }).resume(paused, { answers });
  expect(await run.result).toMatchObject({ status: "completed", text: "Paid." });
  expect(await store.find(paused.runId)).toMatchObject({ status: "ended", epoch: 2 });
});

test("resolves messages to a run that cannot be persisted as undelivered", async () => {
  const store = memoryStore();
  let appends = 0;
  let before: Promise<unknown> | undefined;
  const full: Store = forwarding(store, {
    append: async (...asked) => {
      appends += 1;
      if (appends > 1) {
        before = run.steer("Are you there?");
        throw createStoreError("full", "Expected room, got none.");
      }
      await store.append(...asked);
    },
  });
  const run = new Orchestrator({ store: full }).start(role, "Go.");
  expect(await rejectionOf(run.result)).toMatchObject({ code: "store_failed" });
  const unread = { isDelivered: false, reason: "cancelled" };
  expect([await before, await run.steer("And now?")]).toEqual([unread, unread]);
  expect(await rejectionOf(run.cancel())).toMatchObject({ code: "store_failed" });
});
