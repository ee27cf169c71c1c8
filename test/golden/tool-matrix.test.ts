// Goal: x.
import { expect, test } from "vitest";
import { ACTS, ORDERS, WAYS, playOrder, orderBlock, orderText, type ActName } from "../support/tool-matrix-orders.ts";
import { expectedOrder } from "../support/tool-matrix-oracle.ts";
import { DESKS, SAYINGS, WISHES, expectedGuards, playGuards, playGuardsInTree } from "../support/tool-matrix-guards.ts";
import { sequencesOf } from "../support/tool-matrix.ts";

const NAMES = Object.keys(ACTS) as ActName[];
test("all", async () => {
  const bad: unknown[] = [];
  let n = 0;
  for (const act of NAMES) for (const way of WAYS) for (const order of ORDERS) {
    const { record } = await playOrder({ order, act, way });
    n++;
    const want = expectedOrder({ order, act, way });
    if (JSON.stringify(record) !== JSON.stringify(want)) bad.push([act, way, orderText(order), JSON.stringify(record), JSON.stringify(want)]);
  }
  console.log(n, bad.length, bad.slice(0, 4));
});
test("guards", async () => {
  let n = 0;
  for (const k of [0,1,2,3]) for (const sayings of sequencesOf(SAYINGS, k)) for (const wish of WISHES) for (const desk of DESKS) {
    n++;
    expect(await playGuards({sayings, wish, desk})).toEqual(expectedGuards({sayings, wish, desk}));
  }
  console.log(n);
});
test("guards tree", async () => {
  for (const sayings of sequencesOf(SAYINGS, 3)) for (const wish of WISHES) {
    const {ran, end, text, guarded, asked, answered} = expectedGuards({sayings, wish, desk: "approver approves"});
    expect(await playGuardsInTree(sayings, wish)).toEqual({ran, end, text, guarded, asked, answered});
  }
});
