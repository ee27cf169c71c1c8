// Goal: a hook never outlives its agent by more than the grace period, and a cancelled run is cancelled, not failed, by its hooks.
// Method: at every site, a hook that hangs, one that obeys its signal by rejecting, and one whose own time runs out meanwhile.

import { expect, test } from "vitest";

import { processStep, transform, type Hook } from "../../../src/hooks/hook.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, type Fixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { hang, heed, SITES, treeWith, type HookSite } from "../../support/hook-sites.ts";
import { quiet, until } from "../../tree/scripted-agents.ts";

const GRACE_MS = 300;

/** A run that has come to its hook, which does `work`. */
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
    `a hook that hangs at ${site.point} holds up a cancel for the grace period and no longer`,
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

  test(`a hook at ${site.point} that obeys its signal by rejecting ends with a cancelled run, not with a failed one`, async () => {
    const fixture = newFixture({ graceMs: GRACE_MS });
    const run = await arrived(fixture, site, heed);
    void run.cancel("Enough.");
    expect(ending(await fixture.outcome(run))).toEqual(["cancelled", "Enough.", []]);
  });

  test(`a hook at ${site.point} whose own time runs out within the grace period does not make a cancelled run a failed one`, async () => {
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

test("a time limit that passes while a hook hangs stops the run with its own reason", async () => {
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

test("a hook that cancels its own run and waits for the result is not waited for", async () => {
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

test("after a hook was left behind, no other one is set going for the agent that ends", async () => {
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

test("however many hooks hang, a cancel takes one grace period", async () => {
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

test("a processor that obeys its signal does not make a cancelled run a failed one, wherever the cancel came", async () => {
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
