// Goal: a tool call that a model wrote becomes an executable call, or a text from which the model
// can correct it; it never throws.
// Method: bind valid and invalid calls against a set with tools of every kind; compare whole
// outcomes.

import { expect, test } from "vitest";
import { z } from "zod";

import { finishTool } from "../../src/agent/typed-result.ts";
import { bindCall, type BoundCall } from "../../src/tools/bind-call.ts";
import { defineDelegation, defineTool } from "../../src/tools/define-tool.ts";
import { rejectUnknownTool } from "../../src/tools/rejected-call.ts";
import type { Tool } from "../../src/tools/tool.ts";
import { buildToolSet } from "../../src/tools/tool-set.ts";
import type { SpawnOutcome } from "../../src/protocol/subagent.ts";
import { CallFixture } from "../support/tool-calls.ts";

const search = defineTool({
  name: "search",
  description: "Searches.",
  inputSchema: z.object({ query: z.string(), limit: z.int().max(10).default(3) }),
  execute: ({ query, limit }) => `${query} ×${limit}`,
});
const ping = defineTool({
  name: "ping",
  description: "Pings.",
  inputSchema: z.object({}),
  execute: () => "pong",
});
const REFUSED: SpawnOutcome = {
  type: "refused",
  refusal: { code: "unknown_role", message: "No." },
};
const task = z.object({ task: z.string() });
const delegate = defineDelegation({
  name: "delegate",
  description: "Delegates.",
  inputSchema: task,
  execute: () => Promise.resolve(REFUSED),
});
const finish = finishTool("lead.output", z.object({ answer: z.number() }));
const tools = buildToolSet("lead", [search, ping, delegate, finish]);

function bind(toolName: string, argumentsText: string): BoundCall {
  const tool = tools.find(toolName);
  return tool === undefined
    ? rejectUnknownTool(tools.names, toolName)
    : bindCall(tool, argumentsText);
}

function rejected(tool: Tool | undefined, code: string, ...lines: readonly string[]): unknown {
  return { type: "rejected", tool, code, text: lines.join("\n") };
}

test("binds a call of a function tool to its parsed arguments, defaults included", async () => {
  const bound = bind("search", '{"query":"trees"}');
  expect(bound.type === "function" && bound.tool).toBe(search);
  expect(await ran(bound)).toBe("trees ×3");
});

test("binds a call of a delegation to its delegation tool", () => {
  const bound = bind("delegate", '{"task":"Read."}');
  expect([bound.type, bound.type === "delegation" && bound.tool]).toEqual(["delegation", delegate]);
});

test("returns the parsed result for a call of the finish tool", () => {
  expect(bind("Finish", '{"answer":42}')).toEqual({
    type: "finish",
    tool: finish,
    use: { answer: 42 },
    input: { answer: 42 },
    value: { answer: 42 },
  });
});

for (const empty of ["", "  ", "\n\t"]) {
  test(`treats empty arguments, ${JSON.stringify(empty)}, as an empty object`, async () => {
    expect(await ran(bind("ping", empty))).toBe("pong");
    expect(bind("search", empty)).toMatchObject({ type: "rejected", code: "invalid_arguments" });
  });
}

test("rejects an unknown tool with the names of the available tools", () => {
  const text = 'There is no tool named "serch". Your tools are: search, ping, delegate, Finish.';
  expect(bind("serch", "{}")).toEqual(rejected(undefined, "unknown_tool", text));
  expect(bind("Search", "{}")).toMatchObject({ code: "unknown_tool" });
  expect(bind("", "{}")).toMatchObject({ code: "unknown_tool" });
});

test("reports an unknown tool before invalid arguments", () => {
  expect(bind("serch", "{")).toMatchObject({ code: "unknown_tool" });
});

test("rejects names of inherited object properties as unknown tools", () => {
  for (const name of ["constructor", "__proto__", "toString"]) {
    expect(bind(name, "{}")).toMatchObject({ code: "unknown_tool" });
  }
});

test("asks an agent without tools to answer in text", () => {
  expect(rejectUnknownTool([], "search")).toEqual(
    rejected(
      undefined,
      "unknown_tool",
      'There is no tool named "search". You have no tools; answer in text.',
    ),
  );
});

for (const broken of [
  '{"query":',
  "query=trees",
  "{'query':'trees'}",
  '{"query":"trees"} {}',
  "undefined",
]) {
  test(`rejects ${broken} as invalid JSON and explains it to the model`, () => {
    const bound = bind("search", broken);
    expect(bound).toMatchObject({ type: "rejected", tool: search, code: "invalid_json" });
    const text = bound.type === "rejected" ? bound.text : "";
    expect(text).toMatch(
      /^The arguments of search are not valid JSON \(.+\)\. Call it again with one JSON object\.$/,
    );
  });
}

for (const [what, given] of [
  ["null", "null"],
  ["an array", "[]"],
  ["text", '"trees"'],
  ["a number", "1"],
] as const) {
  test(`rejects ${what} in place of an argument object`, () => {
    const bound = bind("search", given);
    expect(bound).toMatchObject({ type: "rejected", tool: search, code: "invalid_arguments" });
    expect(bound.type === "rejected" && bound.text.split("\n")[1]).toMatch(/^- arguments: /);
  });
}

test("lists every validation issue with its path and asks the model to correct the call", () => {
  const nested = defineTool({
    name: "nested",
    description: "Nests.",
    inputSchema: z.object({
      filter: z.object({ years: z.array(z.int()) }),
      mode: z.enum(["fast", "deep"]),
    }),
    execute: () => "",
  });
  expect(bindCall(nested, '{"filter":{"years":[1,"two"]},"mode":"slow"}')).toEqual(
    rejected(
      nested,
      "invalid_arguments",
      "The arguments of nested do not fit its schema:",
      '- filter.years[1]: expected an integer, got "two"',
      '- mode: expected one of "fast", "deep", got "slow"',
      "Correct them and call nested again.",
    ),
  );
});

test("validates the arguments of delegations and of the finish tool", () => {
  expect(bind("delegate", "{}")).toMatchObject({ type: "rejected", code: "invalid_arguments" });
  expect(bind("Finish", '{"answer":"many"}')).toMatchObject({
    type: "rejected",
    code: "invalid_arguments",
  });
});

test("rejects arguments that would change a prototype", () => {
  const keys = defineTool({
    name: "keys",
    description: "Keys.",
    inputSchema: z.looseObject({}),
    execute: (input) => Object.keys(input),
  });
  expect(bindCall(keys, '{"__proto__":{"admin":true},"a":1}')).toMatchObject({
    code: "invalid_json",
  });
  expect(Object.hasOwn(Object.prototype, "admin")).toBe(false);
  expect(Reflect.get({}, "admin")).toBeUndefined();
});

// Model output must never end the agent, even if a refinement or transform throws.
test("rejects arguments if a transform of the schema throws", () => {
  const fetchPage = defineTool({
    name: "fetch",
    description: "Fetches.",
    inputSchema: z.object({ url: z.string().transform((text) => new URL(text).href) }),
    execute: ({ url }) => url,
  });
  expect(bindCall(fetchPage, '{"url":"not a url"}')).toMatchObject({
    type: "rejected",
    code: "invalid_arguments",
  });
});

async function ran(bound: BoundCall): Promise<unknown> {
  if (bound.type !== "function")
    throw new Error(`Expected a function call, got ${JSON.stringify(bound)}.`);
  const fixture = new CallFixture();
  return await bound.use.run(fixture.context(), fixture.runtime(bound.tool.name));
}
