// Goal: the machine's clock keeps to the contract of the port: once, after the delay, or not at all.
// Method: vitest's own timers in place of the machine's; nothing waits.

import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { systemClock } from "../../src/kernel/clock.ts";
import { randomIds } from "../../src/kernel/id-source.ts";

beforeEach(() => {
  vi.useFakeTimers({ now: 1_000, toFake: ["setTimeout", "clearTimeout", "Date"] });
});

afterEach(() => {
  vi.useRealTimers();
});

const DAY_MS = 24 * 60 * 60 * 1_000;

test("the time is the machine's", () => {
  expect(systemClock.nowMs()).toBe(1_000);
  vi.advanceTimersByTime(5);
  expect(systemClock.nowMs()).toBe(1_005);
});

test("a timer wakes once, after its delay", () => {
  let woken = 0;
  systemClock.setTimer(10, () => (woken += 1));
  vi.advanceTimersByTime(9);
  expect(woken).toBe(0);
  vi.advanceTimersByTime(1);
  vi.advanceTimersByTime(100);
  expect(woken).toBe(1);
});

test("a timer that is stopped does not wake", () => {
  let woken = 0;
  const stop = systemClock.setTimer(10, () => (woken += 1));
  stop();
  stop();
  vi.advanceTimersByTime(100);
  expect([woken, vi.getTimerCount()]).toEqual([0, 0]);
});

test("a timer of more than 24.8 days does not wake at once", () => {
  let woken = 0;
  const stop = systemClock.setTimer(30 * DAY_MS, () => (woken += 1));
  vi.advanceTimersByTime(DAY_MS);
  stop();
  expect([woken, vi.getTimerCount()]).toEqual([0, 0]);
});

// setTimeout takes no more than 2^31 - 1 ms.
test("a timer of 30 days wakes after 30 days", () => {
  let woken = 0;
  systemClock.setTimer(30 * DAY_MS, () => (woken += 1));
  vi.advanceTimersByTime(30 * DAY_MS - 1);
  expect(woken).toBe(0);
  vi.advanceTimersByTime(1);
  expect(woken).toBe(1);
});

test("ids by chance begin with their kind and do not repeat", () => {
  const ids = Array.from({ length: 1_000 }, () => randomIds.next("run"));
  expect([new Set(ids).size, ids.every((id) => /^run_[\w-]{21}$/.test(id))]).toEqual([1_000, true]);
});
