// Goal: when a run is led again after a crash, and beside which others.
// Method: processes that end as by `kill -9` in the midst of a tool call, over a store in memory, by a manual clock.

import { describe, expect } from "vitest";

import { storeEngine } from "../../src/engine/store-engine.ts";
import { readResult } from "../../src/orchestrator/run/recover.ts";
import { proves } from "../harness/proves.ts";
import { clientOf, doings, engineWorld, solo, turns } from "./engine-world.ts";
import { mortalProcess, untilDead } from "./mortal-process.ts";
import { crashesOf, HEALTHY, passed, poison, POISON, type Cast } from "./poison-cast.ts";

describe("resumeLostRuns", () => {
  proves(
    ["D463", "D464", "D466"],
    "leads a run without crashes first, and one that ends its processes ever later until it fails",
    async () => {
      const world = engineWorld();
      const { clock } = world;
      const cast: Cast = { now: undefined, kills: 0 };
      const slow = solo(doings(), {
        name: "healthy",
        count: 2,
        // Longer than the poison needs to end the process.
        hold: () => passed(clock, 300),
      });
      const roles = [poison(world, cast), slow];
      const first = mortalProcess(world, { roles });
      cast.now = first;
      for (const [role, id] of [
        [roles[0], POISON],
        [slow, HEALTHY],
      ] as const)
        if (role !== undefined) first.orchestrator.start(role, "Go.", { runId: id });
      await untilDead(world, first);
      const starts: object[] = [];
      for (let start = 2; start <= 6; start += 1) {
        const life = mortalProcess(world, { roles });
        cast.now = life;
        const { runs, delayed, failed } = await world.pushed(life.orchestrator.resumeLostRuns());
        expect(failed).toEqual([]);
        const facts = {
          atOnce: runs.map((run) => run.runId),
          later: delayed.map((one) => [one.runId, one.crashCount]),
        };
        if (start === 6) {
          const [last] = delayed;
          const run = await world.pushed(last?.run ?? Promise.reject(new Error("none")));
          const { status, errors } = await world.pushed(run.result);
          expect([status, errors.map(({ code }) => code)]).toEqual(["failed", ["crash_loop"]]);
          starts.push(facts);
          break;
        }
        starts.push({ ...facts, livedS: Math.floor((await untilDead(world, life)) / 1_000) });
      }
      expect(starts).toEqual([
        { atOnce: [POISON, HEALTHY], later: [], livedS: 0 },
        {
          atOnce: [],
          later: [
            [POISON, 1],
            [HEALTHY, 1],
          ],
          livedS: 0,
        },
        { atOnce: [HEALTHY], later: [[POISON, 2]], livedS: 1 },
        { atOnce: [], later: [[POISON, 3]], livedS: 3 },
        { atOnce: [], later: [[POISON, 4]] },
      ]);
      expect(cast.kills).toBe(5);
      expect(await readResult(world.store, HEALTHY)).toMatchObject({ status: "completed" });
    },
  );
});

describe("workers over the engine on the store", () => {
  proves(
    ["D463", "D464"],
    "lead other runs while one that crashed waits, and that one alone once it crashed twice",
    async () => {
      const world = engineWorld();
      const cast: Cast = { now: undefined, kills: 0 };
      const roles = [poison(world, cast), solo(doings(), { name: "healthy", count: 1 })];
      const client = clientOf(world);
      const poisoned = await client.start("poison", "Go.", { runId: POISON });
      const livesS: number[] = [];
      const status = async (): Promise<string> => (await world.store.find(POISON))?.status ?? "";
      while (cast.kills < 5) {
        const life = mortalProcess(world, { roles });
        cast.now = life;
        await life.orchestrator.startWorker(storeEngine({ clock: world.clock }));
        livesS.push(Math.floor((await untilDead(world, life)) / 1_000));
      }
      // From the first to the second crash nothing waits; then 1, 2 and 4 seconds.
      expect([livesS, await crashesOf(world)]).toEqual([[0, 0, 1, 2, 4], 4]);
      const last = mortalProcess(world, { roles });
      cast.now = last;
      const worker = await last.orchestrator.startWorker(storeEngine({ clock: world.clock }));
      const healthy = await client.start("healthy", "Go.", { runId: HEALTHY });
      const { text } = await world.pushed(healthy.getResult());
      // The other run is done while the first still waits its 8 seconds.
      expect([text, await status()]).toEqual(["Go. worked 0.", "open"]);
      const result = await world.pushed(poisoned.getResult());
      expect([result.status, result.errors.map(({ code }) => code)]).toEqual([
        "failed",
        ["crash_loop"],
      ]);
      expect([cast.kills, await status(), last.isDead]).toEqual([5, "ended", false]);
      await world.pushed(worker.close());
    },
  );

  proves(
    ["D464"],
    "fail no run for the crashes of another one, however long its calls take",
    async () => {
      const world = engineWorld();
      const cast: Cast = { now: undefined, kills: 0 };
      // Never completes a call as long as the poison lives beside it.
      const slow = solo(doings(), {
        name: "healthy",
        count: 1,
        hold: () => passed(world.clock, 20_000),
      });
      const roles = [poison(world, cast), slow];
      const client = clientOf(world);
      const runs = [
        await client.start("poison", "Go.", { runId: POISON }),
        await client.start("healthy", "Go.", { runId: HEALTHY }),
      ];
      const highest = new Map<string, number>();
      const results = Promise.all(runs.map((run) => run.getResult()));
      const over = { isSo: false };
      void results.then(() => (over.isSo = true));
      let life = mortalProcess(world, { roles });
      cast.now = life;
      await life.orchestrator.startWorker(storeEngine({ clock: world.clock }));
      for (let steps = 0; steps < 20_000 && !over.isSo; steps += 1) {
        await turns(5);
        world.clock.advance(20);
        for (const { runId: id, crashCount: crashes } of await world.store.list())
          highest.set(id, Math.max(crashes, highest.get(id) ?? 0));
        if (!life.isDead) continue;
        life = mortalProcess(world, { roles });
        cast.now = life;
        await life.orchestrator.startWorker(storeEngine({ clock: world.clock }));
      }
      expect((await results).map(({ status }) => status)).toEqual(["failed", "completed"]);
      expect([cast.kills, highest.get(POISON)]).toEqual([5, 4]);
      expect(highest.get(HEALTHY)).toBeLessThanOrEqual(2);
    },
  );
});
