// A tree of agents that is released at random moments and continued by another process each time:
// it ends like one that was not.

import { expect } from "vitest";

import { loadRecording } from "../../../src/testing/replay/recording.ts";
import { randomFrom } from "../../support/random-from.ts";
import { proves } from "../../harness/proves.ts";
import { LIMITS, world, type World } from "../../support/journal/crash-world.ts";
import { checkRecordedOnce } from "../../support/journal/recorded-once.ts";
import { replaysToTheSame } from "../../support/journal/replay-story.ts";
import { storedEvents } from "../../support/journal/stored-events.ts";
import { engineWorld, runId, turns } from "../../support/engine/engine-world.ts";

const ID = runId("order-4711");
const SIZE = { leads: 2, workers: 2 };
const SEEDS = [1, 2, 3];
/** The seed that is replayed, since a replay takes longer than the run. */
const REPLAYED = 2;

interface Story {
  readonly text: string;
  readonly leaves: number;
  readonly counts: ReadonlyMap<string, number>;
  readonly modelCounts: ReadonlyMap<string, number>;
}

function sum(worlds: readonly World[], of: (world: World) => ReadonlyMap<string, number>) {
  const all = new Map<string, number>();
  for (const one of worlds)
    for (const [key, count] of of(one)) all.set(key, (all.get(key) ?? 0) + count);
  return all;
}

/** Runs the tree to its end. `graceMs`: undefined if it is never released. */
async function told(seed: number, isPaying: boolean, graceMs: number | undefined): Promise<Story> {
  const random = randomFrom(seed);
  const some = (most: number): number => Math.floor(random() * most);
  const { process, pushed, store, clock } = engineWorld();
  const worlds: World[] = [];
  const pass = async (): Promise<void> => await turns(1 + some(8));
  let leaves = 0;
  for (;;) {
    const made = world({ ...SIZE, isPaying, onTool: pass, onModel: pass });
    worlds.push(made);
    const { role } = made;
    const concurrency = { modelCalls: 1 + some(4), toolCalls: 1 + some(4) };
    const one = process({ roles: [role], limits: LIMITS, concurrency });
    const leave = new AbortController();
    const how = graceMs === undefined ? {} : { releaseSignal: leave.signal, graceMs };
    const order = { runId: ID, role: role.name, task: "Go." };
    const executed = one.execute(order, how).catch((cause: { code: string }) => cause.code);
    if (graceMs !== undefined && leaves < 12) {
      await turns(3 + some(60));
      leave.abort();
    }
    const result = await pushed(executed, 100);
    clock.advance(60_000); // For calls that ignore their signal.
    await turns(2);
    if (typeof result === "string") {
      expect(result).toBe("run_released");
      expect(await store.find(ID)).toMatchObject({ status: "open", owner: null });
      leaves += 1;
      continue;
    }
    expect([result.status, clock.pendingTimers]).toEqual(["completed", 0]);
    checkRecordedOnce(await storedEvents(store, ID));
    if (seed === REPLAYED && isPaying) {
      const recording = await loadRecording(store, ID);
      await replaysToTheSame({ role: world({ ...SIZE, isPaying }).role }, { recording, result });
    }
    return {
      text: result.text,
      leaves,
      counts: sum(worlds, ({ calls }) => calls),
      modelCounts: sum(worlds, ({ modelCalls }) => modelCalls),
    };
  }
}

proves(
  ["E12", "E13"],
  "repeats no call of a tree of agents whose calls return within the grace period",
  async () => {
    const plain = await told(0, true, undefined);
    let leaves = 0;
    for (const seed of SEEDS) {
      const story = await told(seed, true, 1_000_000);
      leaves += story.leaves;
      expect(story, `seed ${seed}`).toEqual({ ...plain, leaves: story.leaves });
    }
    expect(leaves).toBeGreaterThan(SEEDS.length * 3);
  },
);

proves(
  ["E12", "E13"],
  "repeats no unrepeatable call of a tree of agents without grace period, and returns the same text",
  async () => {
    const plain = await told(0, false, undefined);
    for (const seed of SEEDS) {
      const story = await told(seed, false, 0);
      expect(story.text, `seed ${seed}`).toBe(plain.text);
      expect([...story.counts.keys()].toSorted()).toEqual([...plain.counts.keys()].toSorted());
      const paying = await told(seed, true, 0);
      const paid = [...paying.counts].filter(([key]) => !plain.counts.has(key));
      expect(
        paid.every(([, count]) => count === 1),
        `seed ${seed}`,
      ).toBe(true);
    }
  },
);
