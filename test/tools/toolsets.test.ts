// Goal: lists of tools can be prefixed, renamed, filtered and combined. A renamed tool works under
// its new name, and duplicate names are refused.
// Method: inspect the specifications that the model sees, and call tools by their new names.

import { expect, expectTypeOf, test } from "vitest";
import { z } from "zod";

import type { JsonValue } from "../../src/kernel/json.ts";
import { defineDelegation, defineTool } from "../../src/tools/define-tool.ts";
import { buildToolSet } from "../../src/tools/tool-set.ts";
import type { DelegationTool, ExternalTool, FunctionTool, Tool } from "../../src/tools/tool.ts";
import {
  combineTools,
  filterTools,
  prefixTools,
  renameTools,
  type ToolsetTool,
} from "../../src/tools/toolsets.ts";
import { proves } from "../harness/proves.ts";
import { thrownBy } from "../support/thrown.ts";
import { CallFixture, toolThat } from "../support/tool-calls.ts";

const search = toolThat("search", () => "search was run");
const read = toolThat("read", () => "read was run");
const pick = defineTool({
  name: "pick",
  description: "Picks.",
  inputSchema: z.object({ n: z.int() }),
});
const hire = defineDelegation({
  name: "hire",
  description: "Hires.",
  inputSchema: z.object({ task: z.string() }),
  execute: ({ task }, context) => context.spawn({ role: "helper", task }),
});

function names(tools: readonly Tool[]): readonly string[] {
  return tools.map(({ name }) => name);
}

/** Calls a tool by its name, as an agent with these tools does. */
async function called(tools: readonly Tool[], name: string): Promise<unknown> {
  const tool = buildToolSet("lead", tools).find(name);
  return tool?.kind === "function" ? await new CallFixture().call(tool).ended : tool?.kind;
}

proves(
  ["R121"],
  "prefixes the names that the model sees, routes calls by them, and refuses collisions",
  async () => {
    const tools = combineTools(prefixTools([search, read], "docs_"), [read]);
    expect(buildToolSet("lead", tools).specs).toEqual([
      { name: "docs_search", description: "Does search.", inputSchema: search.inputSchema },
      { name: "docs_read", description: "Does read.", inputSchema: read.inputSchema },
      { name: "read", description: "Does read.", inputSchema: read.inputSchema },
    ]);
    expect([
      await called(tools, "docs_search"),
      await called(tools, "docs_read"),
      await called(tools, "read"),
      await called(tools, "search"),
    ]).toEqual([
      { type: "returned", value: "search was run" },
      { type: "returned", value: "read was run" },
      { type: "returned", value: "read was run" },
      undefined,
    ]);
    expect(thrownBy(() => combineTools(tools, prefixTools([search], "docs_")))).toEqual({
      code: "duplicate_tool",
      message:
        'Expected combineTools to return unique names, got "docs_search" from combineTools.lists[0][0] and from combineTools.lists[1][0]. Rename one of them, or leave it out.',
      data: {
        field: "combineTools",
        name: "docs_search",
        places: ["combineTools.lists[0][0]", "combineTools.lists[1][0]"],
      },
    });
  },
);

proves(
  ["R121"],
  "renames and filters tools by name or predicate, and routes calls by the new name",
  async () => {
    const renamed = renameTools([search, read], { search: "find" });
    const swapped = renameTools([search, read], { search: "read", read: "search" });
    expect([
      names(renamed),
      await called(renamed, "find"),
      names(swapped),
      await called(swapped, "read"),
      names(filterTools([search, read, pick], ["pick", "search"])),
      names(filterTools([search, read, pick], ({ kind }) => kind === "external")),
      names(filterTools([search, read], [])),
    ]).toEqual([
      ["find", "read"],
      { type: "returned", value: "search was run" },
      ["read", "search"],
      { type: "returned", value: "search was run" },
      ["search", "pick"],
      ["pick"],
      [],
    ]);
    const collision = thrownBy(() => renameTools([search, read], { search: "read" }));
    expect([collision.code, collision.data]).toEqual([
      "duplicate_tool",
      {
        field: "renameTools",
        name: "read",
        places: ["renameTools.tools[0]", "renameTools.tools[1]"],
      },
    ]);
  },
);

test("keeps all properties of every kind of tool except its name", () => {
  const tool = defineTool({
    name: "pay",
    description: "Pays.",
    inputSchema: z.object({ euros: z.number() }),
    sequential: true,
    timeoutMs: 10,
    needsApproval: true,
    execute: () => "paid",
  });
  const tools = [tool, pick, hire];
  const input: JsonValue = { euros: 3, n: 3, task: "Look." };
  for (const [index, prefixed] of prefixTools(tools, "x-").entries()) {
    const before = tools[index];
    if (before === undefined) expect.unreachable("it is there");
    const { bind: _old, ...face } = before;
    const { bind: _new, ...newFace } = prefixed;
    expect([newFace, Object.isFrozen(prefixed)]).toEqual([
      { ...face, name: `x-${face.name}` },
      true,
    ]);
    expect([prefixed.bind(input).type, prefixed.bind({ n: "x" })]).toEqual([
      "valid",
      before.bind({ n: "x" }),
    ]);
  }
});

test("keeps the type of the tools, and combines lists of several kinds", () => {
  expectTypeOf(prefixTools([search], "x_")).toEqualTypeOf<readonly FunctionTool[]>();
  expectTypeOf(renameTools([pick], {})).toEqualTypeOf<readonly ExternalTool[]>();
  expectTypeOf(filterTools([hire], ["hire"])).toEqualTypeOf<readonly DelegationTool[]>();
  expectTypeOf(combineTools([search], [read])).toEqualTypeOf<readonly FunctionTool[]>();
  expectTypeOf(combineTools([search], [pick, hire])).toExtend<readonly ToolsetTool[]>();
  expect(names(combineTools([search], [pick, hire], []))).toEqual(["search", "pick", "hire"]);
  expect(combineTools()).toEqual([]);
});

test("returns frozen lists and leaves the given lists unchanged", () => {
  const tools = [search, read];
  const made = [
    prefixTools(tools, "a"),
    renameTools(tools, { read: "look" }),
    filterTools(tools, ["read"]),
    combineTools(tools),
  ];
  expect([made.map(Object.isFrozen), tools[0] === search, tools.length]).toEqual([
    [true, true, true, true],
    true,
    2,
  ]);
});

test("accepts tools named like inherited object properties", () => {
  const odd = ["valueOf", "constructor", "toString"].map((name) => toolThat(name, () => name));
  expect([
    names(renameTools(odd, {})),
    names(renameTools(odd, { valueOf: "a", constructor: "b" })),
    names(filterTools(odd, ["valueOf"])),
    names(prefixTools(odd, "_")),
  ]).toEqual([
    ["valueOf", "constructor", "toString"],
    ["a", "b", "toString"],
    ["valueOf"],
    ["_valueOf", "_constructor", "_toString"],
  ]);
});

test("calls a tool instance of a class by its new name", async () => {
  class Counter implements FunctionTool {
    readonly kind = "function";
    readonly name = "count";
    readonly inputSchema = { type: "object" };
    readonly settings = {};
    readonly sequential = false;
    readonly retryAfterCrash = true;
    #calls = 0;
    get description(): string {
      return "Counts.";
    }
    bind(input: JsonValue): ReturnType<FunctionTool["bind"]> {
      const run = (): number => (this.#calls += 1);
      return { type: "valid", value: {}, input, use: { run, needsApproval: undefined } };
    }
  }
  const tools = prefixTools([new Counter()], "my_");
  await called(tools, "my_count");
  expect([names(tools), tools[0]?.description, await called(tools, "my_count")]).toEqual([
    ["my_count"],
    "Counts.",
    { type: "returned", value: 2 },
  ]);
});

test("validates a new name like the name of any tool", () => {
  const long = toolThat("x".repeat(60), () => 1);
  expect(names(prefixTools([long], "abcd"))).toEqual([`abcd${"x".repeat(60)}`]);
  const complaints = [
    thrownBy(() => prefixTools([long], "abcde")),
    thrownBy(() => prefixTools([search], "a b")),
    thrownBy(() => prefixTools([search], "docs.")),
    thrownBy(() => prefixTools([search], "")),
    thrownBy(() => renameTools([search], { search: "" })),
    thrownBy(() => renameTools([search], { search: "find\n" })),
    thrownBy(() => Reflect.apply(renameTools, undefined, [[search], { search: undefined }])),
    thrownBy(() => Reflect.apply(renameTools, undefined, [[search], { search: 3 }])),
  ];
  expect(complaints.map(({ code, data }) => [code, data["field"], data["got"]])).toEqual([
    ["invalid_argument", "prefixTools.tools[0].name", `"abcde${"x".repeat(60)}"`],
    ["invalid_argument", "prefixTools.tools[0].name", '"a bsearch"'],
    ["invalid_argument", "prefixTools.tools[0].name", '"docs.search"'],
    ["invalid_argument", "prefixTools.prefix", '""'],
    ["invalid_argument", "renameTools.names.search.name", '""'],
    ["invalid_argument", "renameTools.names.search.name", '"find\\n"'],
    ["invalid_argument", "renameTools.names.search.name", "undefined"],
    ["invalid_argument", "renameTools.names.search.name", "3"],
  ]);
});

test("refuses a name that no tool has", () => {
  expect(
    [
      thrownBy(() => renameTools([search, read], { serch: "find" })),
      thrownBy(() => filterTools([search, read], ["read", "serch"])),
      thrownBy(() => Reflect.apply(filterTools, undefined, [[search, read], [3]])),
    ].map(({ code, message }) => [code, message]),
  ).toEqual([
    [
      "invalid_argument",
      'Expected renameTools.names.serch to be one of search, read, got "serch". Use search.',
    ],
    [
      "invalid_argument",
      'Expected filterTools.kept[1] to be one of search, read, got "serch". Correct the name.',
    ],
    [
      "invalid_argument",
      "Expected filterTools.kept[0] to be one of search, read, got 3. Correct the name.",
    ],
  ]);
});

test("refuses a list with a duplicate name in every function", () => {
  const twice = [search, search];
  const refusals = [
    () => prefixTools(twice, "a"),
    () => renameTools(twice, {}),
    () => filterTools(twice, ["search"]),
    () => combineTools(twice),
    () => combineTools([search], [search]),
  ].map((build) => thrownBy(build));
  expect(refusals.map(({ code, data }) => [code, data["places"]])).toEqual([
    ["duplicate_tool", ["prefixTools.tools[0]", "prefixTools.tools[1]"]],
    ["duplicate_tool", ["renameTools.tools[0]", "renameTools.tools[1]"]],
    ["duplicate_tool", ["filterTools.tools[0]", "filterTools.tools[1]"]],
    ["duplicate_tool", ["combineTools.lists[0][0]", "combineTools.lists[0][1]"]],
    ["duplicate_tool", ["combineTools.lists[0][0]", "combineTools.lists[1][0]"]],
  ]);
});

/** Calls the function as plain JavaScript could. */
function loosely(call: (...given: never[]) => unknown, ...given: readonly unknown[]): unknown {
  return Reflect.apply(call, undefined, given);
}

test("refuses an invalid list of tools and an invalid filter result, naming the field", () => {
  const finish = { ...search, kind: "finish" };
  const sparse: unknown[] = [search];
  sparse[2] = read;
  const complaints = [
    () => loosely(prefixTools, search, "x_"),
    () => loosely(prefixTools, [search, finish], "x_"),
    () => loosely(prefixTools, [Promise.resolve(search)], "x_"),
    () => loosely(prefixTools, sparse, "x_"),
    () => loosely(prefixTools, [search], undefined),
    () => loosely(renameTools, [search], new Map([["search", "find"]])),
    () => loosely(filterTools, [search], "search"),
    () => loosely(filterTools, [search], () => "yes"),
    () => loosely(filterTools, [search], () => Promise.resolve(true)),
    () => loosely(combineTools, [search], search),
    () => loosely(combineTools, [[search]]),
  ].map((build) => thrownBy(build).message);
  expect(complaints).toEqual([
    "Expected prefixTools.tools to be an array, got an object. List its parts: [a, b].",
    'Expected prefixTools.tools[1].kind to be "function" or "external" or "delegation", got "finish". Leave it out: an agent with an output gets Finish automatically.',
    "Expected prefixTools.tools[0] to be a tool, got a promise. Await it.",
    "Expected prefixTools.tools[1] to be a tool, got undefined. Create it with defineTool({ … }).",
    "Expected prefixTools.prefix to be a non-empty string, got undefined. Pass some text.",
    "Expected renameTools.names to be a plain object, got an object. Its fields are search.",
    'Expected filterTools.kept to be names or a function, got "search". Pass an array of names.',
    'Expected the answer about filterTools.tools[0] to be true or false, got "yes". Set true or false.',
    "Expected the answer about filterTools.tools[0] to be true or false, got a promise. Set true or false.",
    "Expected combineTools.lists[1] to be an array, got an object. List its parts: [a, b].",
    "Expected combineTools.lists[0][0] to be a tool, got an array. Spread it: ...tools.",
  ]);
});
