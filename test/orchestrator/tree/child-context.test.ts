// Goal: the context of a subagent is built from the facts of its parent, and an impossible request
// is refused with the reason.
// Method: hand-made facts of a parent and of the role of its subagent; for gathered facts, a run
// that has not started.

import { expect, test } from "vitest";
import { z } from "zod";

import {
  buildChildContext,
  gatherChildFacts,
  type ChildContext,
  type ChildFacts,
} from "../../../src/orchestrator/tree/child-context.ts";
import { resolveContextPolicy } from "../../../src/policies/subagent-context-policy.ts";
import type { SubagentContextPolicy } from "../../../src/policies/subagent-context-policy.ts";
import type { SpawnRequest } from "../../../src/protocol/subagent.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { failCall } from "../../../src/agent/tool-calls/call-outcome.ts";
import { createAgent } from "../../../src/orchestrator/tree/create-agent.ts";
import type { StepRecord } from "../../../src/protocol/step-record.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { ScriptedModel } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { bareRun } from "../../support/bare-run.ts";
import { stepCalling } from "../../support/stop-facts.ts";
import { unfrozenParts } from "../../support/frozen.ts";

function factsWith(
  given: Partial<SubagentContextPolicy>,
  more: Partial<ChildFacts> = {},
): ChildFacts {
  const facts: ChildFacts = {
    agentPath: "lead/middle#1",
    policy: resolveContextPolicy("middle.context", given),
    messages: [],
    metadata: {},
    toolRules: [{ source: "lead", denied: ["b"] }],
    siblings: [],
    constraints: { remaining: {}, subagentsLeft: 0, deniedTools: [] },
    failedAttempts: [],
    role: "leaf",
    toolNames: ["a", "b", "c", "Finish"],
    toolNamesBelow: new Set(),
    beyondBounds: [],
  };
  return Object.defineProperties(facts, Object.getOwnPropertyDescriptors(more));
}

function childWith(...names: readonly string[]): Partial<ChildFacts> {
  const toolNames = names.length === 0 ? [] : [...names, "Finish"];
  return { toolNames, toolNamesBelow: new Set(names) };
}

function born(outcome: ReturnType<typeof buildChildContext>): ChildContext {
  return outcome.refusal === undefined ? outcome : expect.fail(outcome.refusal.message);
}

proves(["R127", "R132"], "passes the rules of all ancestors on for a plain request", () => {
  const context = born(buildChildContext(factsWith({ deniedTools: ["c"] }), {}));
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
  expect(context.manifest.removedTools).toEqual(removed);
  expect(unfrozenParts(context)).toEqual([]);
});

test("orders rules from the root down: ancestors, policy, request", () => {
  const facts = factsWith({ allowedTools: ["a", "b"] }, childWith("a", "b", "c"));
  const context = buildChildContext(facts, { deniedTools: ["a"] });
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
    "context_policy_failed",
    'Not started: allowedTools[1] of the request by lead/middle#1 names "x", and leaf has no such tool. Its tools are: a, b, c, Finish. Correct the name.',
  ],
  [
    "an allowed tool with a name that every object has",
    { role: "leaf", task: "Work.", allowedTools: ["constructor"] },
    "context_policy_failed",
    'Not started: allowedTools[0] of the request by lead/middle#1 names "constructor", and leaf has no such tool. Its tools are: a, b, c, Finish. Correct the name.',
  ],
  [
    "the result of an unknown subagent",
    { role: "leaf", task: "Work.", includeResultsFrom: ["leaf#1", "leaf#9"] },
    "subagent_running",
    "Not started: leaf#1 (lead/middle#1/leaf#1) has not ended, so it has no result to pass on. Wait for it, or call again without it.",
  ],
];

for (const [what, request, code, message] of REFUSED) {
  test(`refuses ${what} with a message for the model`, () => {
    const siblings = [{ childName: "leaf#1", role: "leaf", result: undefined }];
    const facts = factsWith({}, { ...childWith("a", "b", "c"), siblings });
    expect(buildChildContext(facts, request)).toEqual({ refusal: { code, message } });
  });
}

test("reports that a child has no tools", () => {
  expect(buildChildContext(factsWith({}, childWith()), { allowedTools: ["x"] })).toEqual({
    refusal: {
      code: "context_policy_failed",
      message:
        'Not started: allowedTools[0] of the request by lead/middle#1 names "x", and leaf has no such tool. It has no tools. Correct the name.',
    },
  });
});

test("rethrows an error that is not about the context", () => {
  const facts = factsWith(
    { includeParentConstraints: true },
    {
      get constraints(): never {
        throw new RangeError("The ledger broke.");
      },
    },
  );
  expect(() => buildChildContext(facts, {})).toThrow(RangeError);
});

/** Gathers the facts for another leaf of a lead that has a subagent, a failed call and a limit. */
function gathered(context: Partial<SubagentContextPolicy>, request: Partial<SpawnRequest> = {}) {
  const model = new ScriptedModel([]);
  const tools = [
    defineTool({
      name: "read",
      description: "Reads.",
      inputSchema: z.object({}),
      execute: () => "read",
    }),
  ];
  const instructions = "Work.";
  const leaf = defineAgent({ name: "leaf", description: "Works.", instructions, model, tools });
  const lead = defineAgent({
    name: "lead",
    instructions: "Lead.",
    model,
    contextPolicy: context,
    subagents: [leaf],
  });
  const run = bareRun(lead, new ManualClock());
  const made = { instructions: "Go.", timeMs: undefined };
  const parent = createAgent(run, {
    facts: { role: lead, task: "Lead.", metadata: {}, agentPath: "lead" },
    spendLimits: { steps: 3 },
    ...made,
  });
  const agentPath = run.tree.admit(parent, "leaf");
  const facts = { role: leaf, task: "Work.", metadata: {}, agentPath };
  createAgent(run, { facts, parent, spendLimits: {}, ...made });
  const next = run.tree.admit(parent, "leaf");
  const child = {
    role: leaf,
    agentPath: next,
    request: { role: "leaf", task: "Work.", ...request },
  };
  const steps = [stepFailing("search")];
  const given = gatherChildFacts(run, parent, child, { messages: [], steps });
  const { siblings, constraints, failedAttempts, toolNamesBelow } = given;
  return { siblings, constraints, failedAttempts, toolNamesBelow };
}

function stepFailing(toolName: string): StepRecord {
  const step = stepCalling(1, toolName);
  const executions = step.tools.executions.map((one) => ({
    ...one,
    ...failCall("tool_error", "No."),
  }));
  return { ...step, tools: { ...step.tools, executions } };
}

const UNREAD = {
  siblings: [],
  constraints: { remaining: {}, subagentsLeft: 0, deniedTools: [] },
  failedAttempts: [],
  toolNamesBelow: new Set(),
};
const SIBLINGS = [{ childName: "leaf#1", role: "leaf", result: undefined }];

proves(["R127"], "gathers no facts of the parent for a policy that shows none", () => {
  expect(gathered({})).toEqual(UNREAD);
  expect(gathered({ inheritMetadata: true, deniedTools: ["search"] })).toEqual(UNREAD);
});

test("gathers each fact for the policy or the request that shows it", () => {
  expect(gathered({ includeSiblingResults: true })).toEqual({ ...UNREAD, siblings: SIBLINGS });
  expect(gathered({}, { includeResultsFrom: ["leaf#1"] })).toEqual({
    ...UNREAD,
    siblings: SIBLINGS,
  });
  expect(gathered({ includeParentConstraints: true })).toEqual({
    ...UNREAD,
    constraints: { remaining: { steps: 3 }, subagentsLeft: 3, deniedTools: [] },
  });
  expect(gathered({ includeFailedAttempts: true })).toEqual({
    ...UNREAD,
    failedAttempts: [
      {
        callId: "call_1_0",
        toolName: "search",
        stepNumber: 1,
        code: "tool_error",
        severity: "recoverable",
        message: "No.",
      },
    ],
  });
  expect(gathered({}, { allowedTools: [] })).toEqual({
    ...UNREAD,
    toolNamesBelow: new Set(["read"]),
  });
});
