// Goal: a test decides when time passes, and timers fire in the order of their time.
// Method: timers that record when they fired.

import { expect, test } from "vitest";

import { sleep } from "../../src/kernel/cancel-signal.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { sequentialIds } from "../../src/testing/sequential-ids.ts";
import { proves } from "../harness/proves.ts";
import { answered } from "../support/ledger-fixture.ts";
import { thrownBy } from "../support/thrown.ts";

function watched(startMs = 0): {
  readonly clock: ManualClock;
  readonly woken: string[];
  set(name: string, delayMs: number): () => void;
} {
  const clock = new ManualClock(startMs);
  const woken: string[] = [];
  const set = (name: string, delayMs: number): (() => void) =>
    clock.setTimer(delayMs, () => void woken.push(`${name} at ${clock.nowMs()}`));
  return { clock, woken, set };
}

test("starts at the given time and does not advance by itself", () => {
  expect([new ManualClock().nowMs(), new ManualClock(1_000).nowMs()]).toEqual([0, 1_000]);
});

test("fires timers in order at their own times, and advances to the requested time", () => {
  const { clock, woken, set } = watched(100);
  set("late", 30);
  set("early", 10);
  set("never", 51);
  clock.advance(50);
  expect([woken, clock.nowMs(), clock.pendingTimers]).toEqual([
    ["early at 110", "late at 130"],
    150,
    1,
  ]);
});

proves(["S7.5"], "sets the wall clock without advancing time", () => {
  const { clock, woken, set } = watched(1_000);
  set("ten", 10);
  clock.advance(4);
  clock.setWallClock(5_000);
  expect([clock.nowMs(), clock.monotonicMs(), woken]).toEqual([5_000, 4, []]);
  clock.setWallClock(0);
  clock.advance(5);
  expect(woken).toEqual([]);
  clock.advance(1);
  expect([woken, clock.nowMs(), clock.monotonicMs()]).toEqual([["ten at 6"], 6, 10]);
});

proves(
  ["S7.31"],
  "adds fractions of a millisecond exactly and shows whole milliseconds on the wall clock",
  () => {
    const { clock, woken, set } = watched(1_000);
    set("one", 1);
    for (let times = 0; times < 9; times += 1) clock.advance(0.1);
    expect([clock.monotonicMs(), clock.nowMs(), woken]).toEqual([0.9, 1_000, []]);
    clock.advance(0.1);
    expect([clock.monotonicMs(), clock.nowMs(), woken]).toEqual([1, 1_001, ["one at 1001"]]);
  },
);

test("fires a timer when its time is reached, not before", () => {
  const { clock, woken, set } = watched();
  set("ten", 10);
  clock.advance(9);
  expect(woken).toEqual([]);
  clock.advance(1);
  expect(woken).toEqual(["ten at 10"]);
  clock.advance(100);
  expect(woken).toEqual(["ten at 10"]);
});

test("fires timers of the same time in the order in which they were set", () => {
  const { clock, woken, set } = watched();
  for (const name of ["a", "b", "c"]) set(name, 5);
  clock.advance(5);
  expect(woken).toEqual(["a at 5", "b at 5", "c at 5"]);
});

test("does not fire a timer without delay until the clock is advanced", () => {
  const { clock, woken, set } = watched();
  set("now", 0);
  expect(woken).toEqual([]);
  clock.advance(0);
  expect(woken).toEqual(["now at 0"]);
});

test("does not fire a stopped timer, and ignores a second stop", () => {
  const { clock, woken, set } = watched();
  const stop = set("stopped", 5);
  set("other", 5);
  stop();
  stop();
  clock.advance(10);
  expect([woken, clock.pendingTimers]).toEqual([["other at 5"], 0]);
});

test("lets a timer stop another one that is due at the same time", () => {
  const { clock, woken, set } = watched();
  clock.setTimer(5, () => stop());
  const stop = set("stopped", 5);
  clock.advance(5);
  expect(woken).toEqual([]);
});

test("fires a timer that another timer sets within the same advance, if due", () => {
  const { clock, woken, set } = watched();
  clock.setTimer(10, () => {
    set("after", 5);
    set("too late", 11);
  });
  clock.advance(20);
  expect([woken, clock.pendingTimers, clock.nowMs()]).toEqual([["after at 15"], 1, 20]);
});

test("resolves sleep at its time, or on abort without leaving a timer", async () => {
  const clock = new ManualClock();
  const controller = new AbortController();
  const woken: string[] = [];
  void sleep(clock, 10, new AbortController().signal).then(() => woken.push("slept"));
  void sleep(clock, 99, controller.signal).then(() => woken.push("called"));
  controller.abort();
  await answered();
  expect([woken, clock.pendingTimers]).toEqual([["called"], 1]);
  clock.advance(10);
  await answered();
  expect([woken, clock.pendingTimers]).toEqual([["called", "slept"], 0]);
});

test("sets no timer for a sleep that is aborted or not positive", async () => {
  const clock = new ManualClock();
  await sleep(clock, 10, AbortSignal.abort());
  await sleep(clock, 0, new AbortController().signal);
  await sleep(clock, -5, new AbortController().signal);
  expect(clock.pendingTimers).toBe(0);
});

test("counts ids up per kind and per source", () => {
  const [ids, others] = [sequentialIds(), sequentialIds()];
  const drawn = [ids.next("agent"), ids.next("run"), ids.next("agent"), others.next("agent")];
  expect(drawn).toEqual(["agent_1", "run_1", "agent_2", "agent_1"]);
});

proves(["D326"], "refuses an invalid time without any effect", () => {
  const { clock, woken, set } = watched(100);
  set("first", 10);
  for (const byMs of [-1, NaN, Infinity])
    expect(thrownBy(() => clock.advance(byMs)).code).toBe("invalid_argument");
  for (const toMs of [NaN, Infinity]) {
    expect(thrownBy(() => clock.setWallClock(toMs)).code).toBe("invalid_argument");
    expect(thrownBy(() => new ManualClock(toMs)).code).toBe("invalid_argument");
  }
  expect([clock.nowMs(), clock.monotonicMs(), woken]).toEqual([100, 0, []]);
  clock.advance(10);
  expect(woken).toEqual(["first at 110"]);
});
