// Goal: a narrowed tool set shows and finds the remaining tools in their order, and returns the
// same set if nothing was removed.
// Method: narrow a set of three tools in every way.

import { expect, test } from "vitest";

import { excludeRemovedTools, buildToolSet, type ToolSet } from "../../src/tools/tool-set.ts";
import { spyTool } from "../harness/tools.ts";

const NAMES = ["a", "b", "c"];
const SET = buildToolSet(
  "role",
  NAMES.map((name) => spyTool(name)),
  { maxRetries: 7 },
);

function without(gone: readonly string[], hidden: readonly string[] = []): ToolSet {
  return excludeRemovedTools(SET, [
    ...gone.map((toolName) => ({ toolName, rule: "denied", source: "role" }) as const),
    ...hidden.map((toolName) => ({ toolName, rule: "no_depth_left", source: "role" }) as const),
  ]);
}

test("does not find removed tools; finds hidden tools without listing them", () => {
  const set = without(["a"], ["b"]);
  expect([set.names, set.specs]).toEqual([["c"], SET.specs.slice(2)]);
  expect(NAMES.map((name) => set.find(name))).toEqual([undefined, SET.find("b"), SET.find("c")]);
  expect([Object.isFrozen(set), Object.isFrozen(set.names), Object.isFrozen(set.specs)]).toEqual([
    true,
    true,
    true,
  ]);
});

test("does not find a tool that is both removed and hidden", () => {
  expect(without(["a"], ["a"]).find("a")).toBeUndefined();
});

test("returns the settings of the role, even for unknown names", () => {
  const set = without(["a"]);
  expect(["a", "b", "x"].map((name) => set.getSettings(name).maxRetries)).toEqual([7, 7, 7]);
});

test("returns the same set if no tool is removed or hidden", () => {
  expect(without([])).toBe(SET);
  expect(without(["x"], ["y"])).toBe(SET);
});

test("does not change the original set", () => {
  without(["a", "b", "c"]);
  expect(SET.names).toEqual(NAMES);
  expect(without(["a", "b", "c"]).specs).toEqual([]);
});
