// Goal: a run that an engine forgot is found, and one that waits in a long queue there is not added
// again by each sweep.
// Method: an engine that executes nothing and remembers when it was notified, by a manual clock.

import { expect } from "vitest";

import type { Engine } from "../../../src/engine/engine.ts";
import { proves } from "../../harness/proves.ts";
import {
  clientOf,
  doings,
  engineWorld,
  runId,
  solo,
  turns,
} from "../../support/engine/engine-world.ts";

const ID = runId("order-4711");

proves(
  ["E126"],
  "notifies the engine of an unowned run with growing delays, and at once when a command arrives",
  async () => {
    for (const isExclusive of [true, false]) {
      const world = engineWorld();
      const { clock, process } = world;
      let beganMs = 0;
      const handedAtS: number[] = [];
      const engine: Engine = {
        exclusive: isExclusive,
        enqueue: async () => void handedAtS.push((clock.nowMs() - beganMs) / 1_000),
        serve: async () => ({ close: async () => undefined }),
      };
      const sweeps = async (count: number): Promise<void> => {
        for (let sweep = 0; sweep < count; sweep += 1) {
          clock.advance(30_000);
          await turns(10);
        }
      };
      const run = await clientOf(world).start("solo", "Go.", { runId: ID });
      beganMs = clock.nowMs();
      const worker = await process({ roles: [solo(doings())] }).startWorker(engine, {
        context: () => undefined,
      });
      await turns(10);
      await sweeps(15);
      await run.sendCommand({ type: "steer", message: "Hurry." });
      await sweeps(2);
      const rarely = [0, 30, 90, 210, 450, 480, 510];
      const always = Array.from({ length: 18 }, (_, nth) => nth * 30);
      expect(handedAtS).toEqual(isExclusive ? rarely : always);
      await worker.close();
    }
  },
);
