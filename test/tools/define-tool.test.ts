// Goal: a tool definition is validated when it is created, and the model sees plain, frozen data.
// Method: one valid definition, and many that differ from it in one field.

import { expect, test } from "vitest";
import { z } from "zod";

import { defineTool } from "../../src/tools/define-tool.ts";
import { buildToolSet } from "../../src/tools/tool-set.ts";
import { unfrozenParts } from "../support/frozen.ts";
import { thrownBy } from "../support/thrown.ts";

const GOOD = {
  name: "search",
  description: "Searches the web.",
  inputSchema: z.object({ query: z.string(), limit: z.number().optional() }),
  execute: ({ query }: { readonly query: string }) => query,
};

/** Returns the valid definition with some fields replaced by arbitrary values. */
const define = (patch: object): ReturnType<typeof defineTool> => defineTool({ ...GOOD, ...patch });

test("exposes the name, the description and the JSON Schema of the input", () => {
  const { name, description, kind, inputSchema } = defineTool(GOOD);
  expect({ name, description, kind, inputSchema }).toEqual({
    name: "search",
    description: "Searches the web.",
    kind: "function",
    inputSchema: {
      type: "object",
      properties: { query: { type: "string" }, limit: { type: "number" } },
      required: ["query"],
    },
  });
});

test("makes a field with a default optional and shows a transformed field by its input type", () => {
  const input = z.object({
    count: z.int().default(3),
    when: z.string().transform((text) => new Date(text)),
  });
  expect(define({ inputSchema: input }).inputSchema["required"]).toEqual(["when"]);
});

test("freezes the tool and everything that it exposes", () => {
  expect(unfrozenParts(defineTool(GOOD))).toEqual([]);
});

const NAME = "letters, digits, _ and -, at most 64";
const BAD: readonly (readonly [string, object, string, string, string, string])[] = [
  ["an empty name", { name: "" }, "invalid_argument", "tool.name", NAME, '""'],
  [
    "a name with a space",
    { name: "web search" },
    "invalid_argument",
    "tool.name",
    NAME,
    '"web search"',
  ],
  [
    "a name with a dot",
    { name: "web.search" },
    "invalid_argument",
    "tool.name",
    NAME,
    '"web.search"',
  ],
  [
    "a name with a line break",
    { name: "search\n" },
    "invalid_argument",
    "tool.name",
    NAME,
    '"search\\n"',
  ],
  [
    "a name of 65 letters",
    { name: "a".repeat(65) },
    "invalid_argument",
    "tool.name",
    NAME,
    `"${"a".repeat(65)}"`,
  ],
  ["no name", { name: undefined }, "invalid_argument", "tool.name", NAME, "undefined"],
  [
    "an empty description",
    { description: " " },
    "invalid_argument",
    "search.description",
    "a non-empty string",
    '" "',
  ],
  [
    "no description",
    { description: undefined },
    "invalid_argument",
    "search.description",
    "a non-empty string",
    "undefined",
  ],
  [
    "a plain object as schema",
    { inputSchema: { query: "string" } },
    "invalid_argument",
    "search.inputSchema",
    "a zod object schema",
    "an object",
  ],
  [
    "no schema",
    { inputSchema: undefined },
    "invalid_argument",
    "search.inputSchema",
    "a zod object schema",
    "undefined",
  ],
  [
    "a schema of text",
    { inputSchema: z.string() },
    "invalid_argument",
    "search.inputSchema",
    "a zod object schema",
    '"string"',
  ],
  [
    "a schema of a list",
    { inputSchema: z.array(z.string()) },
    "invalid_argument",
    "search.inputSchema",
    "a zod object schema",
    '"array"',
  ],
  [
    "no body",
    { execute: undefined },
    "invalid_argument",
    "search.execute",
    "a function",
    "undefined",
  ],
  [
    "a body in words",
    { execute: "search" },
    "invalid_argument",
    "search.execute",
    "a function",
    '"search"',
  ],
  [
    "a misspelt field",
    { exectue: () => "" },
    "invalid_argument",
    "tool.exectue",
    "one of name, description, inputSchema, coerceArguments, strictSchema, execute, needsApproval, sequential, retryAfterCrash, timeoutMs, maxRetries, maxResultCharacters, longResultPolicy, maxIdenticalCalls",
    '"exectue"',
  ],
];

for (const [what, patch, code, field, expected, got] of BAD) {
  test(`refuses ${what} and names the field, the expected and the received value`, () => {
    const thrown = thrownBy(() => define(patch));
    expect([thrown.code, thrown.data["field"], thrown.data["expected"]]).toEqual([
      code,
      field,
      expected,
    ]);
    expect(thrown.message.startsWith(`Expected ${field} to be ${expected}, got `)).toBe(true);
    expect(thrown.message.includes(got)).toBe(true);
  });
}

test("accepts a name of 64 letters", () => {
  expect(define({ name: "a".repeat(64) }).name).toHaveLength(64);
});

test("refuses a type that JSON Schema cannot express and suggests a replacement", () => {
  const thrown = thrownBy(() => define({ inputSchema: z.object({ when: z.date() }) }));
  expect(thrown).toEqual({
    code: "invalid_argument",
    message:
      "Expected search.inputSchema.when to be a schema that JSON Schema can express, got another one: Date cannot be represented in JSON Schema. Use z.iso.datetime(): models write dates as text, and new Date(text) makes a Date of it.",
    data: { field: "search.inputSchema.when" },
  });
});

test("refuses a missing or non-object definition", () => {
  for (const nothing of [null, undefined, 5, "search", []]) {
    const { code, data } = thrownBy(() => Reflect.apply(defineTool, undefined, [nothing]));
    expect([code, data["field"], data["expected"]]).toEqual([
      "invalid_argument",
      "tool",
      "a plain object",
    ]);
  }
});

test("binds arguments by checking them, without running the tool", () => {
  const tool = defineTool(GOOD);
  expect(tool.bind({ query: "trees" }).type).toBe("valid");
  const misfit = tool.bind({ query: 1 });
  expect(misfit.type === "invalid" && misfit.problems.map(({ parameter }) => parameter)).toEqual([
    "query",
  ]);
});

test("finds tools of a set by name and lists them in the given order", () => {
  const [zebra, ant] = [define({ name: "zebra" }), define({ name: "ant" })];
  const tools = buildToolSet("lead", [zebra, ant]);
  expect([
    tools.find("zebra"),
    tools.find("ant"),
    tools.find("bee"),
    tools.find("constructor"),
  ]).toEqual([zebra, ant, undefined, undefined]);
  expect(tools.names).toEqual(["zebra", "ant"]);
  const face = { description: "Searches the web.", inputSchema: zebra.inputSchema };
  expect(tools.specs).toEqual([
    { name: "zebra", ...face },
    { name: "ant", ...face },
  ]);
});

test("refuses two tools of one name, even if they are the same object", () => {
  const tool = defineTool(GOOD);
  for (const other of [tool, define({ description: "Another." })]) {
    expect(thrownBy(() => buildToolSet("lead", [tool, define({ name: "ant" }), other]))).toEqual({
      code: "duplicate_tool",
      message:
        'Expected lead.tools to have unique names, got two tools named "search". Rename one of them.',
      data: { field: "lead.tools", name: "search" },
    });
  }
});

test("accepts tool names that differ only in case", () => {
  expect(buildToolSet("lead", [defineTool(GOOD), define({ name: "Search" })]).names).toEqual([
    "search",
    "Search",
  ]);
});

// A model adapter receives this list with every request; its edits would leak into later requests.
test("freezes the tool specifications deeply", () => {
  expect(unfrozenParts(buildToolSet("lead", [defineTool(GOOD)]).specs)).toEqual([]);
});
