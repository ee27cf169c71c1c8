// Goal: ten thousand may wait for one signal, or in one line, and each pays for itself alone.
// Method: what the platform is asked for is counted; a line is compared with a plain array.

import { getEventListeners } from "node:events";

import * as fc from "fast-check";
import { expect, test } from "vitest";

import { onAbort } from "../../src/kernel/cancel.ts";
import { WaitingLine } from "../../src/kernel/queue.ts";

const MANY = 10_000;

test("many wait for one signal behind one listener, and are called in order, once", () => {
  const controller = new AbortController();
  const { signal } = controller;
  const told: number[] = [];
  for (let index = 0; index < MANY; index += 1) onAbort(signal, () => told.push(index));
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
  onAbort(controller.signal, () => {
    told.push("first");
    for (const back of takeBack) back();
  });
  takeBack.push(onAbort(controller.signal, () => told.push("second")));
  onAbort(controller.signal, () => told.push("third"));
  controller.abort();
  expect(told).toEqual(["first", "third"]);
});

test("a signal without waiters keeps no listener, and can be waited for again", () => {
  const controller = new AbortController();
  const { signal } = controller;
  const backs = Array.from({ length: 3 }, () => onAbort(signal, () => expect.fail("told")));
  for (const back of [...backs, ...backs]) back();
  expect(getEventListeners(signal, "abort")).toHaveLength(0);
  let told = 0;
  onAbort(signal, () => (told += 1));
  controller.abort();
  expect(told).toBe(1);
});

test("a line gives what an array would", () => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom("add", "take", "clear"), { maxLength: 200 }), (acts) => {
      const line = new WaitingLine<{ readonly id: number }>();
      let array: { readonly id: number }[] = [];
      for (const [id, act] of acts.entries()) {
        if (act === "add") {
          line.add({ id });
          array.push({ id });
        } else if (act === "take") expect(line.take()).toEqual(array.shift());
        else {
          line.clear();
          array = [];
        }
        expect(line.length).toBe(array.length);
      }
    }),
  );
});
