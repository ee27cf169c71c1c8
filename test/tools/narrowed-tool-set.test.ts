// Goal: a set without some of its tools shows and finds the others, in their order, and is no copy where nothing is missing.
// Method: a set of three tools, narrowed in every way.

import { expect, test } from "vitest";

import { filterToolSet, buildToolSet, type ToolSet } from "../../src/tools/tool-set.ts";
import { spyTool } from "../harness/tools.ts";

const NAMES = ["a", "b", "c"];
const SET = buildToolSet(
  "role",
  NAMES.map((name) => spyTool(name)),
  { maxRetries: 7 },
);

function without(gone: readonly string[], hidden: readonly string[] = []): ToolSet {
  return filterToolSet(SET, { excluded: new Set(gone), hidden: new Set(hidden) });
}

test("what is gone is neither shown nor found; what is hidden is found", () => {
  const set = without(["a"], ["b"]);
  expect([set.names, set.specs]).toEqual([["c"], SET.specs.slice(2)]);
  expect(NAMES.map((name) => set.find(name))).toEqual([undefined, SET.find("b"), SET.find("c")]);
  expect([Object.isFrozen(set), Object.isFrozen(set.names), Object.isFrozen(set.specs)]).toEqual([
    true,
    true,
    true,
  ]);
});

test("what is gone and hidden is gone", () => {
  expect(without(["a"], ["a"]).find("a")).toBeUndefined();
});

test("settings stay those of the role, also for what is not there", () => {
  const set = without(["a"]);
  expect(["a", "b", "x"].map((name) => set.getSettings(name).maxRetries)).toEqual([7, 7, 7]);
});

test("where nothing of it is missing the set is the same", () => {
  expect(without([])).toBe(SET);
  expect(without(["x"], ["y"])).toBe(SET);
});

test("the set that is narrowed stays as it was", () => {
  without(["a", "b", "c"]);
  expect(SET.names).toEqual(NAMES);
  expect(without(["a", "b", "c"]).specs).toEqual([]);
});
