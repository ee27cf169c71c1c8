// Goal: the system clock keeps the contract of its port: a timer fires once, after its delay, or
// not at all.
// Method: vitest's own timers in place of the machine's; nothing waits.

import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { SteadyClock, systemClock } from "../../src/kernel/clock.ts";
import { randomIds } from "../../src/kernel/id-source.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { takeWarnings } from "../harness/process-watch.ts";
import { proves } from "../harness/proves.ts";
import { flushEventLoop } from "../harness/run-scripted.ts";

beforeEach(() => {
  vi.useFakeTimers({ now: 1_000, toFake: ["setTimeout", "clearTimeout", "Date", "performance"] });
});

afterEach(() => {
  vi.useRealTimers();
});

const DAY_MS = 24 * 60 * 60 * 1_000;

test("returns the time of the machine", () => {
  expect(systemClock.nowMs()).toBe(1_000);
  vi.advanceTimersByTime(5);
  expect(systemClock.nowMs()).toBe(1_005);
});

proves(["S7.5"], "does not set the monotonic clock of the machine with its wall clock", () => {
  const sinceMs = systemClock.monotonicMs();
  vi.setSystemTime(3_600_000);
  expect([systemClock.nowMs(), systemClock.monotonicMs() - sinceMs]).toEqual([3_600_000, 0]);
  vi.advanceTimersByTime(5);
  expect(systemClock.monotonicMs() - sinceMs).toBe(5);
});

proves(["S7.5"], "reads the wall clock once in a steady clock, which continues without it", () => {
  const clock = new ManualClock(1_000);
  clock.advance(7);
  const steady = new SteadyClock(clock);
  clock.setWallClock(50);
  clock.advance(3);
  expect([steady.nowMs(), steady.monotonicMs()]).toEqual([1_010, 10]);
  let woken = 0;
  steady.setTimer(5, () => (woken += 1));
  clock.advance(5);
  expect([woken, new SteadyClock(clock).nowMs()]).toEqual([1, 58]);
});

proves(["S7.5"], "starts a steady clock no earlier than the last stamp that it is given", () => {
  const clock = new ManualClock(1_000);
  const [behind, ahead] = [new SteadyClock(clock, 5_000), new SteadyClock(clock, 500)];
  clock.advance(1);
  expect([behind.nowMs(), ahead.nowMs()]).toEqual([5_001, 1_001]);
});

proves(["S7.31"], "rounds the clock of the machine to microseconds", () => {
  const now = vi.spyOn(performance, "now").mockReturnValue(5);
  const steady = new SteadyClock(systemClock);
  now.mockReturnValue(5.123_456_789);
  expect(steady.stampMs()).toBe(1_000.123);
  vi.restoreAllMocks();
});

proves(["S7.31"], "stamps microseconds and counts whole milliseconds in a steady clock", () => {
  const startMs = Date.UTC(2026, 10, 23);
  const clock = new ManualClock(startMs);
  clock.advance(0.7);
  const steady = new SteadyClock(clock);
  const readings = [0, 0.2, 0.1, 0.3].map((byMs) => {
    clock.advance(byMs);
    return [steady.stampMs() - startMs, steady.nowMs() - startMs, steady.monotonicMs()];
  });
  expect(readings.map(([stampMs = 0, ...whole]) => [stampMs.toFixed(3), ...whole])).toEqual([
    ["0.700", 0, 0],
    ["0.900", 0, 0],
    ["1.000", 1, 1],
    ["1.300", 1, 1],
  ]);
  expect(steady.stampMs()).toBe(startMs + 1.3);
});

proves(["S7.31"], "fires a timer of a steady clock when the whole milliseconds have passed", () => {
  const clock = new ManualClock(1_000);
  clock.advance(0.7);
  const steady = new SteadyClock(clock);
  const woken: number[] = [];
  steady.setTimer(10, () => woken.push(steady.nowMs()));
  clock.advance(9.299);
  expect(woken).toEqual([]);
  clock.advance(0.001);
  expect(woken).toEqual([1_010]);
});

proves(["S7.31"], "continues from the next millisecond after a stamp with microseconds", () => {
  const clock = new ManualClock(1_000);
  const steady = new SteadyClock(clock, 5_000.3);
  expect([steady.nowMs(), steady.stampMs()]).toEqual([5_001, 5_001]);
});

test("does not fire a timer of a fraction of a millisecond early", () => {
  let woken = 0;
  systemClock.setTimer(1.5, () => (woken += 1));
  vi.advanceTimersByTime(1);
  expect(woken).toBe(0);
  vi.advanceTimersByTime(1);
  expect(woken).toBe(1);
});

proves(["S7.21"], "freezes a steady clock while the clock behind it throws", async () => {
  let isBroken = false;
  const manual = new ManualClock(1_000);
  const monotonicMs = (): number => {
    if (isBroken) throw new Error("broken");
    return manual.monotonicMs();
  };
  const steady = new SteadyClock({
    nowMs: () => manual.nowMs(),
    monotonicMs,
    setTimer: (delayMs, wake) => manual.setTimer(delayMs, wake),
  });
  manual.advance(5);
  expect(steady.nowMs()).toBe(1_005);
  isBroken = true;
  manual.advance(5);
  expect(steady.nowMs()).toBe(1_005);
  await flushEventLoop();
  expect(takeWarnings()).toEqual([
    "EspalierWarning: The clock threw (broken); time is frozen until it works.",
  ]);
  isBroken = false;
  expect(steady.nowMs()).toBe(1_010);
});

test("fires a timer once, after its delay", () => {
  let woken = 0;
  systemClock.setTimer(10, () => (woken += 1));
  vi.advanceTimersByTime(9);
  expect(woken).toBe(0);
  vi.advanceTimersByTime(1);
  vi.advanceTimersByTime(100);
  expect(woken).toBe(1);
});

proves(
  ["D224"],
  "waits for the rest if a timeout fires before its time by the monotonic clock",
  () => {
    const monotonic = vi.spyOn(performance, "now");
    const zeroMs = systemClock.monotonicMs();
    let wokenAtMs = -1;
    const steady = new SteadyClock(systemClock);
    const isDueMs = steady.monotonicMs() + 300;
    steady.setTimer(300, () => (wokenAtMs = steady.monotonicMs()));
    // The machine was suspended: one of its clocks has advanced by 300 ms, the other by 172.
    monotonic.mockReturnValue(zeroMs + 172);
    vi.advanceTimersByTime(300);
    expect(wokenAtMs).toBe(-1);
    monotonic.mockReturnValue(zeroMs + 300);
    vi.advanceTimersByTime(128);
    expect(wokenAtMs).toBe(isDueMs);
    expect(vi.getTimerCount()).toBe(0);
    monotonic.mockRestore();
  },
);

test("does not fire a timer that was stopped", () => {
  let woken = 0;
  const stop = systemClock.setTimer(10, () => (woken += 1));
  stop();
  stop();
  vi.advanceTimersByTime(100);
  expect([woken, vi.getTimerCount()]).toEqual([0, 0]);
});

test("does not fire a timer of more than 24.8 days at once", () => {
  let woken = 0;
  const stop = systemClock.setTimer(30 * DAY_MS, () => (woken += 1));
  vi.advanceTimersByTime(DAY_MS);
  stop();
  expect([woken, vi.getTimerCount()]).toEqual([0, 0]);
});

// setTimeout accepts no more than 2^31 - 1 ms.
test("fires a timer of 30 days after 30 days", () => {
  let woken = 0;
  systemClock.setTimer(30 * DAY_MS, () => (woken += 1));
  vi.advanceTimersByTime(30 * DAY_MS - 1);
  expect(woken).toBe(0);
  vi.advanceTimersByTime(1);
  expect(woken).toBe(1);
});

test("creates random ids that begin with their kind and do not repeat", () => {
  const ids = Array.from({ length: 1_000 }, () => randomIds.next("run"));
  expect([new Set(ids).size, ids.every((id) => /^run_[\w-]{21}$/.test(id))]).toEqual([1_000, true]);
});
