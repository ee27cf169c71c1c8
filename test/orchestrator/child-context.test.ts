// Goal: what a subagent starts with is put together from the facts of its parent, and a request that cannot be met says so.
// Method: hand-made facts of a parent and of the role of its subagent.

import { expect, test } from "vitest";

import {
  childContext,
  type ChildContext,
  type ChildFacts,
} from "../../src/orchestrator/tree/child-context.ts";
import { subagentContextPolicy } from "../../src/policies/subagent-context-policy.ts";
import type { SubagentContextPolicy } from "../../src/policies/subagent-context-policy.ts";
import type { SpawnRefusal, SpawnRequest } from "../../src/protocol/subagent.ts";
import { proves } from "../harness/proves.ts";
import { unfrozenParts } from "../support/frozen.ts";

const TIGHTENED = [{ field: "limits.maxDepth", asked: 3, given: 2, source: "lead" }];

function factsWith(
  given: Partial<SubagentContextPolicy>,
  more: Partial<ChildFacts> = {},
): ChildFacts {
  const facts: ChildFacts = {
    agentPath: "lead/middle#1",
    policy: subagentContextPolicy("middle.context", given),
    messages: [],
    metadata: {},
    toolRules: [{ source: "lead", denied: ["b"] }],
    siblings: [],
    constraints: { remaining: {}, subagentsLeft: 0, deniedTools: [] },
    failedAttempts: [],
    role: "leaf",
    toolNames: ["a", "b", "c", "Finish"],
    toolNamesBelow: new Set(),
    tightened: TIGHTENED,
    beyondBounds: [],
  };
  return Object.defineProperties(facts, Object.getOwnPropertyDescriptors(more));
}

function childWith(...names: readonly string[]): Partial<ChildFacts> {
  const toolNames = names.length === 0 ? [] : [...names, "Finish"];
  return { toolNames, toolNamesBelow: new Set(names), tightened: [] };
}

function born(outcome: ChildContext | SpawnRefusal): ChildContext {
  return "code" in outcome ? expect.fail(outcome.message) : outcome;
}

proves(["R127", "R132"], "a plain request hands on the rules of all agents above", () => {
  const context = born(childContext(factsWith({ deniedTools: ["c"] }), {}));
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
  expect([context.manifest.removedTools, context.manifest.tightened]).toEqual([removed, TIGHTENED]);
  expect(unfrozenParts(context)).toEqual([]);
});

test("rules come from the root down: ancestors, policy, request", () => {
  const facts = factsWith({ allowedTools: ["a", "b"] }, childWith("a", "b", "c"));
  const context = childContext(facts, { deniedTools: ["a"] });
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
    const facts = factsWith({}, { ...childWith("a", "b", "c"), siblings });
    expect(childContext(facts, request)).toEqual({ code, message });
  });
}

test("a child without any tools is said to have none", () => {
  expect(childContext(factsWith({}, childWith()), { allowedTools: ["x"] })).toEqual({
    code: "invalid_context",
    message:
      'Not started: allowedTools[0] of the request by lead/middle#1 names "x", and leaf has no such tool. It has no tools. Correct the name.',
  });
});

test("an error that is not about the context comes through as it is", () => {
  const facts = factsWith(
    { parentConstraints: true },
    {
      get constraints(): never {
        throw new RangeError("The ledger broke.");
      },
    },
  );
  expect(() => childContext(facts, {})).toThrow(RangeError);
});
