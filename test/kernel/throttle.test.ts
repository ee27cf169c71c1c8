import { setImmediate as nextTurn } from "node:timers/promises";

import { expect, test } from "vitest";

import { Throttle } from "../../src/kernel/throttle.ts";

test("starts a limited number at once, and the others in the next turns, in their order", async () => {
  const throttle = new Throttle(2);
  const begun: number[] = [];
  for (const piece of [1, 2, 3, 4, 5]) {
    const turn = throttle.turn();
    if (turn === undefined) begun.push(piece);
    else void turn.then(() => begun.push(piece));
  }
  expect(begun).toEqual([1, 2]);
  await nextTurn();
  expect(begun).toEqual([1, 2, 3, 4]);
  await nextTurn();
  expect(begun).toEqual([1, 2, 3, 4, 5]);
});

test("queues a later caller behind those that wait, and has free places again in a new turn", async () => {
  const throttle = new Throttle(1);
  expect(throttle.turn()).toBeUndefined();
  const begun: string[] = [];
  void throttle.turn()?.then(() => begun.push("second"));
  await nextTurn();
  void throttle.turn()?.then(() => begun.push("third"));
  expect(begun).toEqual(["second"]);
  await nextTurn();
  expect(begun).toEqual(["second", "third"]);
  await nextTurn();
  expect(throttle.turn()).toBeUndefined();
});
