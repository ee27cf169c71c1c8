// Goal: a recovery charges the model calls that may have been sent, and no others; a charge is
// never too low.
// Method: a run dies at each of its appends. A model counts the requests that it received; those
// whose outcome is not in the journal must be charged, and all other open leases released.

import { expect } from "vitest";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { Model } from "../../../src/model/model.ts";
import { wrapModelCall } from "../../../src/hooks/hook.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { sequentialIds } from "../../../src/testing/sequential-ids.ts";
import { proves } from "../../harness/proves.ts";
import { UNWATCHED } from "../../harness/scripted-agents.ts";
import { named, turns } from "../../support/journal/crash-play.ts";
import { DEATHS, dyingStore, type Kill } from "../../support/journal/dying-store.ts";
import { checkRecordedOnce } from "../../support/journal/recorded-once.ts";
import { storedRecords } from "../../support/journal/stored-events.ts";
import { eventsIn } from "../../support/journal/stored-story.ts";
import { spawnCall, thinker } from "../../support/journal/thinkers.ts";

/** Returns one process of a lead with `size` workers, with at most one model call in flight. */
function processOf(size: number) {
  const count = { received: 0 };
  const counted = (model: Model): Model => ({
    ...model,
    generate: async (request, options) => {
      count.received += 1;
      await turns(2);
      return await model.generate(request, options);
    },
  });
  const worker = defineAgent({
    name: "worker",
    description: "Works",
    instructions: "You work.",
    model: counted(thinker("worker", () => ({ text: "worked" }))),
  });
  const calls = Array.from({ length: size }, (_one, index) => spawnCall("worker", `Do ${index}.`));
  const lead = defineAgent({
    name: "lead",
    instructions: "You lead.",
    model: counted(
      thinker("lead", ({ results }) => (results.length === 0 ? { calls } : { text: "done" })),
    ),
    subagents: [worker],
    delegation: UNWATCHED,
  });
  return { count, lead };
}

/**
 * Kills a run once and recovers it. Returns its appends, and how many calls were received, charged
 * as lost and released.
 */
async function killed(size: number, kill?: Kill) {
  const store = memoryStore({ clock: new ManualClock() });
  const ids = sequentialIds();
  const limits = { maxBreadthPerParent: size, maxTotalSubagents: size };
  const concurrency = { modelCalls: 1 };
  const options = () => ({ clock: new ManualClock(), ids, limits, concurrency });
  const dying = dyingStore(store, kill);
  const first = processOf(size);
  const run = new Orchestrator({ ...options(), store: dying.store }).start(first.lead, "Go.");
  await run.settled.catch(() => undefined);
  await turns(5);
  const { appends } = dying;
  const [stored] = await store.list({});
  if (kill === undefined || stored === undefined || stored.recordCount === 0)
    return { appends, unknown: 0, lost: 0, released: 0 };
  const records = await storedRecords(store, run.runId);
  const ended = records.filter((record) => record.type === "effect" && "leaseId" in record).length;
  if (stored.status === "open") {
    const { lead: role } = processOf(size);
    const orchestrator = new Orchestrator({ ...options(), store });
    const again = await orchestrator.resume(run.runId, { role, takeOver: true });
    expect((await again.settled).status).toBe("completed");
  }
  const events = eventsIn(await storedRecords(store, run.runId));
  checkRecordedOnce(events);
  const lost = events.flatMap((event) =>
    event.type === "budget.settled" && event.lostCall !== undefined ? [event.usage] : [],
  );
  for (const { inputTokens, modelCalls } of lost)
    expect([inputTokens > 0, modelCalls]).toEqual([true, 1]);
  const released = events.filter(({ type }) => type === "budget.released").length;
  return { appends, unknown: first.count.received - ended, lost: lost.length, released };
}

proves(
  ["D443"],
  "charges every call that a dead process had sent, and at most one more for each slot",
  async () => {
    const { appends } = await killed(6);
    expect(appends).toBeGreaterThan(8);
    for (const how of DEATHS)
      // The run has ended once its last append is persisted.
      for (let at = 1; at < appends; at += 1) {
        const { unknown, lost } = await named({ at, how }, () => killed(6, { at, how }));
        expect([at, how, lost >= unknown, lost <= 1]).toEqual([at, how, true, true]);
      }
  },
);

proves(
  ["D443"],
  "releases the leases of 41 calls that waited for the slot of a sent one when the process died",
  async () => {
    const { appends } = await killed(42);
    const most = { lost: 0, released: 0 };
    for (let at = 4; at <= Math.min(appends, 12); at += 1) {
      const { unknown, lost, released } = await killed(42, { at, how: "before" });
      expect([at, lost >= unknown, lost <= 1]).toEqual([at, true, true]);
      if (released > most.released) Object.assign(most, { lost, released });
    }
    expect(most).toEqual({ lost: 1, released: 41 });
  },
);

/**
 * Returns an agent whose hook makes two calls at once. Its model reports no usage, so that each
 * call costs its estimate.
 */
function hedger(latencyTurns: number) {
  const count = { received: 0 };
  const quiet = thinker("solo", () => ({ text: "done" }), { isCounting: false });
  const model: Model = {
    ...quiet,
    generate: async (request, options) => {
      count.received += 1;
      await turns(latencyTurns * count.received);
      return await quiet.generate(request, options);
    },
  };
  const hedge = wrapModelCall(async (_call, next) => await Promise.race([next(), next()]));
  const role = defineAgent({ name: "solo", instructions: "You work.", model, hooks: [hedge] });
  return { count, role };
}

/**
 * Kills the run of a hedger and recovers it. Returns its appends, the calls received and those
 * charged.
 */
async function killedHedger(kill?: Kill) {
  const store = memoryStore({ clock: new ManualClock() });
  const clock = new ManualClock();
  const dying = dyingStore(store, kill);
  const [first, second] = [hedger(5), hedger(5)];
  const run = new Orchestrator({ clock, store: dying.store }).start(first.role, "Go.");
  await run.settled.catch(() => undefined);
  await turns(30);
  const { appends } = dying;
  if (kill === undefined) return { appends, received: 0, charged: 0 };
  const next = new Orchestrator({ clock, store });
  const again = await next.resume(run.runId, { role: second.role, takeOver: true });
  const { usage } = await again.result;
  const [estimate = 0] = eventsIn(await storedRecords(store, run.runId)).flatMap((event) =>
    event.type === "model.requested" ? [event.estimatedInputTokens] : [],
  );
  const received = first.count.received + second.count.received;
  return { appends, received, charged: usage.total.inputTokens / estimate };
}

proves(["D445"], "charges each of the calls that hooks had in flight at once", async () => {
  const { appends } = await killedHedger();
  expect(appends).toBeGreaterThan(3);
  for (const how of DEATHS)
    // Before the second append nothing is persisted, and with the last one the run has ended.
    for (let at = 2; at < appends; at += 1) {
      const { received, charged } = await named({ at, how }, () => killedHedger({ at, how }));
      expect([at, how, charged >= received, charged <= received + 1]).toEqual([
        at,
        how,
        true,
        true,
      ]);
    }
});
