// Goal: ten thousand listeners of one signal, and as many values in a feed, each cost the same.
// Method: count listeners of the platform; compare a feed with a plain array.

import { getEventListeners } from "node:events";

import * as fc from "fast-check";
import { expect, test } from "vitest";

import { addAbortHandler } from "../../src/kernel/cancel-signal.ts";
import { Feed } from "../../src/orchestrator/run/run-iterators.ts";

const MANY = 10_000;

test("calls many waiters of one signal in order, once, through one listener", () => {
  const controller = new AbortController();
  const { signal } = controller;
  const told: number[] = [];
  for (let index = 0; index < MANY; index += 1) addAbortHandler(signal, () => told.push(index));
  expect(getEventListeners(signal, "abort")).toHaveLength(1);
  controller.abort();
  controller.abort();
  expect(told).toEqual(Array.from({ length: MANY }, (_one, index) => index));
  expect(getEventListeners(signal, "abort")).toHaveLength(0);
});

test("does not call a waiter that was removed, even during the calls of others", () => {
  const controller = new AbortController();
  const told: string[] = [];
  const takeBack: (() => void)[] = [];
  addAbortHandler(controller.signal, () => {
    told.push("first");
    for (const back of takeBack) back();
  });
  takeBack.push(addAbortHandler(controller.signal, () => told.push("second")));
  addAbortHandler(controller.signal, () => told.push("third"));
  controller.abort();
  expect(told).toEqual(["first", "third"]);
});

test("keeps no listener on a signal without waiters, and accepts new waiters", () => {
  const controller = new AbortController();
  const { signal } = controller;
  const backs = Array.from({ length: 3 }, () => addAbortHandler(signal, () => expect.fail("told")));
  for (const back of [...backs, ...backs]) back();
  expect(getEventListeners(signal, "abort")).toHaveLength(0);
  let told = 0;
  addAbortHandler(signal, () => (told += 1));
  controller.abort();
  expect(told).toBe(1);
});

test("returns the same values from a feed as from an array", async () => {
  const acts = fc.array(fc.constantFrom("add", "take", "clear"), { maxLength: 200 });
  await fc.assert(
    fc.asyncProperty(acts, async (taken) => {
      const feed = new Feed<{ readonly id: number }>();
      let array: { readonly id: number }[] = [];
      for (const [id, act] of taken.entries()) {
        if (act === "add") {
          feed.add({ id });
          array.push({ id });
        } else if (act === "clear") {
          feed.clear();
          array = [];
        } else if (array.length > 0) {
          expect(await feed.next()).toEqual({ done: false, value: array.shift() });
        }
        expect(feed.unreadCount).toBe(array.length);
      }
    }),
  );
});
