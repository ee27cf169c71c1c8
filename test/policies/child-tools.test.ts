// Goal: a subagent has exactly the tools that every list above it allows, and each removal is
// recorded with its reason.
// Method: hand-made lists, and random ones against a plain statement of the rule.

import * as fc from "fast-check";
import { expect, test } from "vitest";

import {
  findUnknownToolName,
  createToolRules,
  collectRemovedTools,
  type ChildToolFacts,
  type ToolLists,
} from "../../src/policies/child-tools.ts";
import type { RemovedTool, ToolRule } from "../../src/protocol/tool-rule.ts";
import { proves } from "../harness/proves.ts";

const NAMES = ["a", "b", "c", "Finish"];

/** Returns the tools of a subagent, and the removed ones. */
function applied(facts: ChildToolFacts) {
  const removed = collectRemovedTools(facts);
  const kept = facts.names.filter((name) => removed.every(({ toolName }) => toolName !== name));
  return { kept, removed };
}

function under(...lists: readonly ToolLists[]): ReturnType<typeof applied> {
  const rules = lists.flatMap((list, index) =>
    createToolRules(`lead${"/x#1".repeat(index)}`, list),
  );
  return applied({ names: NAMES, rules });
}

function removed(toolName: string, rule: RemovedTool["rule"], source = "lead"): RemovedTool {
  return { toolName, rule, source };
}

proves(
  ["R131"],
  "keeps all tools of the role without lists, and only Finish for an empty list of allowed tools",
  () => {
    expect(under()).toEqual({ kept: NAMES, removed: [] });
    expect(under({})).toEqual({ kept: NAMES, removed: [] });
    expect(under({ deniedTools: [] })).toEqual({ kept: NAMES, removed: [] });
    expect(under({ allowedTools: [] })).toEqual({
      kept: ["Finish"],
      removed: ["a", "b", "c"].map((name) => removed(name, "not_allowed")),
    });
  },
);

proves(["R131", "R133"], "removes a tool that one list allows and denies as a conflict", () => {
  expect(under({ allowedTools: ["a", "b"], deniedTools: ["b"] })).toEqual({
    kept: ["a", "Finish"],
    removed: [removed("b", "conflict"), removed("c", "not_allowed")],
  });
});

proves(["R131"], "intersects the lists of all agents above, whatever a lower list allows", () => {
  expect(under({ deniedTools: ["a"] }, { allowedTools: ["a", "b"] })).toEqual({
    kept: ["b", "Finish"],
    removed: [removed("a", "denied"), removed("c", "not_allowed", "lead/x#1")],
  });
});

proves(["R132"], "names each source that removes a tool, from the root down", () => {
  const lists = [{ allowedTools: ["b"] }, { deniedTools: ["a"] }, { allowedTools: ["c"] }];
  expect(under(...lists)).toEqual({
    kept: ["Finish"],
    removed: [
      removed("a", "not_allowed"),
      removed("a", "denied", "lead/x#1"),
      removed("a", "not_allowed", "lead/x#1/x#1"),
      removed("b", "not_allowed", "lead/x#1/x#1"),
      removed("c", "not_allowed"),
    ],
  });
});

test("records a removal once that a policy and a request of one agent share", () => {
  const denies = createToolRules("lead", { deniedTools: ["a"] });
  expect(applied({ names: ["a"], rules: [...denies, ...denies] }).removed).toEqual([
    removed("a", "denied"),
  ]);
});

test("ignores names of tools that the role does not have", () => {
  const list = { allowedTools: ["a", "b", "c", "x"], deniedTools: ["x", "y"] };
  expect(under(list)).toEqual({ kept: NAMES, removed: [] });
});

test("removes the tools that start subagents where no depth is left, beside the lists", () => {
  const rules = createToolRules("lead", { deniedTools: ["SpawnSubagent"] });
  const noDepthLeft = { toolNames: ["SpawnSubagent", "ListSubagents"], source: "lead" };
  const names = ["a", "SpawnSubagent"];
  expect(applied({ names, rules, noDepthLeft })).toEqual({
    kept: ["a"],
    removed: [removed("SpawnSubagent", "denied"), removed("SpawnSubagent", "no_depth_left")],
  });
  expect(applied({ names: ["Finish", "a"], rules: [], noDepthLeft })).toEqual({
    kept: ["Finish", "a"],
    removed: [],
  });
});

test("treats names of object properties like any other", () => {
  const names = ["constructor", "toString", "hasOwnProperty"];
  const rules = createToolRules("lead", { allowedTools: ["toString"] });
  expect(applied({ names, rules }).kept).toEqual(["toString"]);
  expect(findUnknownToolName({ deniedTools: ["constructor"] }, new Set())).toEqual({
    field: "deniedTools[0]",
    toolName: "constructor",
  });
});

test("creates no rule from lists without restriction, and copies lists into rules", () => {
  expect([createToolRules("lead", {}), createToolRules("lead", { deniedTools: [] })]).toEqual([
    [],
    [],
  ]);
  const allowedTools = ["a"];
  const rules = createToolRules("lead", { allowedTools });
  allowedTools.push("b");
  expect(rules).toEqual([{ source: "lead", allowed: ["a"], denied: [] }]);
});

test("finds the first unknown tool name with its place, and accepts Finish", () => {
  const known = new Set(["a", "b"]);
  expect(
    findUnknownToolName({ allowedTools: ["a", "Finish"], deniedTools: ["b"] }, known),
  ).toBeUndefined();
  expect(findUnknownToolName({ allowedTools: ["a", "A"], deniedTools: ["x"] }, known)).toEqual({
    field: "allowedTools[1]",
    toolName: "A",
  });
  expect(findUnknownToolName({ deniedTools: ["b", "x"] }, known)).toEqual({
    field: "deniedTools[1]",
    toolName: "x",
  });
  expect(findUnknownToolName({}, known)).toBeUndefined();
});

const someNames = fc.uniqueArray(fc.constantFrom("a", "b", "c", "d", "Finish"));
const rules: fc.Arbitrary<readonly ToolRule[]> = fc.array(
  fc
    .record({
      source: fc.constantFrom("lead", "lead/x#1"),
      allowed: fc.option(someNames, { nil: undefined }),
      denied: someNames,
    })
    .map(({ allowed, ...rule }) => (allowed === undefined ? rule : { ...rule, allowed })),
  { maxLength: 4 },
);

function reasonIn({ allowed, denied }: ToolRule, name: string): RemovedTool["rule"] | "none" {
  if (denied.includes(name) && allowed?.includes(name) === true) return "conflict";
  if (denied.includes(name)) return "denied";
  return allowed === undefined || allowed.includes(name) ? "none" : "not_allowed";
}

proves(
  ["R131", "R132"],
  "keeps a tool if every rule allows it, and records a reason otherwise",
  () => {
    fc.assert(
      fc.property(someNames, rules, (names, given) => {
        const { kept, removed: gone } = applied({ names, rules: given });
        const passes = (name: string): boolean =>
          name === "Finish" ||
          given.every(
            ({ allowed, denied }) =>
              (allowed === undefined || allowed.includes(name)) && !denied.includes(name),
          );
        expect(kept).toEqual(names.filter(passes));
        expect([...new Set(gone.map(({ toolName }) => toolName))]).toEqual(
          names.filter((name) => !passes(name)),
        );
        for (const { toolName, rule, source } of gone) {
          const reasons = given
            .filter((one) => one.source === source)
            .map((one) => reasonIn(one, toolName));
          expect(reasons).toContain(rule);
        }
      }),
      { numRuns: 2_000 },
    );
  },
);

test("never restores a tool by a further rule", () => {
  fc.assert(
    fc.property(someNames, rules, rules, (names, above, below) => {
      const before = new Set(applied({ names, rules: above }).kept);
      const after = applied({ names, rules: [...above, ...below] }).kept;
      expect(after.every((name) => before.has(name))).toBe(true);
    }),
  );
});
