// Goal: a late reader reads the recorded events from any number on, and then the live ones, without
// gaps and duplicates.
// Method: runs in a memory store, read from each of their events, during the run, after its end,
// after a pause and after crashes.

import { expect } from "vitest";

import { EspalierError } from "../../../src/kernel/error.ts";
import { omitUndefined } from "../../../src/kernel/json.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { OrchestratorOptions } from "../../../src/orchestrator/tree/orchestrator-settings.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import { approve } from "../../../src/protocol/question.ts";
import type { Store } from "../../../src/store/store.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { sequentialIds } from "../../../src/testing/sequential-ids.ts";
import { dyingStore } from "../../support/journal/dying-store.ts";
import { forwarding } from "../../support/journal/forwarding-store.ts";
import { storedEvents } from "../../support/journal/stored-events.ts";
import { thinker } from "../../support/journal/thinkers.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { SaidSteps } from "../../support/said.ts";
import { allOf } from "../../support/all-of.ts";
import { rejectionOf, thrownBy } from "../../support/thrown.ts";
import { calls, part, spawn } from "../../harness/scripted-agents.ts";

function family(held?: Promise<void>) {
  const helper = part("helper", [says("Part done.", held === undefined ? {} : { after: held })]);
  return part("lead", [calls(spawn("helper", "Help.")), says("All done.")], {
    subagents: [helper.role],
  });
}

const kept = (): { readonly store: ReturnType<typeof memoryStore> } => ({
  store: memoryStore({ clock: new ManualClock() }),
});

proves(["F5"], "`events({ from })` reads from any event on, during and after the run", async () => {
  const held = latch();
  const fixture = newFixture(kept());
  const run = fixture.start(family(held.opened).role);
  for (let turn = 0; turn < 50; turn += 1) await flushEventLoop();
  const before = fixture.sink.events.length;
  expect(before).toBeGreaterThan(8);
  const early = Array.from({ length: before + 4 }, (_one, index) =>
    run.events({ from: index + 1 }),
  );
  const helperId = fixture.sink.events.find(({ depth }) => depth === 1)?.agentId ?? expect.fail();
  const ofHelper = run.events({ from: 1, agentId: helperId });
  held.open();
  await fixture.outcome(run);
  const all = fixture.sink.events;
  const late = all.map(({ seq }) => run.events({ from: seq }));
  for (const [index, events] of early.entries()) {
    const read = await allOf(events);
    expect(read).toEqual(all.slice(index));
    expect(read.every(Object.isFrozen)).toBe(true);
  }
  for (const [index, events] of late.entries())
    expect(await allOf(events)).toEqual(all.slice(index));
  expect(await allOf(ofHelper)).toEqual(all.filter(({ agentId }) => agentId === helperId));
  expect(await allOf(run.events({ from: all.length + 1 }))).toEqual([]);
});

proves(
  ["F5"],
  "`events({ from })` throws for past events without a store, except in the first tick",
  async () => {
    const fixture = newFixture();
    const run = fixture.start(family().role);
    const first = run.events({ from: 1 });
    await fixture.outcome(run);
    expect(await allOf(first)).toEqual(fixture.sink.events);
    expect(thrownBy(() => run.events({ from: 3 }))).toEqual({
      code: "events_not_persisted",
      message:
        "Cannot read event 3 of the run: it is past, and the run has no store. Leave from out to read from the next event, or give the orchestrator a store.",
      data: { from: 3 },
    });
    for (const from of [0, 1.5, -1, Number.NaN])
      expect(() => run.events({ from })).toThrow(/number of an event, from 1/);
  },
);

const PAYS = { tools: [spyTool("pay", undefined, { needsApproval: true })] };
const pays = () => soloist([says("Paid.")], PAYS);

proves(
  ["F5"],
  "`events({ from })` reads across a pause, and its error names the first persisted event",
  async () => {
    const options = kept();
    const fixture = newFixture(options);
    const paused = await fixture.run(soloist([asks("pay", {})], PAYS).role);
    const [question] = paused.questions;
    const answers = question === undefined ? [] : [approve(question)];
    const run = fixture.resume(pays().role, paused.pausedRun, answers);
    await flushEventLoop();
    const late = run.events({ from: 1 });
    await fixture.outcome(run);
    expect(await allOf(late)).toEqual(fixture.sink.events);

    const unkept = newFixture();
    const left = await unkept.run(soloist([asks("pay", {})], PAYS).role);
    const [asked] = left.questions;
    const more = asked === undefined ? [] : [approve(asked)];
    const later = unkept.resume(pays().role, left.pausedRun, more, kept());
    await later.result.catch(() => undefined);
    const count =
      left.pausedRun === undefined
        ? 0
        : unkept.sink.events.findIndex(({ type }) => type === "run.resumed");
    const error = await rejectionOf(allOf(later.events({ from: 2 })));
    expect([error.code, error.data]).toEqual([
      "events_not_persisted",
      { from: 2, keptFrom: count + 1 },
    ]);
    expect((await allOf(later.events({ from: count + 1 }))).map(({ seq }) => seq)[0]).toBe(
      count + 1,
    );
  },
);

const TWO_STEPS = defineAgent({
  name: "lead",
  instructions: "You lead.",
  model: thinker("lead", ({ results }) =>
    results.length === 0 ? { calls: [["work", {}]] } : { text: "All is done." },
  ),
  tools: [spyTool("work")],
});

/**
 * Plays a run that crashes at each of its appends, and resumes it. Returns the number of resumed
 * runs.
 */
async function dyingEverywhere(
  onStreamPart: () => OrchestratorOptions["onStreamPart"],
  check: (run: Run, store: Store) => Promise<void>,
): Promise<number> {
  for (let at = 1, recovered = 0; ; at += 1) {
    const store = memoryStore({ clock: new ManualClock() });
    const dying = dyingStore(store, { at, how: "after" });
    const all = {
      clock: new ManualClock(),
      ids: sequentialIds(),
      roles: [TWO_STEPS],
      ...omitUndefined({ onStreamPart: onStreamPart() }),
    };
    const first = new Orchestrator({ ...all, store: dying.store }).start(TWO_STEPS, "Do it.");
    await first.result.catch(() => undefined);
    if (!dying.isDead) return recovered;
    const next = new Orchestrator({ ...all, store });
    const run = await next.resume(first.runId, { takeOver: true }).catch(passIfEnded);
    if (run === undefined) continue;
    recovered += 1;
    await check(run, store);
  }
}

/** Ignores a crash after which only the release of the ownership was missing. */
function passIfEnded(error: unknown): undefined {
  if (!EspalierError.is(error) || error.code !== "run_ended") throw error;
}

proves(
  ["F5"],
  "a run that crashed at any append and was recovered is readable from any event",
  async () => {
    const recovered = await dyingEverywhere(
      () => undefined,
      async (run, store) => {
        await flushEventLoop();
        const late = run.events({ from: 1 });
        await run.result;
        const stored = await storedEvents(store, run.runId);
        expect(stored.map(({ seq }) => seq)).toEqual(stored.map((_one, index) => index + 1));
        expect(await allOf(late)).toEqual(stored);
        for (const { seq } of stored)
          expect(await allOf(run.events({ from: seq }))).toEqual(stored.slice(seq - 1));
      },
    );
    expect(recovered).toBeGreaterThan(3);
  },
);

proves(["F3"], "output of a crashed process is reset only where it is repeated", async () => {
  let said = new SaidSteps();
  const resets = new Set<string>();
  const listen = () => (said = new SaidSteps()).take;
  await dyingEverywhere(listen, async (run) => {
    const { steps } = await run.result;
    for (const { stepId, io, tools } of steps) {
      const { text, calls: saidCalls, resets: own } = said.of(stepId);
      const ids = (list: readonly { readonly callId: string }[]) =>
        list.map(({ callId }) => callId);
      expect([text, ids(saidCalls)]).toEqual([io.text, ids(tools.calls)]);
      for (const reset of own) resets.add(reset);
    }
    expect(said.results.size).toBe(1);
  });
  expect([...resets]).toEqual(["recovered", "joined"]); // The second: its reply was persisted, and is emitted once more.
});

proves(["F5"], "a reader that returns early closes its read of the store", async () => {
  const { store } = kept();
  const reading = forwarding(store);
  let isLeft = false;
  const fixture = newFixture({
    store: {
      ...reading,
      read: async function* (...asked) {
        try {
          yield* store.read(...asked);
          throw new EspalierError({ code: "store_failed", message: "The disk is gone." });
        } finally {
          isLeft = true;
        }
      },
    },
  });
  const run = fixture.start(family().role);
  await fixture.outcome(run);
  const events = run.events({ from: 1 });
  await events.next();
  expect(isLeft).toBe(false);
  expect(await events.return?.()).toEqual({ done: true, value: undefined });
  await flushEventLoop();
  expect([isLeft, await events.next()]).toEqual([true, { done: true, value: undefined }]);
});

proves(
  ["F5"],
  "parallel reads are answered in order where past events meet live ones",
  async () => {
    const held = latch();
    const { role } = soloist([says("Done.", { after: held.opened })]);
    const fixture = newFixture({ store: memoryStore({ clock: new ManualClock() }) });
    const run = fixture.start(role);
    for (let turn = 0; turn < 20; turn += 1) await flushEventLoop();
    const from = fixture.sink.events.length;
    const events = run.events({ from });
    const reads = [events.next(), events.next(), events.next()];
    for (let turn = 0; turn < 20; turn += 1) await flushEventLoop();
    reads.push(events.next());
    held.open();
    await fixture.outcome(run);
    const seqs = (await Promise.all(reads)).map(({ value }) => value?.seq);
    expect(seqs).toEqual([from, from + 1, from + 2, from + 3]);
  },
);
