// Goal: depth, breadth and total are exact at their boundaries, and a refusal tells the model what
// to do.
// Method: facts one below, at and above each limit; complete refusals compared.

import { expect, test } from "vitest";

import {
  checkSubagentLimits,
  DEFAULT_SUBAGENT_LIMITS,
  type SubagentLimits,
  resolveSubagentLimits,
} from "../../src/policies/subagent-limits.ts";
import { proves } from "../harness/proves.ts";
import { thrownBy } from "../support/thrown.ts";

const NOTHING = { parentDepth: 0, childCount: 0, total: 0 };
const check = (limits: SubagentLimits, facts: Partial<typeof NOTHING>) => {
  const { total, ...more } = { ...NOTHING, ...facts };
  const totals = [{ who: "this run", maximum: limits.maxTotalSubagents, started: total }];
  return checkSubagentLimits(limits, { ...more, totals });
};
const codeOf = (
  limits: Parameters<typeof resolveSubagentLimits>[1],
  facts: Partial<typeof NOTHING>,
): string | undefined => check(resolveSubagentLimits("limits", limits), facts)?.code;

test("defaults to a depth of 3, a breadth of 5 and a total of 10", () => {
  expect(resolveSubagentLimits("limits", {})).toEqual({
    maxDepth: 3,
    maxBreadthPerParent: 5,
    maxTotalSubagents: 10,
  });
  expect(resolveSubagentLimits("limits", Object.fromEntries([["maxDepth", undefined]]))).toEqual(
    DEFAULT_SUBAGENT_LIMITS,
  );
  expect(resolveSubagentLimits("limits", { maxBreadthPerParent: 2 })).toEqual({
    ...DEFAULT_SUBAGENT_LIMITS,
    maxBreadthPerParent: 2,
  });
});

test("freezes the limits", () => {
  expect([
    Object.isFrozen(DEFAULT_SUBAGENT_LIMITS),
    Object.isFrozen(resolveSubagentLimits("limits", {})),
  ]).toEqual([true, true]);
});

proves(["R137"], "allows a child at the maximum depth, and refuses one deeper", () => {
  expect([0, 1, 2, 3, 4].map((parentDepth) => codeOf({}, { parentDepth }))).toEqual([
    undefined,
    undefined,
    undefined,
    "depth_limit",
    "depth_limit",
  ]);
});

proves(
  ["R138"],
  "allows the fifth child of a parent, refuses the sixth, and allows another parent's",
  () => {
    expect([4, 5, 6, 0].map((childCount) => codeOf({}, { childCount, total: 6 }))).toEqual([
      undefined,
      "breadth_limit",
      "breadth_limit",
      undefined,
    ]);
  },
);

proves(["R139"], "allows the tenth subagent of a tree, and refuses the eleventh", () => {
  expect([9, 10, 11].map((total) => codeOf({}, { total }))).toEqual([
    undefined,
    "total_limit",
    "total_limit",
  ]);
});

test("treats zero as zero for each limit", () => {
  expect(codeOf({ maxDepth: 0 }, {})).toBe("depth_limit");
  expect(codeOf({ maxBreadthPerParent: 0 }, {})).toBe("breadth_limit");
  expect(codeOf({ maxTotalSubagents: 0 }, {})).toBe("total_limit");
});

proves(["X14"], "names the limit, its current value and an alternative in a refusal", () => {
  const limits = resolveSubagentLimits("limits", {});
  expect(check(limits, { parentDepth: 3 })).toEqual({
    code: "depth_limit",
    message:
      "Not started: subagents may be at depth 3 at most and you are at depth 3. Do this part yourself with your own tools.",
    maximum: 3,
    current: 3,
  });
  expect(check(limits, { childCount: 5 })).toEqual({
    code: "breadth_limit",
    message:
      "Not started: you have started 5 of at most 5 subagents. Work with the results you have, or do this part yourself.",
    maximum: 5,
    current: 5,
  });
  expect(check(limits, { total: 10 })).toEqual({
    code: "total_limit",
    message:
      "Not started: this run has started 10 of at most 10 subagents. Do this part yourself, or leave it out and say so.",
    maximum: 10,
    current: 10,
  });
});

const BAD: readonly (readonly [string, object, string, string])[] = [
  ["a negative number", { maxDepth: -1 }, "limits.maxDepth", "-1"],
  ["a fraction", { maxBreadthPerParent: 1.5 }, "limits.maxBreadthPerParent", "1.5"],
  ["NaN", { maxTotalSubagents: NaN }, "limits.maxTotalSubagents", "NaN"],
  ["Infinity", { maxDepth: Infinity }, "limits.maxDepth", "Infinity"],
  ["text", { maxDepth: "3" }, "limits.maxDepth", '"3"'],
  ["null", { maxDepth: null }, "limits.maxDepth", "null"],
  ["a name that does not exist", { maxDeth: 3 }, "limits.maxDeth", '"maxDeth"'],
  ["an array", [3], "limits", "an array"],
];

for (const [what, given, field, got] of BAD) {
  test(`refuses ${what} by name`, () => {
    const { code, data } = thrownBy(() => resolveSubagentLimits("limits", given));
    expect([code, data["field"], data["got"]]).toEqual(["invalid_argument", field, got]);
  });
}
