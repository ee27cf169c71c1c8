// Goal: what a refused definition is advised to do is what helps: followed, it gives a definition that is taken.
// Method: slips that newcomers make, with the whole message.

import { expect, test } from "vitest";
import { z } from "zod";
import * as mini from "zod/mini";
import * as early from "zod/v3";

import { defineAgent } from "../../src/agent/define-agent.ts";
import { ScriptedModel } from "../../src/testing/scripted-model.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { jsonSchema } from "../../src/tools/json-schema.ts";
import { withTimeout } from "../../src/tools/wrappers/with-timeout.ts";
import { thrownBy } from "../support/thrown.ts";

const TOOL = { name: "read", description: "Reads.", input: z.object({}), execute: () => "" };
const ROLE = { name: "lead", instructions: "Lead.", model: new ScriptedModel([]) };
const tool = defineTool(TOOL);
const server = { name: "files", tools: [tool], close: () => {} };

const toolOf = (patch: object) => () => defineTool({ ...TOOL, ...patch });
const roleOf = (patch: object) => () => defineAgent({ ...ROLE, ...patch });

/** As a user without types may call it. */
function loosely(call: (...given: never[]) => unknown, ...given: readonly unknown[]): unknown {
  return Reflect.apply(call, undefined, given);
}

const OTHER_ZOD =
  'a zod object schema of zod 4, from the same copy of zod that espalier uses, got an object. Take z from "zod", not from "zod/mini" or "zod/v3".';

test.each<readonly [string, () => unknown]>([
  // Left out, these have a default; none of them is without a limit then.
  [
    "read.maxRetries to be a whole number from 0 up, got -1. Leave it out for the default, 2.",
    toolOf({ maxRetries: -1 }),
  ],
  [
    "read.maxResultCharacters to be a whole number from 0 up, got Infinity. Leave it out for the default, 50,000.",
    toolOf({ maxResultCharacters: Infinity }),
  ],
  [
    'read.maxIdenticalCalls to be a whole number from 0 up, got Infinity. Leave it out for the default, 2, or say "unlimited".',
    toolOf({ maxIdenticalCalls: Infinity }),
  ],
  [
    "read.timeoutMs to be a number of milliseconds above 0, got Infinity. Leave it out for no limit of its own.",
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
  // Tools in the wrong wrapping.
  [
    "lead.tools to be a list, got an object. Give its tools: server.tools.",
    roleOf({ tools: server }),
  ],
  ["lead.tools to be a list, got an object. Put it in brackets.", roleOf({ tools: tool })],
  [
    "lead.tools to be a list, got an object. List its parts: [a, b].",
    roleOf({ tools: { read: tool } }),
  ],
  ["lead.tools to be a list, got a promise. Await it.", roleOf({ tools: Promise.resolve([tool]) })],
  [
    "lead.tools[1] to be a tool, got an object. Spread its tools: ...server.tools.",
    roleOf({ tools: [tool, server] }),
  ],
  [
    "lead.tools[0] to be a tool, got an array. Spread it: ...tools.",
    roleOf({ tools: [server.tools] }),
  ],
  [
    "lead.tools[0] to be a tool, got an object. A role goes into subagents.",
    roleOf({ tools: [defineAgent(ROLE)] }),
  ],
  [
    "lead.tools[0] to be a tool, got an object. Make it with defineTool({ … }).",
    roleOf({ tools: [TOOL] }),
  ],
  [
    "withTimeout.tool to be a tool, got an array. Do it with each of its tools.",
    () => loosely(withTimeout, [tool], { timeoutMs: 1 }),
  ],
  [
    "withTimeout.tool to be a tool, got an object. Do it with each of its tools.",
    () => loosely(withTimeout, server, { timeoutMs: 1 }),
  ],
  // Schemas that look alike.
  [
    "lead.output to be a zod object schema, got an object. Use z.object({ … }), or jsonSchema({ … }) for a schema from elsewhere.",
    roleOf({ output: { type: "object" } }),
  ],
  [
    "lead.output to be a zod object schema, got null. Use z.object({ … }), or jsonSchema({ … }) for a schema from elsewhere.",
    roleOf({ output: null }),
  ],
  [`lead.output to be ${OTHER_ZOD}`, roleOf({ output: mini.object({}) })],
  [`lead.output to be ${OTHER_ZOD}`, roleOf({ output: early.z.object({}) })],
  [`read.input to be ${OTHER_ZOD}`, toolOf({ input: mini.object({}) })],
  [`read.input to be ${OTHER_ZOD}`, toolOf({ input: early.z.object({}) })],
  [
    "read.input to be a zod object schema, got an object. Use z.object({ … }), or jsonSchema({ … }) for a schema from elsewhere.",
    toolOf({ input: { type: "object" } }),
  ],
  ...[z.object({ path: z.string() }), mini.object({}), early.z.object({})].map(
    (schema) =>
      [
        "jsonSchema.schema to be a JSON Schema, got an object. Give a zod schema to input as it is.",
        () => loosely(jsonSchema, schema),
      ] as const,
  ),
  // Names, in words.
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
  expect(["invalid_definition", "invalid_option"]).toContain(code);
});

test("a JSON Schema whose properties are called like parts of a zod schema is one", () => {
  const properties = { _def: { type: "string" }, _zod: { type: "string" } };
  expect(jsonSchema({ type: "object", properties }).schema).toEqual({ type: "object", properties });
});
