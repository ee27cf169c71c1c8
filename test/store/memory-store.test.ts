// Goal: the store in memory fulfils all of the contract of a store except durability: a crash loses
// its contents.
// Method: the contract suite; heartbeats and staleness on a manual clock.

import { describe, expect, test } from "vitest";

import { systemClock } from "../../src/kernel/clock.ts";
import { RunIdSchema } from "../../src/protocol/ids.ts";
import { createEvictingStore, memoryStore } from "../../src/store/memory-store.ts";
import type { StoredStatus } from "../../src/store/run-store.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { storeContract } from "../../src/testing/store-contract.ts";
import { proves } from "../harness/proves.ts";
import { thrownBy } from "../support/thrown.ts";

const forgetful = () =>
  createEvictingStore({ clock: systemClock, mostBytes: 1e9, onForgotten: () => undefined });

describe("the contract", () => {
  for (const make of [memoryStore, forgetful])
    for (const { name, run } of storeContract())
      test(`${make.name}: ${name}`, () => run(async () => make()));
});

const runId = RunIdSchema().parse("run_1");
const owner = { token: "a", hostname: "here", processId: 1 };

proves(["S7.5"], "ignores a change of the wall clock in the age of an owner", async () => {
  const clock = new ManualClock(1_000);
  const store = memoryStore({ clock });
  await store.create(runId, "", owner);
  const claim = { owner: { ...owner, token: "b" }, staleAfterMs: 100 };
  clock.setWallClock(3_600_000);
  clock.advance(99);
  await expect(store.claim(runId, claim)).rejects.toMatchObject({ data: { silentMs: 99 } });
  clock.setWallClock(0);
  clock.advance(1);
  expect(await store.claim(runId, claim)).toMatchObject({ epoch: 2 });
});

proves(["E128", "E129"], "records the time of each mail, and reopens a paused run", async () => {
  const clock = new ManualClock(1_000);
  const store = memoryStore({ clock });
  const held = await store.create(runId, "", owner);
  clock.advance(10);
  expect(await store.sendMail(runId, { key: "order", body: "{}" })).toBe(1);
  clock.advance(10);
  await store.release(held, "open");
  const claim = { owner: { ...owner, token: "b" }, staleAfterMs: 1e9 };
  await store.release(await store.claim(runId, claim), "paused");
  clock.advance(10);
  expect(await store.sendMail(runId, { key: "answer", body: "1" })).toBe(2);
  expect(await store.sendMail(runId, { key: "order", body: "null" })).toBe(1);
  expect(await store.readMail(runId)).toEqual([
    { number: 1, key: "order", body: "{}", atMs: 1_010 },
    { number: 2, key: "answer", body: "1", atMs: 1_030 },
  ]);
  expect(await store.find(runId)).toEqual({
    runId,
    status: "open",
    title: "",
    epoch: 2,
    recordCount: 0,
    createdAtMs: 1_000,
    updatedAtMs: 1_030,
    owner: null,
    heartbeatAtMs: null,
    crashCount: 0,
    lastCrashAtMs: null,
    isQueued: false,
  });
});

test("treats an owner as gone after exactly the configured silence, and not before", async () => {
  const clock = new ManualClock(1_000);
  const store = memoryStore({ clock });
  const held = await store.create(runId, "", owner);
  clock.advance(50);
  await store.heartbeat(held);
  clock.advance(99);
  const claim = { owner: { ...owner, token: "b" }, staleAfterMs: 100 };
  await expect(store.claim(runId, claim)).rejects.toMatchObject({
    code: "run_active",
    message: `Cannot claim run "${runId}": it has a live owner, process 1 on here. Wait until that process has ended, or take the run over: \`takeOver: true\`, on the command line \`--take-over\`.`,
    data: { runId, hostname: "here", processId: 1, silentMs: 99 },
  });
  clock.advance(1);
  expect(await store.claim(runId, claim)).toEqual({ runId, token: "b", epoch: 2 });
  expect(await store.find(runId)).toEqual({
    runId,
    status: "open",
    title: "",
    epoch: 2,
    recordCount: 0,
    createdAtMs: 1_000,
    updatedAtMs: 1_150,
    owner: { token: "b", hostname: "here", processId: 1 },
    heartbeatAtMs: 1_150,
    crashCount: 1,
    lastCrashAtMs: 1_150,
    isQueued: false,
  });
});

proves(
  ["V116"],
  "an evicting store forgets the oldest ended runs once all runs exceed its byte limit",
  async () => {
    const forgotten: string[] = [];
    const store = createEvictingStore({
      clock: new ManualClock(1_000),
      mostBytes: 100,
      onForgotten: (id) => void forgotten.push(id),
    });
    const made = async (id: string, bytes: number, status: StoredStatus): Promise<void> => {
      const held = await store.create(RunIdSchema().parse(id), "", owner);
      await store.append(held, { firstNumber: 1, records: ["x".repeat(bytes)] });
      if (status !== "open") await store.release(held, status);
    };
    await made("open", 30, "open");
    await made("paused", 30, "paused");
    await made("first", 20, "ended");
    await made("second", 20, "ended");
    expect(forgotten).toEqual([]);
    await made("third", 25, "ended");
    expect(forgotten).toEqual(["first", "second"]);
    expect(await store.remove(RunIdSchema().parse("third"), 0)).toBe(true);
    await made("fourth", 40, "ended");
    expect((await store.list()).map((run) => run.runId)).toEqual(["fourth", "paused", "open"]);
    // The run that has just ended remains readable, however long it is.
    await made("long", 1_000, "ended");
    expect((await store.list()).map((run) => run.runId)).toEqual(["long", "paused", "open"]);
    expect(forgotten).toEqual(["first", "second", "fourth"]);
  },
);

proves(
  ["D461"],
  "counts lost owners with the time of the claim, until a batch has progress",
  async () => {
    const clock = new ManualClock(1_000);
    const store = memoryStore({ clock });
    await store.create(runId, "", owner);
    const counted: unknown[] = [];
    const count = async (): Promise<void> => {
      const { crashCount: crashes, lastCrashAtMs } = (await store.find(runId)) ?? {};
      counted.push([crashes, lastCrashAtMs]);
    };
    await count();
    for (const token of ["b", "c"]) {
      clock.advance(100);
      await store.claim(runId, { owner: { ...owner, token }, staleAfterMs: 100 });
      await count();
    }
    clock.advance(50);
    const lost = { owner: { ...owner, token: "d" }, staleAfterMs: 100, ownerLost: true };
    const held = await store.claim(runId, lost);
    await count();
    await store.append(held, { firstNumber: 1, records: ["1"] });
    await count();
    await store.append(held, { firstNumber: 2, records: ["2"], hasProgress: true });
    await count();
    expect(counted).toEqual([
      [0, null],
      [1, 1_100],
      [2, 1_200],
      [3, 1_250],
      [3, 1_250],
      [0, 1_250],
    ]);
  },
);

test("refuses an unknown option", () => {
  const options: object = { path: "runs.db" };
  expect(thrownBy(() => memoryStore(options))).toMatchObject({
    code: "invalid_argument",
    message: 'Expected memoryStore.path to be one of clock, got "path". Correct the name.',
  });
});
