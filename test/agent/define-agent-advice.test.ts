// Goal: following the advice of a rejected definition results in an accepted definition.
// Method: mistakes of newcomers, with the complete message.

import { expect, test } from "vitest";
import { z } from "zod";
import * as mini from "zod/mini";
import * as early from "zod/v3";

import { defineAgent } from "../../src/agent/define-agent.ts";
import { ScriptedModel } from "../../src/testing/scripted-model.ts";
import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import { defineDelegation, defineTool } from "../../src/tools/define-tool.ts";
import { jsonSchema } from "../../src/tools/json-schema.ts";
import { toolFilter } from "../../src/tools/tool-filter.ts";
import { toolGuard } from "../../src/tools/tool-guard.ts";
import { withTimeout } from "../../src/tools/wrappers/with-timeout.ts";
import { proves } from "../harness/proves.ts";
import { thrownBy } from "../support/thrown.ts";

const TOOL = { name: "read", description: "Reads.", inputSchema: z.object({}), execute: () => "" };
const ROLE = { name: "lead", instructions: "Lead.", model: new ScriptedModel([]) };
const tool = defineTool(TOOL);
const server = { name: "files", tools: [tool], close: () => {} };

const toolOf = (patch: object) => () => defineTool({ ...TOOL, ...patch });
const roleOf = (patch: object) => () => defineAgent({ ...ROLE, ...patch });

const startOf = (options: object) => new Orchestrator().start(defineAgent(ROLE), "Go.", options);

/** Calls a function as an untyped user may call it. */
function loosely(call: (...given: never[]) => unknown, ...given: readonly unknown[]): unknown {
  return Reflect.apply(call, undefined, given);
}

const OTHER_ZOD =
  'a zod object schema of zod 4, from the same copy of zod that espalier uses, got an object. Import z from "zod", not from "zod/mini" or "zod/v3".';
const ZOD_3 =
  'a zod object schema of zod 4, got a schema of zod 3. Install zod 4 (npm install zod@4), and import z from "zod".';

test.each<readonly [string, () => unknown]>([
  // Fields with a default if left out; the default is never "no limit".
  [
    "read.maxRetries to be a whole number from 0 up, got -1. Leave it out for the default, 2.",
    toolOf({ maxRetries: -1 }),
  ],
  [
    "read.maxResultCharacters to be a whole number from 0 up, got Infinity. Leave it out for the default, 50,000.",
    toolOf({ maxResultCharacters: Infinity }),
  ],
  [
    'read.maxIdenticalCalls to be a whole number from 0 up, got Infinity. Leave it out for the default, 2, or use "unlimited".',
    toolOf({ maxIdenticalCalls: Infinity }),
  ],
  [
    "read.timeoutMs to be a number of milliseconds above 0, got Infinity. Leave it out for no limit.",
    toolOf({ timeoutMs: Infinity }),
  ],
  [
    "lead.toolDefaults.maxRetries to be a whole number from 0 up, got 1.5. Leave it out for the default, 2.",
    roleOf({ toolDefaults: { maxRetries: 1.5 } }),
  ],
  [
    "lead.errorBudget.maxToolErrors to be a whole number from 0 up, got Infinity. Leave it out for the default, 5.",
    roleOf({ errorBudget: { maxToolErrors: Infinity } }),
  ],
  [
    "lead.errorBudget.maxConsecutiveErrors to be a whole number from 0 up, got null. Leave it out for the default, 3.",
    roleOf({ errorBudget: { maxConsecutiveErrors: null } }),
  ],
  [
    'lead.errorBudget.maxRetryErrors to be a whole number from 0 up, got "1". Leave it out for the default, 10.',
    roleOf({ errorBudget: { maxRetryErrors: "1" } }),
  ],
  [
    "lead.maxOutputTokens to be a whole number from 0 up, got -1. Leave it out for the default, 8,192.",
    roleOf({ maxOutputTokens: -1 }),
  ],
  [
    "lead.temperature to be a number from 0 to 2, got -1. Leave it out for the provider's default.",
    roleOf({ temperature: -1 }),
  ],
  [
    "lead.limits.maxDepth to be a whole number from 0 up, got 1.5. Leave it out for the default.",
    roleOf({ limits: { maxDepth: 1.5 } }),
  ],
  [
    "lead.delegation.failurePolicy.quorum to be a whole number from 1 up, got 0. Set how many subagents of a reply have to complete.",
    roleOf({ delegation: { failurePolicy: { quorum: 0 } } }),
  ],
  // Functions.
  [
    "toolGuard.check to be a function, got an object. Pass a function.",
    () => loosely(toolGuard, {}),
  ],
  ["toolFilter.check to be a function, got undefined. Pass a function.", () => loosely(toolFilter)],
  [
    "plan.execute to be a function, got undefined. Pass a function that returns the result of context.spawn().",
    () => loosely(defineDelegation, { ...TOOL, name: "plan", execute: undefined }),
  ],
  [
    "onStreamPart to be a function, got 3. Pass a function.",
    () => loosely((options: object) => new Orchestrator(options), { onStreamPart: 3 }),
  ],
  [
    "start options.onStreamPart to be a function, got 3. Pass a function.",
    () => startOf({ onStreamPart: 3 }),
  ],
  // Tools in the wrong wrapping.
  [
    "lead.tools to be an array, got an object. Pass its tools: server.tools.",
    roleOf({ tools: server }),
  ],
  ["lead.tools to be an array, got an object. Pass an array: [a, b].", roleOf({ tools: tool })],
  [
    "lead.tools to be an array, got an object. List its parts: [a, b].",
    roleOf({ tools: { read: tool } }),
  ],
  [
    "lead.tools to be an array, got a promise. Await it.",
    roleOf({ tools: Promise.resolve([tool]) }),
  ],
  [
    "lead.tools[1] to be a tool, got an object. Spread its tools: ...server.tools.",
    roleOf({ tools: [tool, server] }),
  ],
  [
    "lead.tools[0] to be a tool, got an array. Spread it: ...tools.",
    roleOf({ tools: [server.tools] }),
  ],
  [
    "lead.tools[0] to be a tool, got an object. Put roles into subagents.",
    roleOf({ tools: [defineAgent(ROLE)] }),
  ],
  [
    "lead.tools[0] to be a tool, got an object. Create it with defineTool({ … }).",
    roleOf({ tools: [TOOL] }),
  ],
  [
    "withTimeout.tool to be a tool, got an array. Apply it to each of its tools.",
    () => loosely(withTimeout, [tool], { timeoutMs: 1 }),
  ],
  [
    "withTimeout.tool to be a tool, got an object. Apply it to each of its tools.",
    () => loosely(withTimeout, server, { timeoutMs: 1 }),
  ],
  // Schemas of other libraries.
  [
    "lead.output to be a zod object schema, got an object. Use z.object({ … }), or jsonSchema({ … }) for a schema from elsewhere.",
    roleOf({ output: { type: "object" } }),
  ],
  [
    "lead.output to be a zod object schema, got null. Use z.object({ … }), or jsonSchema({ … }) for a schema from elsewhere.",
    roleOf({ output: null }),
  ],
  [`lead.output to be ${OTHER_ZOD}`, roleOf({ output: mini.object({}) })],
  [`lead.output to be ${ZOD_3}`, roleOf({ output: early.z.object({}) })],
  [`read.inputSchema to be ${OTHER_ZOD}`, toolOf({ inputSchema: mini.object({}) })],
  [`read.inputSchema to be ${ZOD_3}`, toolOf({ inputSchema: early.z.object({}) })],
  [
    "read.inputSchema to be a zod object schema, got an object. Use z.object({ … }), or jsonSchema({ … }) for a schema from elsewhere.",
    toolOf({ inputSchema: { type: "object" } }),
  ],
  ...[z.object({ path: z.string() }), mini.object({}), early.z.object({})].map(
    (schema) =>
      [
        "jsonSchema.schema to be a JSON Schema, got an object. Pass a JSON Schema, or use the zod schema itself in its place.",
        () => loosely(jsonSchema, schema),
      ] as const,
  ),
  // Names.
  [
    'tool.name to be letters, digits, _ and -, at most 64, got "web search". Choose another name.',
    toolOf({ name: "web search" }),
  ],
  [
    'tool.name to be any other name, got "__proto__". Choose another name.',
    toolOf({ name: "__proto__" }),
  ],
  [
    'agent.name to be letters, digits, _ and -, at most 64, a letter first, got "1st". Choose another name.',
    roleOf({ name: "1st" }),
  ],
])("Expected %s", (message, define) => {
  const { code, message: said } = thrownBy(define);
  expect(said).toBe(`Expected ${message}`);
  expect(code).toBe("invalid_argument");
});

test("a JSON Schema with properties named like parts of a zod schema is accepted", () => {
  const properties = { _def: { type: "string" }, _zod: { type: "string" } };
  expect(jsonSchema({ type: "object", properties }).schema).toEqual({ type: "object", properties });
});

const FOREIGN_NAMES: readonly (readonly [string, () => unknown])[] = [
  ["agent.tool to be one of * Use tools.", roleOf({ tool: [tool] })],
  ["agent.prompt to be one of * Use instructions.", roleOf({ prompt: "Lead." })],
  ["agent.maxTurns to be one of * Use budget: { steps: … }.", roleOf({ maxTurns: 5 })],
  ["agent.handoffs to be one of * Use subagents.", roleOf({ handoffs: [] })],
  ["tool.parameters to be one of * Use inputSchema.", toolOf({ parameters: z.object({}) })],
  ["tool.handler to be one of * Use execute.", toolOf({ handler: () => "" })],
  ["agent.schema to be one of * Use output.", roleOf({ schema: z.object({}) })],
  ["agent.purpose to be one of * Use description.", roleOf({ purpose: "Leads." })],
  ["agent.maxTokens to be one of * Use maxOutputTokens.", roleOf({ maxTokens: 5 })],
  ["agent.subAgents to be one of * Use subagents.", roleOf({ subAgents: [] })],
  ["tool.arguments to be one of * Use inputSchema.", toolOf({ arguments: z.object({}) })],
  ["tool.requiresApproval to be one of * Use needsApproval.", toolOf({ requiresApproval: true })],
  ["tool.timeout to be one of * Use timeoutMs.", toolOf({ timeout: 5 })],
  ["lead.budget.maxTokens to be one of * Use totalTokens.", roleOf({ budget: { maxTokens: 5 } })],
  ["lead.budget.cost to be one of * Use costUsd.", roleOf({ budget: { cost: 5 } })],
  ["lead.budget.tokens to be one of * Use totalTokens.", roleOf({ budget: { tokens: 5 } })],
  ["lead.budget.calls to be one of * Use toolCalls.", roleOf({ budget: { calls: 5 } })],
  ["lead.budget.time to be one of * Use timeMs.", roleOf({ budget: { time: 5 } })],
  ["lead.limits.depth to be one of * Use maxDepth.", roleOf({ limits: { depth: 5 } })],
  // A name without a counterpart gets no suggestion.
  ["tool.annotations to be one of * Correct the name.", toolOf({ annotations: {} })],
  ["agent.constructor to be one of * Correct the name.", roleOf({ constructor: 1 })],
];

const MISSPELT: readonly (readonly [string, () => unknown])[] = [
  ["agent.isntructions to be one of * Use instructions.", roleOf({ isntructions: "Lead." })],
  ["agent.subagent to be one of * Use subagents.", roleOf({ subagent: [] })],
  ["agent.tols to be one of * Use tools.", roleOf({ tols: [] })],
  ["lead.budget.setps to be one of * Use steps.", roleOf({ budget: { setps: 5 } })],
  ["lead.budget.cost_usd to be one of * Use costUsd.", roleOf({ budget: { cost_usd: 5 } })],
  ["tool.needsAproval to be one of * Use needsApproval.", toolOf({ needsAproval: true })],
  ["agent.tropical to be one of * Correct the name.", roleOf({ tropical: 5 })],
];

proves(["D669"], "names the field whose name was misspelt", () => {
  for (const [expected, define] of MISSPELT) {
    const { message } = thrownBy(define);
    const short = message.replace(/one of .*\. (?=Use|Correct)/, "one of * ");
    expect(short).toBe(`Expected ${expected}`);
  }
});

proves(["D583"], "names the field for its name in another library, and zod 4 for zod 3", () => {
  for (const [expected, define] of FOREIGN_NAMES) {
    const { message } = thrownBy(define);
    const short = message.replace(/one of .*\. (?=Use|Correct)/, "one of * ");
    expect(short).toBe(`Expected ${expected}`);
  }
  const { message } = thrownBy(toolOf({ inputSchema: early.z.object({}) }));
  expect(message).toBe(`Expected read.inputSchema to be ${ZOD_3}`);
  const either = loosely(z.union, [z.string(), early.z.string()]);
  const nested = loosely(z.object, { a: loosely(z.array, either) });
  expect(thrownBy(toolOf({ inputSchema: nested })).message).toBe(
    `Expected read.inputSchema to be ${ZOD_3.replace("a schema of", "one with a part of")}`,
  );
});

test("rejects a tool named `__proto__`, or with a name that a provider does not accept", () => {
  for (const name of ["__proto__", "read file", "r".repeat(65), ""])
    expect(thrownBy(toolOf({ name }))).toMatchObject({
      code: "invalid_argument",
      data: { field: "tool.name" },
    });
  for (const name of ["_", "__proto", "constructor", "r".repeat(64)])
    expect(toolOf({ name })().name).toBe(name);
});
