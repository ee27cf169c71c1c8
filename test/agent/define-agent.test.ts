// Goal: a role is its definition, frozen, with the documented defaults.
// Method: one valid definition and some that add to it; complete values compared.

import { expect, test } from "vitest";
import { z } from "zod";

import type { AgentRole } from "../../src/agent/agent-role.ts";
import { defineAgent, type AgentDefinition } from "../../src/agent/define-agent.ts";
import { BUILT_IN_SECTIONS } from "../../src/agent/request-sections.ts";
import { observe } from "../../src/hooks/hook.ts";
import { hasToolCall } from "../../src/policies/stop-conditions.ts";
import { ScriptedModel } from "../../src/testing/scripted-model.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { proves } from "../harness/proves.ts";
import { unfrozenParts } from "../support/frozen.ts";

const tool = (name: string): ReturnType<typeof defineTool> =>
  defineTool({ name, description: `Does ${name}.`, inputSchema: z.object({}), execute: () => "" });

const model = new ScriptedModel([]);
const GOOD: AgentDefinition = { name: "lead", instructions: "Lead.", model };

/** Defines the valid role with some fields replaced. */
const define = (patch: object): AgentRole => defineAgent({ ...GOOD, ...patch });

test("a role has the documented defaults", () => {
  expect(defineAgent(GOOD)).toEqual({
    name: "lead",
    description: undefined,
    instructions: "Lead.",
    model,
    tools: [],
    toolDefaults: {},
    guards: [],
    toolFilters: [],
    errorBudget: { maxToolErrors: 5, maxConsecutiveErrors: 3, maxRetryErrors: 10 },
    errorPolicy: { blockedPolicy: "continue", retryLimitPolicy: "stop" },
    subagents: [],
    contextPolicy: {
      inheritMessages: false,
      messageWindowSize: 0,
      selectMessages: undefined,
      inheritMetadata: false,
      metadataKeys: undefined,
      injectedTexts: [],
      includeSiblingResults: false,
      includeParentConstraints: false,
      includeFailedAttempts: false,
      allowedTools: undefined,
      deniedTools: [],
      reportRemovedTools: true,
    },
    delegation: {
      background: false,
      parentEndPolicy: "await",
      failurePolicy: "isolate",
      share: { type: "pool" },
      reserve: {},
      maxIdenticalDelegations: 2,
    },
    limits: {},
    dynamicRoles: undefined,
    budget: {},
    showBudget: false,
    stopWhen: [],
    hooks: [],
    wrapUp: undefined,
    sections: BUILT_IN_SECTIONS,
    compaction: undefined,
    maxOutputTokens: 8192,
    temperature: undefined,
    hasOutput: false,
    outputMode: "auto",
  });
});

test("a single stop condition becomes a list of one", () => {
  const enough = hasToolCall("search");
  const { stopWhen } = defineAgent({ ...GOOD, stopWhen: enough });
  expect(stopWhen).toEqual([enough]);
  expect(Object.isFrozen(stopWhen)).toBe(true);
});

test("a role has the fields of its definition", () => {
  const [search, helper, enough] = [
    tool("search"),
    define({ name: "helper", description: "Helps." }),
    hasToolCall("search"),
  ];
  const role = defineAgent({
    ...GOOD,
    description: "Leads.",
    tools: [search],
    subagents: [helper, "lead"],
    contextPolicy: { inheritMessages: true },
    budget: { steps: 3 },
    stopWhen: [enough],
    maxOutputTokens: 1,
    temperature: 0,
  });
  expect([role.description, role.tools, role.subagents, role.budget, role.stopWhen]).toEqual([
    "Leads.",
    [search],
    [helper, "lead"],
    { steps: 3 },
    [enough],
  ]);
  expect([role.contextPolicy.inheritMessages, role.maxOutputTokens, role.temperature]).toEqual([
    true,
    1,
    0,
  ]);
});

test("a role has the hooks, the wrap-up text and the compaction of its definition", () => {
  const watcher = observe(["agent.ended"], () => undefined);
  const role = define({ hooks: [watcher], wrapUp: "Finish.", compaction: { keepMessages: 1 } });
  expect([role.hooks, role.wrapUp, role.compaction]).toEqual([
    [watcher],
    "Finish.",
    { keepMessages: 1 },
  ]);
  expect(define({ wrapUp: true }).wrapUp).toBe(true);
  expect(define({ wrapUp: false }).wrapUp).toBeUndefined();
});

test("a typed result adds the Finish tool after the role's own tools", () => {
  const role = define({ tools: [tool("search")], output: z.object({ answer: z.number() }) });
  expect([role.hasOutput, role.tools.map(({ name, kind }) => [name, kind])]).toEqual([
    true,
    [
      ["search", "function"],
      ["Finish", "finish"],
    ],
  ]);
});

proves(["R40"], "a role is frozen, and shares no list with its definition", () => {
  const lists = {
    tools: [tool("search")],
    subagents: ["lead"],
    stopWhen: [hasToolCall("search")],
    hooks: [observe(["agent.ended"], () => undefined)],
    budget: { steps: 3 },
    compaction: { keepMessages: 3 },
  };
  const role = define({ ...lists, contextPolicy: { injectedTexts: ["Hint."] } });
  const { model: _port, ...rest } = role;
  expect(Object.isFrozen(role)).toBe(true);
  expect(unfrozenParts(rest).filter((path) => path !== "value")).toEqual([]);
  lists.tools.push(tool("read"));
  lists.subagents.push("other");
  lists.stopWhen.push(hasToolCall("read"));
  lists.hooks.pop();
  lists.budget.steps = 99;
  lists.compaction.keepMessages = 99;
  const { tools, subagents, stopWhen, hooks, budget, compaction } = role;
  expect([tools.length, subagents, stopWhen.length, hooks.length, budget, compaction]).toEqual([
    1,
    ["lead"],
    1,
    1,
    { steps: 3 },
    { keepMessages: 3 },
  ]);
});
