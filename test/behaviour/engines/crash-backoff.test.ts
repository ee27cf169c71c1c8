// Goal: when a run is executed again after a crash, and beside which others.
// Method: processes that end as by `kill -9` during a tool call, over an in-memory store, by a
// manual clock.

import { describe, expect } from "vitest";

import { storeEngine } from "../../../src/engine/store-engine.ts";
import { readResult } from "../../../src/orchestrator/run/recover-run.ts";
import { proves } from "../../harness/proves.ts";
import { clientOf, doings, engineWorld, solo, turns } from "../../support/engine/engine-world.ts";
import { mortalProcess, untilDead } from "./mortal-process.ts";
import { crashesOf, HEALTHY, passed, poison, POISON, type Cast } from "./poison-cast.ts";

describe("resumeLostRuns", () => {
  proves(
    ["D463", "D464", "D466"],
    "resumes runs without crashes first, and delays a run that kills its process longer each time until it fails",
    async () => {
      const world = engineWorld();
      const { clock } = world;
      const cast: Cast = { now: undefined, kills: 0 };
      const slow = solo(doings(), {
        name: "healthy",
        count: 2,
        // Longer than the poisoned run needs to end the process.
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

describe("workers over the store engine", () => {
  proves(
    ["D463", "D464"],
    "execute other runs while a crashed run waits, and execute a run alone after its second crash",
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
      // The second attempt follows at once; the next ones wait 1, 2 and 4 seconds.
      expect([livesS, await crashesOf(world)]).toEqual([[0, 0, 1, 2, 4], 4]);
      const last = mortalProcess(world, { roles });
      cast.now = last;
      const worker = await last.orchestrator.startWorker(storeEngine({ clock: world.clock }));
      const healthy = await client.start("healthy", "Go.", { runId: HEALTHY });
      const { text } = await world.pushed(healthy.getResult());
      // The other run completes while the first one still waits its 8 seconds.
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
    "fail no run because of another run's crashes, however long its calls take",
    async () => {
      const world = engineWorld();
      const cast: Cast = { now: undefined, kills: 0 };
      // Never completes a call while the poisoned run shares its process.
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
