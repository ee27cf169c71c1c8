// Goal: a server can neither flood a run with tools or questions, nor block its other tools by one
// that is unusable.
// Method: the hand-made server with tools of the test.

import { expect, test } from "vitest";

import { connectMcp, type McpServer } from "../../../src/mcp/connect-mcp.ts";
import type { McpOptions } from "../../../src/mcp/mcp-options.ts";
import { provideResult } from "../../../src/protocol/question.ts";
import { afterwards } from "../../harness/afterwards.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { made, textsOf } from "../../support/mcp/agents.ts";
import { ASKING } from "../../support/mcp/hand-made-server.ts";
import { handMadeOverHttp } from "../../support/mcp/http-server.ts";

const OBJECT = { type: "object" };
/** The hand-made server has 14 tools of its own, of which two are skipped. */
const OWN_TOOLS = 14;

async function offering(
  tools: readonly unknown[],
  more: Partial<McpOptions> = {},
): Promise<McpServer> {
  const { transport } = await handMadeOverHttp({ tools });
  const server = await connectMcp({ name: "odd", transport, ...more });
  afterwards(() => server.close());
  return server;
}

function numbered(count: number): readonly object[] {
  return Array.from({ length: count }, (_, index) => ({ name: `t${index}`, inputSchema: OBJECT }));
}

proves(
  ["D401"],
  "takes the first 1,000 tools of a list and skips the rest with one warning",
  async () => {
    const filter: McpOptions["filter"] = ({ name }) => /^t\d/.test(name);
    const server = await offering(numbered(1_500), { filter });
    expect([server.tools.length, server.tools.at(-1)?.name]).toEqual([
      1_000 - OWN_TOOLS,
      "odd_t985",
    ]);
    expect(server.skippedTools).toEqual([
      {
        name: "#1001",
        reason:
          "The list has more than 1,000 tools (maxTools). This tool and all that follow are left out.",
      },
    ]);
    await flushEventLoop();
    expect(takeWarnings()).toEqual([
      'EspalierWarning: Tool "#1001" of MCP server "odd" is skipped: The list has more than 1,000 tools (maxTools). This tool and all that follow are left out. Exclude it with filter to silence this warning.',
    ]);
  },
);

proves(["D721"], "removes control characters of a skipped tool from the warning", async () => {
  const hostile = "\u009b2J\u202e";
  const inputSchema = { type: "object", properties: { [`${hostile}\u001b[1A`]: { type: "no" } } };
  const filter: McpOptions["filter"] = ({ name }) => name === hostile;
  await offering([{ name: hostile, inputSchema }], { filter });
  await flushEventLoop();
  const [warning = "", ...others] = takeWarnings();
  expect(others).toEqual([]);
  expect(warning).toMatch(/^EspalierWarning: Tool " 2J " of MCP server "odd" is skipped: /);
  expect(warning).not.toMatch(/[\p{Cc}\u202e]/u);
});

proves(["D401"], "takes all tools of a list that is as long as the limit", async () => {
  const filter: McpOptions["filter"] = ({ name }) => /^t\d/.test(name);
  const server = await offering(numbered(6), { filter, maxTools: OWN_TOOLS + 6 });
  expect([server.tools.length, server.skippedTools]).toEqual([6, []]);
});

/** Returns tools with this many patterns each. */
function patterned(
  count: number,
  patterns: number,
  pattern: (tool: number, at: number) => string,
): readonly object[] {
  return Array.from({ length: count }, (_tool, index) => ({
    name: `t${index}`,
    inputSchema: {
      type: "object",
      properties: Object.fromEntries(
        Array.from({ length: patterns }, (_none, at) => [
          `p${at}`,
          { type: "string", pattern: pattern(index, at) },
        ]),
      ),
    },
  }));
}

const isNumbered: McpOptions["filter"] = ({ name }) => /^t\d/.test(name);

proves(["D489"], "takes 200 tools with 10 patterns each", async () => {
  const tools = patterned(200, 10, (tool, at) => `^[a-z]{1,20}-\\d+x${at}y${tool}$`);
  const server = await offering(tools, { filter: isNumbered });
  expect([server.tools.length, server.skippedTools]).toEqual([200, []]);
  const good = { p0: "ab-1x0y199" };
  const texts = textsOf(
    await made(server.tools, [
      ["odd_t199", good],
      ["odd_t199", { p0: "b" }],
      ["odd_t199", { p0: 1.5, p1: [] }],
    ]),
  );
  expect(texts).toEqual(["", "", expect.stringContaining("p1")]);
});

proves(
  ["D489"],
  "skips the tools with which a list has too many parts, and takes the others",
  async () => {
    const fields = Array.from({ length: 1_000 }, (_none, at) => [`p${at}`, true] as const);
    const wide = { type: "object", properties: Object.fromEntries(fields) };
    const many = Array.from({ length: 52 }, (_none, at) => ({ name: `t${at}`, inputSchema: wide }));
    const tools = [...many, { name: "t", inputSchema: OBJECT }];
    const filter: McpOptions["filter"] = ({ name }) => /^t\d*$/.test(name);
    const server = await offering(tools, { filter });
    const reason =
      "With it, the schemas of the list have more than 50,000 parts. Select fewer tools with filter.";
    expect([server.tools.length, server.tools.at(-1)?.name, server.skippedTools]).toEqual([
      50,
      "odd_t",
      [49, 50, 51].map((index) => ({ name: `t${index}`, reason })),
    ]);
    await flushEventLoop();
    expect(takeWarnings().length).toBe(3);
  },
);

test("lets other work of the process run between two tools of a list", async () => {
  const { transport } = await handMadeOverHttp({ tools: numbered(30) });
  const turnsAt: number[] = [];
  let turns = 0;
  const count = (): void => void ((turns += 1), (timer = setImmediate(count)));
  let timer = setImmediate(count);
  const filter: McpOptions["filter"] = ({ name }) => turnsAt.push(turns) > 0 && /^t\d/.test(name);
  const server = await connectMcp({ name: "odd", transport, filter });
  clearImmediate(timer);
  await server.close();
  expect(new Set(turnsAt).size).toBeGreaterThanOrEqual(30);
});

function deep(levels: number): object {
  return levels === 0 ? OBJECT : { type: "object", properties: { a: deep(levels - 1) } };
}

/** Unusable tools, with the reasons. */
const UNUSABLE: Readonly<Record<string, readonly [tool: object, reason: RegExp]>> = {
  "an empty name": [{ name: "", inputSchema: OBJECT }, /^It has no name\.$/],
  "a name that is too long": [
    { name: "n".repeat(61), inputSchema: OBJECT },
    /^Its name has more than 64 characters with its prefix\. Choose a shorter prefix\.$/,
  ],
  "a name of a megabyte": [{ name: "n".repeat(1_000_000), inputSchema: OBJECT }, /^Its name has/],
  "a name that is taken": [
    { name: "meta", inputSchema: OBJECT },
    /^Its name becomes "odd_meta", which is also the name of the tool "meta"\.$/,
  ],
  "a name that becomes one that is taken": [
    { name: "with_dots/and_more", inputSchema: OBJECT },
    /^Its name becomes "odd_with_dots_and_more", which is also the name of the tool "with\.dots\/and more"\.$/,
  ],
  "a name that is a number": [
    { name: 7, inputSchema: OBJECT },
    /^It does not fit the protocol: name/,
  ],
  "no schema": [{ name: "bad" }, /^It does not fit the protocol: inputSchema/],
  "a schema that is a list": [{ name: "bad", inputSchema: [] }, /^It does not fit the protocol/],
  "a schema of a text": [{ name: "bad", inputSchema: { type: "string" } }, /^It does not fit/],
  "a schema with an unknown type": [
    { name: "bad", inputSchema: { type: "object", properties: { a: { type: "any" } } } },
    /to be a JSON Schema that can be checked/,
  ],
  "a schema with a reference to another document": [
    { name: "bad", inputSchema: { type: "object", $ref: "https://example.org/a.json" } },
    /to be a JSON Schema that can be checked/,
  ],
  "a schema with a reference to nothing": [
    { name: "bad", inputSchema: { type: "object", properties: { a: { $ref: "#/$defs/a" } } } },
    /to be a JSON Schema that can be checked/,
  ],
  "a schema that refers to itself without end": [
    { name: "bad", inputSchema: { type: "object", $ref: "#" } },
    /it refers to itself without end/,
  ],
  "a type that does not exist": [
    {
      name: "bad",
      inputSchema: { ...OBJECT, properties: { a: { type: "strin" } } },
    },
    /to be a JSON Schema that can be checked/,
  ],
  "a schema of 150 levels": [{ name: "bad", inputSchema: deep(150) }, /./],
  "a schema of 481 levels": [
    { name: "bad", inputSchema: deep(240) },
    /^It does not fit the protocol: it is nested too deeply\.$/,
  ],
  "a schema that is too long": [
    { name: "bad", inputSchema: { type: "object", description: "d".repeat(300_000) } },
    /it is longer than 200000 characters/,
  ],
  "a result schema that cannot be checked": [
    { name: "bad", inputSchema: OBJECT, outputSchema: { type: "object", $ref: "#/none" } },
    /^Expected outputSchema to be a JSON Schema that can be checked/,
  ],
};

for (const [what, [tool, reason]] of Object.entries(UNUSABLE))
  proves(["D402"], `skips a tool with ${what}, and the others work`, async () => {
    const server = await offering([tool, { name: "after", inputSchema: OBJECT }], {
      filter: ({ name }) => !["broken", "chore"].includes(name),
    });
    expect(server.skippedTools.map((one) => one.reason)).toEqual([expect.stringMatching(reason)]);
    expect(textsOf(await made(server.tools, [["odd_meta"], ["odd_after"]]))).toEqual(["{}", ""]);
    await flushEventLoop();
    const warnings = takeWarnings();
    expect(warnings).toEqual([expect.stringMatching(/^EspalierWarning: Tool ".*" of MCP server/)]);
    expect(warnings.join().length).toBeLessThan(1_500);
  });

proves(["D402"], "warns of 20 skipped tools, and of the number of the others", async () => {
  const tools = Array.from({ length: 500 }, () => ({ name: "bad" }));
  const server = await offering(tools, { filter: ({ name }) => name === "meta" });
  await flushEventLoop();
  const warnings = takeWarnings();
  expect([server.skippedTools.length, warnings.length, warnings.at(-1)]).toEqual([
    500,
    21,
    'EspalierWarning: 480 more tools of MCP server "odd" are skipped. Read skippedTools of the server for the reasons.',
  ]);
});

for (const [limit, more] of [
  [50, {}],
  [2, { maxElicitationsPerCall: 2 }],
] as const)
  proves(
    ["D401"],
    `declines further questions of a call after ${limit}, with one warning`,
    async () => {
      const server = await offering(ASKING, {
        filter: ({ name }) => name === "survey",
        elicitation: true,
        ...more,
      });
      const fixture = newFixture({ approver: (question) => provideResult(question, {}) });
      const calls = [0, 1].map(() => ["odd_survey", { times: limit + 3 }] as const);
      const [text, again] = textsOf(await made(server.tools, calls, fixture));
      const answers = (count: number, answer: object) =>
        Array.from({ length: count }, () => answer);
      expect(JSON.parse(text ?? "")).toEqual([
        ...answers(limit, { action: "accept", content: {} }),
        ...answers(3, { action: "decline" }),
      ]);
      expect(again).toBe(text);
      await flushEventLoop();
      expect(takeWarnings()).toEqual(
        [0, 1].map(
          () =>
            `EspalierWarning: MCP server "odd" asks more than ${limit} times in one call (maxElicitationsPerCall). It is declined for the rest of the call.`,
        ),
      );
    },
  );

proves(["D493"], "refuses to ask for 10,000 fields at once", async () => {
  const server = await offering(ASKING, {
    filter: ({ name }) => name === "elicit",
    elicitation: true,
  });
  const fields = Array.from({ length: 10_000 }, (_field, index) => [`f${index}`, {}] as const);
  const requestedSchema = { type: "object", properties: Object.fromEntries(fields) };
  const [text = ""] = textsOf(await made(server.tools, [["odd_elicit", { requestedSchema }]]));
  expect(text).toContain("-32602");
  // The SDK would name each field.
  expect(text.length).toBeLessThan(2_000);
});
