// Goal: ten thousand may wait for one signal, and a feed may have as many values, at the same cost for each.
// Method: listeners of the platform are counted; a feed is compared with a plain array.

import { getEventListeners } from "node:events";

import * as fc from "fast-check";
import { expect, test } from "vitest";

import { addAbortHandler } from "../../src/kernel/cancel.ts";
import { Feed } from "../../src/orchestrator/run/run-readers.ts";

const MANY = 10_000;

test("many wait for one signal behind one listener, and are called in order, once", () => {
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

test("one that takes it back is not called, also if that happens while others are", () => {
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

test("a signal without waiters keeps no listener, and can be waited for again", () => {
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

test("a feed gives what an array would", async () => {
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
