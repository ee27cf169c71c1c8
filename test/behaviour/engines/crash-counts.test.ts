// Goal: what counts as a crash of a run, and how the run ends after too many.
// Method: processes that end as by `kill -9` during a tool call, over an in-memory store, by a
// manual clock.

import { describe, expect } from "vitest";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { storeEngine } from "../../../src/engine/store-engine.ts";
import { observe } from "../../../src/hooks.ts";
import { approve, type EspalierEvent } from "../../../src/index.ts";
import { readResult } from "../../../src/orchestrator/run/recover-run.ts";
import { proves } from "../../harness/proves.ts";
import { forwarding } from "../../support/journal/forwarding-store.ts";
import { countedTool, spawnCall, thinker } from "../../support/journal/thinkers.ts";
import { rejectionOf } from "../../support/thrown.ts";
import {
  clientOf,
  doings,
  engineWorld,
  solo,
  turns,
  type EngineWorld,
} from "../../support/engine/engine-world.ts";
import { mortalProcess, untilDead, type MortalProcess } from "./mortal-process.ts";
import {
  crashesOf,
  passed,
  poison,
  POISON,
  recoverAndDie,
  startAndDie,
  type Cast,
} from "./poison-cast.ts";

describe("the crash count", () => {
  proves(
    ["D469"],
    "ignores releases, answers, resumes and takeovers from a live owner",
    async () => {
      const world = engineWorld();
      const { store, pushed } = world;
      const role = solo(doings(), {
        name: "poison",
        count: 2,
        hold: async (nth) => (nth === 1 ? await passed(world.clock, 60_000) : undefined),
        tool: { needsApproval: true },
      });
      const options = { roles: [role] };
      const first = world.process(options);
      const run = first.start(role, "Go.", { runId: POISON });
      const asked = await pushed(run.result);
      const counted: unknown[] = [];
      const count = async (): Promise<void> => {
        const { crashCount: crashes, lastCrashAtMs, epoch } = (await store.find(POISON)) ?? {};
        counted.push([crashes, lastCrashAtMs, epoch]);
      };
      const [question] = asked.questions;
      if (asked.pausedRun === undefined || question === undefined) throw new Error("No pause.");
      const second = world.process(options);
      const resumed = second.resume(asked.pausedRun, { answers: [approve(question)] });
      const askedAgain = await pushed(resumed.result);
      await count();
      const [other] = askedAgain.questions;
      if (other === undefined) throw new Error("No question.");
      await second.close();
      const third = world.process(options);
      await third.answer(POISON, [approve(other)]);
      const answered = await pushed(third.resume(POISON));
      await answered.release({ graceMs: 0 });
      await rejectionOf(answered.result);
      await count();
      const fourth = world.process(options);
      const held = await pushed(fourth.resume(POISON));
      const fifth = world.process(options);
      const taken = await pushed(fifth.resume(POISON, { takeOver: true }));
      await count();
      held.result.catch(() => undefined);
      expect((await pushed(taken.result)).status).toBe("completed");
      expect(counted).toEqual([
        [0, null, 2],
        [0, null, 3],
        [0, null, 5],
      ]);
    },
  );

  proves(["D465"], "restarts after each completed step or tool call", async () => {
    const world = engineWorld();
    const cast: Cast = { now: undefined, kills: 0 };
    const counted: (number | undefined)[] = [];
    // The second call ends the process: in the first life after progress, then without.
    const hold = async (nth: number): Promise<unknown> => {
      await passed(world.clock, 100);
      counted.push(await crashesOf(world));
      return nth === 1 && cast.kills++ < 3 ? await cast.now?.die() : undefined;
    };
    const role = solo(doings(), { name: "poison", count: 3, hold });
    await startAndDie(world, cast, role);
    await recoverAndDie(world, cast, role);
    await recoverAndDie(world, cast, role);
    const life = mortalProcess(world, { roles: [role] });
    const run = await world.pushed(life.orchestrator.resume(POISON));
    expect((await world.pushed(run.result)).status).toBe("completed");
    expect(counted).toEqual([0, 0, 1, 2, 3, 0]);
  });

  proves(
    ["D465"],
    "includes crashes in calls that must not be repeated, because an interruption is not progress",
    async () => {
      const world = engineWorld();
      const cast: Cast = { now: undefined, kills: 0 };
      const role = poison(world, cast, { count: 100, tool: { retryAfterCrash: false } });
      await startAndDie(world, cast, role);
      const counted: (number | undefined)[] = [];
      for (let life = 2; life <= 5; life += 1) {
        await recoverAndDie(world, cast, role);
        counted.push(await crashesOf(world));
      }
      const life = mortalProcess(world, { roles: [role] });
      const run = await world.pushed(life.orchestrator.resume(POISON));
      const { status, steps } = await world.pushed(run.result);
      // In each life the model learned that its call was interrupted, and made the next one.
      expect([counted, status, steps.length, cast.kills]).toEqual([[1, 2, 3, 4], "failed", 5, 5]);
    },
  );

  proves(["D462"], "includes crashes while the journal is read", async () => {
    const world = engineWorld();
    const { store } = world;
    const cast: Cast = { now: undefined, kills: 0 };
    const role = poison(world, cast);
    await startAndDie(world, cast, role);
    for (let life = 1; life <= 6; life += 1) {
      const reading: MortalProcess = mortalProcess(world, {
        roles: [role],
        store: forwarding(store, {
          read: async function* () {
            yield await reading.die();
          },
        }),
      });
      void reading.orchestrator.resume(POISON).catch(() => undefined);
      await (life <= 5 ? untilDead(world, reading) : turns(50));
    }
    const found = await store.find(POISON);
    expect([found?.status, found?.owner, found?.crashCount]).toEqual(["paused", null, 0]);
    expect(await rejectionOf(readResult(store, POISON))).toMatchObject({ code: "crash_loop" });
  });

  proves(["D462"], "includes crashes while the worker creates the context of the run", async () => {
    const world = engineWorld();
    const cast: Cast = { now: undefined, kills: 0 };
    const roles = [solo(doings(), { name: "poison" })];
    const client = clientOf(world);
    const run = await client.start("poison", "Go.", { runId: POISON });
    for (let nth = 1; nth <= 5; nth += 1) {
      const life = mortalProcess(world, { roles });
      cast.now = life;
      await life.orchestrator.startWorker(storeEngine({ clock: world.clock }), {
        context: () => life.die(),
      });
      await untilDead(world, life);
    }
    const last = mortalProcess(world, { roles });
    const worker = await last.orchestrator.startWorker(storeEngine({ clock: world.clock }));
    // The run has no journal that could end: it pauses with the reason.
    expect(await rejectionOf(world.pushed(run.getResult()))).toMatchObject({ code: "crash_loop" });
    await run.sendCommand({ type: "resume" });
    expect((await world.pushed(run.getResult())).status).toBe("completed");
    await world.pushed(worker.close());
  });
});

describe("a run that fails for its crashes", () => {
  /** A lead whose subagents work until one of them ends the process. */
  function tree(world: EngineWorld, cast: Cast, done: Map<string, number>): AgentRole {
    const hold = async ({ thing }: { readonly thing: string }): Promise<string> => {
      if (thing !== "boom") return `worked ${thing}`;
      await passed(world.clock, 100);
      cast.kills += 1;
      return (await cast.now?.die()) ?? "";
    };
    const leaf = defineAgent({
      name: "leaf",
      description: "Works.",
      instructions: "You work.",
      model: thinker("leaf", ({ task, results }) =>
        results.length === 0 ? { calls: [["work", { thing: task }]] } : { text: "done" },
      ),
      tools: [countedTool(done, "work", hold)],
    });
    const spawn = (task: string) => spawnCall("leaf", task);
    return defineAgent({
      name: "lead",
      description: "Leads.",
      instructions: "You lead.",
      model: thinker("lead", () => ({ calls: [spawn("fine"), spawn("boom"), spawn("boom")] })),
      subagents: [leaf],
    });
  }

  proves(
    ["D467"],
    "ends its subagents, releases its leases, and makes no further call",
    async () => {
      const world = engineWorld();
      const { store } = world;
      const cast: Cast = { now: undefined, kills: 0 };
      const done = new Map<string, number>();
      const role = tree(world, cast, done);
      await startAndDie(world, cast, role);
      for (let life = 2; life <= 5; life += 1) await recoverAndDie(world, cast, role);
      const before = [...done.values()];
      const last = mortalProcess(world, { roles: [role] });
      const run = await world.pushed(last.orchestrator.resume(POISON));
      const result = await world.pushed(run.result);
      expect([...done.values()]).toEqual(before);
      expect(result).toMatchObject({ status: "failed", reason: { code: "error" } });
      expect(result.errors).toEqual([
        {
          agentId: result.agents[0]?.agentId,
          agentPath: "lead",
          code: "crash_loop",
          message: result.reason.message,
          data: {
            runId: POISON,
            crashes: 5,
            calls: ["work of lead/leaf#3", "work of lead/leaf#2", "SpawnSubagent of lead"],
          },
        },
      ]);
      expect(result.reason.message).toMatch(/5 processes in a row died .* Calls in flight: /);
      expect(result.reason.message).toMatch(/Fix it and start a new run\.$/u);
      expect(result.agents.map(({ agentPath, status }) => [agentPath, status])).toEqual([
        ["lead", "failed"],
        ["lead/leaf#1", "completed"],
        ["lead/leaf#2", "cancelled"],
        ["lead/leaf#3", "cancelled"],
      ]);
      const events: EspalierEvent[] = [];
      for await (const event of clientOf(world).attach(POISON).events()) events.push(event);
      const count = (type: EspalierEvent["type"]): number =>
        events.filter((event) => event.type === type).length;
      expect([count("subagent.spawned"), count("subagent.ended"), count("agent.ended")]).toEqual([
        3, 3, 4,
      ]);
      expect(events.at(-1)).toMatchObject({ type: "run.ended", error: { code: "crash_loop" } });
      expect(await readResult(store, POISON)).toEqual(result);
      expect((await store.find(POISON))?.status).toBe("ended");
    },
  );

  proves(
    ["D468", "D497"],
    "pauses with crash_loop until it is resumed if its process dies even while failing it",
    async () => {
      const world = engineWorld();
      const cast: Cast = { now: undefined, kills: 0 };
      let isRepaired = false;
      const role = {
        ...poison(world, cast),
        hooks: [
          observe(["agent.ended"], () => {
            if (!isRepaired) void cast.now?.die();
          }),
        ],
      };
      const client = clientOf(world);
      const run = await client.start("poison", "Go.", { runId: POISON });
      for (let nth = 1; nth <= 6; nth += 1) {
        const life = mortalProcess(world, { roles: [role] });
        cast.now = life;
        await life.orchestrator.startWorker(storeEngine({ clock: world.clock }));
        await untilDead(world, life);
      }
      const last = mortalProcess(world, { roles: [role] });
      cast.now = undefined;
      const worker = await last.orchestrator.startWorker(storeEngine({ clock: world.clock }));
      const refusal = await rejectionOf(world.pushed(run.getResult()));
      expect(refusal.code).toBe("crash_loop");
      expect(refusal.message).toMatch(/Fix it and resume the run\.$/u);
      expect(await crashesOf(world)).toBe(0);
      isRepaired = true;
      await run.sendCommand({ type: "resume" });
      expect((await world.pushed(run.getResult())).status).toBe("completed");
      await world.pushed(worker.close());
    },
  );
});
