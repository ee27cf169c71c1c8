// Goal: a run that waited for its slot when its process crashed starts in the next process, with
// its whole time limit.
// Method: processes with one slot, which a held run occupies, that end as by `kill -9`; a manual
// clock.

import { expect } from "vitest";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { loadRecording, replay } from "../../../src/testing/index.ts";
import { says, ScriptedModel } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch } from "../../harness/run-scripted.ts";
import { engineWorld, runId, turns, type EngineWorld } from "../../support/engine/engine-world.ts";
import { mortalProcess } from "../engines/mortal-process.ts";

/** Time after which the owner of a run counts as lost. */
const STALE_MS = 40_000;
const TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

const never = latch().opened;

function waiting(name: string): AgentRole {
  const model = new ScriptedModel(() => says("Never.", { after: never }));
  return defineAgent({ name, instructions: "Wait.", model });
}

const ROLES = [waiting("held"), waiting("queued")] as const;

/** Begins the run, or recovers all runs, behind a held run in a process that dies soon. */
async function queueAndDie(world: EngineWorld, how: "start" | "recover"): Promise<void> {
  const { orchestrator, die } = mortalProcess(world, { roles: ROLES, maxConcurrentRuns: 1 });
  orchestrator.start(ROLES[0], "Hold.");
  const given = { runId: "queued", budget: { timeMs: 1_000 }, traceparent: TRACEPARENT };
  if (how === "start") await orchestrator.start(ROLES[1], "Go.", given).whenPersisted();
  else await orchestrator.resume("queued");
  await turns(20);
  void die();
  world.clock.advance(STALE_MS);
}

for (const crashes of [1, 2])
  proves(
    ["D775"],
    `starts a queued run with its whole time limit after ${crashes} crashes`,
    async () => {
      const world = engineWorld();
      await queueAndDie(world, "start");
      if (crashes === 2) await queueAndDie(world, "recover");
      const orchestrator = world.process({ roles: ROLES });
      const run = await world.pushed(orchestrator.resume("queued"));
      const { reason, durationMs, accounts, agents } = await world.pushed(run.result);
      const [first] = orchestrator.sink.events;
      expect([first?.seq, first?.type, first]).toMatchObject([
        1,
        "run.started",
        { budget: { timeMs: 1_000 }, traceparent: TRACEPARENT },
      ]);
      expect([reason.code, durationMs]).toEqual(["time_limit", 1_000]);
      expect([agents[0]?.pausedMs, accounts[0]?.pausedMs]).toEqual([0, crashes * STALE_MS]);
      const recording = await loadRecording(world.store, "queued");
      expect((await replay(recording, { role: ROLES[1] })).reason.code).toBe("time_limit");
    },
  );

proves(["D806"], "keeps the origin of a fork that crashed while it was queued", async () => {
  const world = engineWorld();
  const role = defineAgent({
    name: "queued",
    instructions: "Work.",
    model: new ScriptedModel([says("Done."), says("Again.")]),
  });
  const first = world.process({ roles: [role] });
  const { traceId } = await world.pushed(first.start(role, "Go.", { runId: "original" }).result);
  const { orchestrator, die } = mortalProcess(world, {
    roles: [ROLES[0], role],
    maxConcurrentRuns: 1,
  });
  orchestrator.start(ROLES[0], "Hold.");
  const fork = await orchestrator.fork("original", { message: "Go on." });
  await fork.whenPersisted();
  void die();
  world.clock.advance(STALE_MS);
  const next = world.process({ roles: [role] });
  const resumed = await world.pushed(next.resume(fork.runId));
  expect((await world.pushed(resumed.result)).text).toBe("Again.");
  expect(next.sink.events[0]).toMatchObject({
    type: "run.started",
    forkedFrom: { runId: "original", stepNumber: 1, traceId },
  });
});

proves(["D801"], "counts no crash of a run that only waited for its slot", async () => {
  const world = engineWorld();
  await queueAndDie(world, "start");
  for (let crashes = 2; crashes <= 7; crashes += 1) await queueAndDie(world, "recover");
  const { status, crashCount, isQueued } = (await world.store.find(runId("queued"))) ?? {};
  expect([status, crashCount, isQueued]).toEqual(["open", 0, true]);
});

proves(
  ["D801"],
  "counts the crash of a run that began after it had waited for its slot",
  async () => {
    const world = engineWorld();
    const { orchestrator, die } = mortalProcess(world, { roles: ROLES, maxConcurrentRuns: 1 });
    const held = orchestrator.start(ROLES[0], "Hold.");
    orchestrator.start(ROLES[1], "Go.", { runId: "queued" });
    await turns(20);
    await held.cancel();
    await turns(20);
    void die();
    world.clock.advance(STALE_MS);
    await queueAndDie(world, "recover");
    const { crashCount, isQueued } = (await world.store.find(runId("queued"))) ?? {};
    expect([crashCount, isQueued]).toEqual([1, true]);
  },
);

proves(
  ["D775"],
  "counts no time between processes that crashed while the resumed run was queued",
  async () => {
    const world = engineWorld();
    const { orchestrator, die } = mortalProcess(world, { roles: ROLES });
    orchestrator.start(ROLES[1], "Go.", { runId: "queued", budget: { timeMs: 1_000 } });
    await turns(20);
    world.clock.advance(300); // Also writes the events.
    await turns(20);
    void die();
    world.clock.advance(STALE_MS);
    await queueAndDie(world, "recover");
    const last = world.process({ roles: ROLES });
    const run = await world.pushed(last.resume("queued"));
    const { accounts, reason } = await world.pushed(run.result);
    expect(last.sink.events[0]).toMatchObject({
      type: "run.resumed",
      budget: { timeMs: 1_000 },
      pausedMs: 2 * STALE_MS + 300,
    });
    expect([reason.code, accounts[0]?.pausedMs]).toEqual(["time_limit", 2 * STALE_MS + 300]);
  },
);
