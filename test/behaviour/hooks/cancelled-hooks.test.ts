// Goal: a hook never outlives its agent by more than the grace period, and hooks do not turn a
// cancelled run into a failed one.
// Method: at every point, a hook that hangs, one that rejects on its signal, and one whose own time
// limit expires meanwhile.

import { expect, test } from "vitest";

import { processStep, transform, type Hook } from "../../../src/hooks/hook.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, type Fixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { hang, heed, SITES, treeWith, type HookSite } from "../../support/hook-sites.ts";
import { quiet, until } from "../../harness/scripted-agents.ts";

const GRACE_MS = 300;

/** A run that has reached its hook, which does `work`. */
async function arrived(
  fixture: Fixture,
  { point, hook }: HookSite,
  work: (signal: AbortSignal) => unknown,
): Promise<Run> {
  let isCalled = false;
  const { lead } = treeWith(
    point,
    hook((signal) => ((isCalled = true), work(signal))),
  );
  const run = fixture.start(lead.role);
  await until(() => isCalled);
  return run;
}

function ending({ status, reason, agents }: RunResult): readonly unknown[] {
  return [status, reason.message, agents.flatMap(({ errors }) => errors)];
}

for (const site of SITES) {
  proves(
    ["X33"],
    `delays a cancel for the grace period only if a hook hangs at ${site.point}`,
    async () => {
      const fixture = newFixture({ graceMs: GRACE_MS });
      const run = await arrived(fixture, site, hang);
      const cancelled = run.cancel("Enough.");
      await quiet();
      fixture.clock.advance(GRACE_MS - 1);
      await quiet();
      expect(fixture.sink.ofType("run.ended")).toEqual([]);
      fixture.clock.advance(1);
      await quiet();
      expect(fixture.sink.ofType("run.ended").map(({ status }) => status)).toEqual(["cancelled"]);
      await cancelled;
      expect(ending(await fixture.outcome(run))).toEqual(["cancelled", "Enough.", []]);
    },
  );

  test(`reports cancelled, not failed, if a hook at ${site.point} rejects on its signal`, async () => {
    const fixture = newFixture({ graceMs: GRACE_MS });
    const run = await arrived(fixture, site, heed);
    void run.cancel("Enough.");
    expect(ending(await fixture.outcome(run))).toEqual(["cancelled", "Enough.", []]);
  });

  test(`reports cancelled if the time limit of a hook at ${site.point} expires within the grace period`, async () => {
    const fixture = newFixture({ graceMs: GRACE_MS, hookTimeoutMs: GRACE_MS - 1 });
    const run = await arrived(fixture, site, hang);
    void run.cancel("Enough.");
    await quiet();
    fixture.clock.advance(GRACE_MS - 1);
    await quiet();
    fixture.clock.advance(1);
    await quiet();
    expect(ending(await fixture.outcome(run))).toEqual(["cancelled", "Enough.", []]);
  });
}

test("stops the run with time_limit if the limit expires while a hook hangs", async () => {
  const fixture = newFixture({ graceMs: GRACE_MS });
  let isCalled = false;
  const hooks = [transform("beforeModel", () => ((isCalled = true), hang()))];
  const run = fixture.start(soloist([], { hooks }).role, "Do it.", { budget: { timeMs: 50 } });
  await until(() => isCalled);
  fixture.clock.advance(50);
  await quiet();
  fixture.clock.advance(GRACE_MS);
  const result = await fixture.outcome(run);
  expect([result.status, result.reason.code, result.agents[0]?.errors]).toEqual([
    "stopped",
    "time_limit",
    [],
  ]);
});

test("does not wait for a hook that cancels its own run and awaits the result", async () => {
  const fixture = newFixture({ graceMs: GRACE_MS });
  const late = latch();
  const cancels = transform("beforeModel", async () => {
    await run.cancel("From within.");
    late.open();
  });
  const { role, model } = soloist([], { hooks: [cancels] });
  const run = fixture.start(role);
  await quiet();
  fixture.clock.advance(GRACE_MS);
  const result = await fixture.outcome(run);
  await late.opened;
  expect([...ending(result), model.requests.length]).toEqual(["cancelled", "From within.", [], 0]);
});

test("runs no further hook for an ending agent after a hook was abandoned", async () => {
  const called: string[] = [];
  const note = (name: string): Hook => transform("beforeModel", () => void called.push(name));
  const hooks = [
    transform("userInput", () => (called.push("userInput"), hang())),
    note("beforeModel"),
  ];
  const fixture = newFixture({ graceMs: GRACE_MS });
  const run = fixture.start(soloist([], { hooks }).role);
  await until(() => called.length > 0);
  void run.cancel("Enough.");
  await quiet();
  fixture.clock.advance(GRACE_MS);
  expect([...ending(await fixture.outcome(run)), called]).toEqual([
    "cancelled",
    "Enough.",
    [],
    ["userInput"],
  ]);
});

test("takes one grace period to cancel, however many hooks hang", async () => {
  const called: string[] = [];
  const hooks = [
    transform("userInput", () => (called.push("userInput"), hang())),
    transform("beforeModel", () => (called.push("beforeModel"), hang())),
  ];
  const fixture = newFixture({ graceMs: GRACE_MS });
  const run = fixture.start(soloist([], { hooks }).role);
  await until(() => called.length > 0);
  void run.cancel("Enough.");
  await quiet();
  fixture.clock.advance(GRACE_MS);
  await quiet();
  const endedAtMs = fixture.sink.ofType("run.ended").map(({ atMs }) => atMs);
  fixture.clock.advance(GRACE_MS);
  await fixture.outcome(run);
  expect(endedAtMs).toEqual([GRACE_MS]);
});

test("reports cancelled if a processor rejects on its signal, whenever the cancel came", async () => {
  const held = latch();
  const fixture = newFixture({ graceMs: GRACE_MS });
  const heeds = processStep(async (_step, { signal }) => {
    signal.throwIfAborted();
    await Promise.resolve();
  });
  const run = fixture.start(
    soloist([says("late", { after: held.opened })], { hooks: [heeds] }).role,
  );
  await quiet();
  void run.cancel("Enough.");
  expect(ending(await fixture.outcome(run))).toEqual(["cancelled", "Enough.", []]);
});
