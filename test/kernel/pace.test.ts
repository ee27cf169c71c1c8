import { setImmediate as nextTurn } from "node:timers/promises";

import { expect, test } from "vitest";

import { Pace } from "../../src/kernel/pace.ts";

test("so many begin at once, the others in the next turns, in the order in which they asked", async () => {
  const pace = new Pace(2);
  const begun: number[] = [];
  for (const piece of [1, 2, 3, 4, 5]) {
    const turn = pace.turn();
    if (turn === undefined) begun.push(piece);
    else void turn.then(() => begun.push(piece));
  }
  expect(begun).toEqual([1, 2]);
  await nextTurn();
  expect(begun).toEqual([1, 2, 3, 4]);
  await nextTurn();
  expect(begun).toEqual([1, 2, 3, 4, 5]);
});

test("whoever comes later stands behind those who wait, and a new turn has places again", async () => {
  const pace = new Pace(1);
  expect(pace.turn()).toBeUndefined();
  const begun: string[] = [];
  void pace.turn()?.then(() => begun.push("second"));
  await nextTurn();
  void pace.turn()?.then(() => begun.push("third"));
  expect(begun).toEqual(["second"]);
  await nextTurn();
  expect(begun).toEqual(["second", "third"]);
  await nextTurn();
  expect(pace.turn()).toBeUndefined();
});
