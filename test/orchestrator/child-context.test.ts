// Goal: what a subagent starts with is put together from no more than is needed, and a request that cannot be met says so.
// Method: hand-made facts of a parent whose costly parts fail the test when they are looked at.

import { expect, test } from "vitest";

import {
  childContext,
  type ChildContext,
  type ChildFacts,
  type ParentFacts,
} from "../../src/orchestrator/tree/child-context.ts";
import { subagentContextPolicy } from "../../src/policies/subagent-context-policy.ts";
import type { SubagentContextPolicy } from "../../src/policies/subagent-context-policy.ts";
import type { SpawnRefusal, SpawnRequest } from "../../src/protocol/subagent.ts";
import { proves } from "../harness/proves.ts";
import { unfrozenParts } from "../support/frozen.ts";

function parentWith(
  given: Partial<SubagentContextPolicy>,
  more: Partial<ParentFacts> = {},
): ParentFacts {
  const facts: ParentFacts = {
    agentPath: "lead/middle#1",
    policy: subagentContextPolicy("middle.context", given),
    messages: [],
    metadata: {},
    toolRules: [{ source: "lead", denied: ["b"] }],
    get siblings() {
      return expect.fail("the siblings are not needed");
    },
    get constraints() {
      return expect.fail("the constraints are not needed");
    },
    get failedAttempts() {
      return expect.fail("the attempts are not needed");
    },
  };
  return Object.defineProperties(facts, Object.getOwnPropertyDescriptors(more));
}

const TIGHTENED = [{ field: "limits.maxDepth", asked: 3, given: 2, source: "lead" }];

const CHILD: ChildFacts = {
  role: "leaf",
  toolNames: ["a", "b", "c", "Finish"],
  toolNamesBelow: () => {
    return expect.fail("the names of tools below are not needed");
  },
  tightened: TIGHTENED,
  beyondBounds: [],
};

function childWith(...names: readonly string[]): ChildFacts {
  const toolNames = names.length === 0 ? [] : [...names, "Finish"];
  const toolNamesBelow = new Set(names);
  return {
    role: "leaf",
    toolNames,
    toolNamesBelow: () => toolNamesBelow,
    tightened: [],
    beyondBounds: [],
  };
}

function born(outcome: ChildContext | SpawnRefusal): ChildContext {
  return "code" in outcome ? expect.fail(outcome.message) : outcome;
}

proves(
  ["R127", "R132"],
  "a plain request looks at nothing that costs something, and hands on the rules",
  () => {
    const context = born(childContext(parentWith({ deniedTools: ["c"] }), CHILD, {}));
    const removed = [
      { toolName: "b", rule: "denied", source: "lead" },
      { toolName: "c", rule: "denied", source: "lead/middle#1" },
    ];
    expect(context.toolLimits).toEqual({
      rules: [
        { source: "lead", denied: ["b"] },
        { source: "lead/middle#1", denied: ["c"] },
      ],
      removed,
    });
    expect([context.manifest.removedTools, context.manifest.tightened]).toEqual([
      removed,
      TIGHTENED,
    ]);
    expect(unfrozenParts(context)).toEqual([]);
  },
);

test("rules come from the root down: ancestors, policy, request", () => {
  const parent = parentWith({ allowedTools: ["a", "b"] });
  const context = childContext(parent, childWith("a", "b", "c"), { deniedTools: ["a"] });
  const { toolLimits } = born(context);
  expect(toolLimits.rules).toEqual([
    { source: "lead", denied: ["b"] },
    { source: "lead/middle#1", allowed: ["a", "b"], denied: [] },
    { source: "lead/middle#1", denied: ["a"] },
  ]);
  expect(toolLimits.removed).toEqual([
    { toolName: "a", rule: "denied", source: "lead/middle#1" },
    { toolName: "b", rule: "denied", source: "lead" },
    { toolName: "c", rule: "not_allowed", source: "lead/middle#1" },
  ]);
});

const REFUSED: readonly (readonly [string, SpawnRequest, string, string])[] = [
  [
    "an allowed tool that the role does not have",
    { role: "leaf", task: "Work.", allowedTools: ["a", "x"] },
    "invalid_context",
    'Not started: allowedTools[1] of the request by lead/middle#1 names "x", and leaf has no such tool. Its tools are: a, b, c, Finish. Correct the name.',
  ],
  [
    "an allowed tool with a name that every object has",
    { role: "leaf", task: "Work.", allowedTools: ["constructor"] },
    "invalid_context",
    'Not started: allowedTools[0] of the request by lead/middle#1 names "constructor", and leaf has no such tool. Its tools are: a, b, c, Finish. Correct the name.',
  ],
  [
    "the result of an unknown subagent",
    { role: "leaf", task: "Work.", resultsOf: ["leaf#1", "leaf#9"] },
    "subagent_running",
    "Not started: leaf#1 (lead/middle#1/leaf#1) has not ended, so there is no result of it to hand on. Wait for it, or call again without it.",
  ],
];

for (const [what, request, code, message] of REFUSED) {
  test(`${what} is refused with words for the model`, () => {
    const siblings = [{ childName: "leaf#1", role: "leaf", result: undefined }];
    const parent = parentWith({}, { siblings });
    expect(childContext(parent, childWith("a", "b", "c"), request)).toEqual({ code, message });
  });
}

test("a child without any tools is said to have none", () => {
  expect(childContext(parentWith({}), childWith(), { allowedTools: ["x"] })).toEqual({
    code: "invalid_context",
    message:
      'Not started: allowedTools[0] of the request by lead/middle#1 names "x", and leaf has no such tool. It has no tools. Correct the name.',
  });
});

test("an error that is not about the context comes through as it is", () => {
  const parent = parentWith(
    { parentConstraints: true },
    {
      get constraints(): never {
        throw new RangeError("The ledger broke.");
      },
    },
  );
  expect(() => childContext(parent, CHILD, {})).toThrow(RangeError);
});
