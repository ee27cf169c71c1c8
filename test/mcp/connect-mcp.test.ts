// Goal: the tools of a server get valid names. An unusable tool is reported or skipped, and never
// affects the others.
// Method: the hand-made server, whose tools have odd names, schemas and hints.

import { describe, expect, test } from "vitest";

import packageJson from "../../package.json" with { type: "json" };
import { connectMcp, type McpServer } from "../../src/mcp/connect-mcp.ts";
import { getErrorMessage } from "../../src/kernel/error.ts";
import type { McpOptions, McpTool } from "../../src/mcp/mcp-options.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { caller, made, textsOf } from "../support/mcp/agents.ts";
import { deny, type Answer, type Question } from "../../src/protocol/question.ts";
import { toolGuard } from "../../src/tools/tool-guard.ts";
import { proves } from "../harness/proves.ts";
import { newFixture, flushEventLoop } from "../harness/run-scripted.ts";
import { takeWarnings } from "../harness/process-watch.ts";
import { rejectionOf } from "../support/thrown.ts";
import { handMadeOverHttp } from "../support/mcp/http-server.ts";
import { afterwards } from "../harness/afterwards.ts";
import { handMadeOverStdio, isAlive } from "../support/mcp/servers.ts";

const isUsable = ({ name }: McpTool): boolean => name !== "broken" && name !== "chore";
const isMeta = ({ name }: McpTool): boolean => name === "meta";

async function connected(more: Partial<McpOptions> = {}): Promise<McpServer> {
  const { transport } = await handMadeOverHttp();
  const clock = new ManualClock();
  const server = await connectMcp({ name: "odd", transport, filter: isUsable, clock, ...more });
  afterwards(async () => {
    await server.close();
    expect(clock.pendingTimers, "timers left behind").toBe(0);
  });
  return server;
}

test("prefixes the names of tools with the server's name and replaces invalid characters", async () => {
  const { name, tools, skippedTools: skipped, instructions } = await connected();
  expect({ name, skipped, instructions }).toEqual({
    name: "odd",
    skipped: [],
    instructions: "Handle with care.",
  });
  expect(tools.map((tool) => [tool.kind, tool.name, tool.description])).toEqual([
    ["function", "odd_meta", "Gives the _meta of its call."],
    ["function", "odd_hang", "hang"],
    ["function", "odd_seen", "seen"],
    ["function", "odd_die", "die"],
    ["function", "odd_grow", "Grows"],
    ["function", "odd_shy", "shy"],
    ["function", "odd_empty", "empty"],
    ["function", "odd_sound", "sound"],
    ["function", "odd_data", "data"],
    ["function", "odd_refuse", "refuse"],
    ["function", "odd_liar", "liar"],
    ["function", "odd_with_dots_and_more", "with.dots/and more"],
  ]);
});

proves(["S7.38"], "reports a call that the server answers with 401 to the model", async () => {
  const { transport, refuse } = await handMadeOverHttp();
  const { tools } = await connected({ transport });
  refuse(401);
  const [refused] = await made(tools, [["odd_meta"]]);
  expect([refused?.errorCode, refused?.text]).toEqual([
    "tool_error",
    'odd_meta failed: The MCP server "odd" rejected the credentials: HTTP 401. Nothing was done. Do without it, and say that it needs credentials.',
  ]);
});

test("sends its name and version to the server, and no capabilities", async () => {
  const { transport, server } = await handMadeOverHttp();
  await connected({ transport });
  expect(server.client).toEqual([{ name: "espalier", version: packageJson.version }, {}]);
});

test("accepts another prefix, or none", async () => {
  const [own, none] = await Promise.all([
    connected({ prefix: "my-", filter: isMeta }),
    connected({ prefix: "", filter: isMeta }),
  ]);
  expect([own, none].map(({ tools }) => tools.map(({ name }) => name))).toEqual([
    ["my-meta"],
    ["meta"],
  ]);
});

test("passes each tool to the filter as the server describes it", async () => {
  const seen: McpTool[] = [];
  const { tools } = await connected({
    filter: (tool) => {
      seen.push(tool);
      return false;
    },
  });
  expect(tools).toEqual([]);
  expect(seen.slice(0, 3)).toEqual([
    { name: "meta", description: "Gives the _meta of its call.", annotations: {} },
    { name: "hang", annotations: { readOnlyHint: true } },
    { name: "seen", annotations: { destructiveHint: false } },
  ]);
  expect(Object.isFrozen(seen[0]?.annotations)).toBe(true);
});

test.each([
  ["a promise", async () => await Promise.resolve(false)],
  ["a promise", () => Promise.reject(new Error("It has no waiter."))],
  ["undefined", () => undefined],
  ['"yes"', () => "yes"],
])("rejects a filter that returns %s, and closes its server", async (got, filter) => {
  const peer = handMadeOverStdio("well");
  const refused = loosely({ name: "odd", transport: peer.transport, filter });
  const field = 'the answer of connectMcp.filter about "meta"';
  expect(await rejectionOf(refused)).toEqual({
    code: "invalid_argument",
    message: `Expected ${field} to be true or false, got ${got}. Return true or false synchronously.`,
    data: { field, expected: "true or false", got },
  });
  expect(peer.pids.map(isAlive)).toEqual([false]);
});

/** Connects as a user without types may. */
async function loosely(options: object): Promise<unknown> {
  const refused: unknown = Reflect.apply(connectMcp, undefined, [options]);
  return await refused;
}

test("skips unusable tools with a warning and offers the others", async () => {
  const { tools, skippedTools: skipped } = await connected({
    filter: ({ name }) => ["meta", "broken", "chore"].includes(name),
  });
  expect(tools.map(({ name }) => name)).toEqual(["odd_meta"]);
  expect(skipped.map(({ name }) => name)).toEqual(["broken", "chore"]);
  expect(skipped[0]?.reason).toContain("odd_broken.inputSchema");
  expect(skipped[1]?.reason).toBe(
    "It can only be called as a task (execution.taskSupport is required), which is not supported.",
  );
  await flushEventLoop();
  expect(takeWarnings()).toEqual([
    expect.stringMatching(/^EspalierWarning: Tool "broken" of MCP server "odd" is skipped: /),
    expect.stringMatching(/^EspalierWarning: Tool "chore" of MCP server "odd" is skipped: /),
  ]);
});

test("skips entries of the list that are not tools and offers the others", async () => {
  const { transport } = handMadeOverStdio("odd");
  const { tools, skippedTools: skipped } = await connected({ transport, filter: isMeta });
  expect(tools.map(({ name }) => name)).toEqual(["odd_meta"]);
  expect(skipped.map(({ name }) => name)).toEqual(["shapeless", "#16", "#17"]);
  expect(skipped[0]?.reason).toMatch(/^It does not fit the protocol: inputSchema\.type: /);
  await flushEventLoop();
  expect(takeWarnings()).toHaveLength(3);
});

describe("an error that leaves no server behind", () => {
  test.each([
    [
      "a filter that throws",
      {
        filter: () => {
          throw new Error("I cannot say.");
        },
      },
      undefined,
      /^I cannot say\.$/,
    ],
  ])("is thrown because of %s", async (_case, more, code, message) => {
    const peer = handMadeOverStdio("well");
    const failed = connectMcp({ name: "odd", transport: peer.transport, ...more });
    const error: unknown = await failed.catch((thrown: unknown) => thrown);
    expect(getErrorMessage(error)).toMatch(message);
    expect(Reflect.get(Object(error), "code")).toBe(code);
    expect(peer.pids.map(isAlive)).toEqual([false]);
  });
});

test("reports a changed list, reads it on request, and still runs earlier tools", async () => {
  let changes = 0;
  const server = await connected({ onToolsChanged: () => (changes += 1) });
  const before = server.tools;
  expect(textsOf(await made(before, [["odd_grow"]]))).toEqual(["grown"]);
  expect(changes).toBe(1);
  expect(server.tools).toBe(before);
  const after = await server.refresh();
  expect(server.tools).toBe(after);
  expect(after.map(({ name }) => name)).toEqual([...before.map(({ name }) => name), "odd_grown"]);
  expect(textsOf(await made(after, [["odd_grown"]]))).toEqual(["here"]);
  expect(textsOf(await made(before, [["odd_data"]]))).toEqual(['{"a":[true,null],"b":1}']);
});

/** Faults of a listener. */
const FAILURES: Readonly<Record<string, () => unknown>> = {
  throws: () => {
    throw new Error("Not now.");
  },
  rejects: () => Promise.reject(new Error("Not now.")),
};

for (const [fails, listener] of Object.entries(FAILURES)) {
  proves(["D300"], `continues with a warning if a listener of changes ${fails}`, async () => {
    const server = await connected({ onToolsChanged: listener });
    const calls = [["odd_grow"], ["odd_grow"]] as const;
    expect(textsOf(await made(server.tools, calls))).toEqual(["grown", "grown"]);
    await flushEventLoop();
    expect(takeWarnings()).toEqual([
      "EspalierWarning: onToolsChanged of an MCP server threw: Not now.",
    ]);
  });

  proves(["D300"], `continues with a warning if a listener of stderr ${fails}`, async () => {
    const { transport } = handMadeOverStdio("well");
    const server = await connectMcp({
      name: "odd",
      transport: { ...transport, onStderr: () => listener() },
      filter: isUsable,
    });
    afterwards(() => server.close());
    expect(server.tools).toHaveLength(12);
    await flushEventLoop();
    expect(takeWarnings()).toEqual(["EspalierWarning: onStderr of an MCP server threw: Not now."]);
  });
}

/** Returns the calls that an approver is asked about, and why. All are denied. */
async function asked(
  needsApproval?: McpOptions["needsApproval"],
): Promise<readonly (readonly [string, string])[]> {
  const { tools } = await connected(needsApproval === undefined ? {} : { needsApproval });
  const questions: Question[] = [];
  const approver = (question: Question): Answer => {
    questions.push(question);
    return deny(question);
  };
  const { run } = newFixture({ approver });
  // `hang` only reads, `seen` destroys nothing, `sound` has no hints.
  const names = ["odd_hang", "odd_seen", "odd_sound", "odd_die"];
  const guarded = toolGuard(({ toolName }) =>
    toolName === "odd_hang" ? { type: "deny", reason: "It never ends." } : { type: "allow" },
  );
  const calls = names.map((name) => [name, { n: 1 }] as const);
  await run(
    caller(tools, needsApproval === undefined ? calls.slice(0, 3) : calls, { guards: [guarded] }),
  );
  return questions.map(({ toolName, reason }) => [toolName, reason] as const);
}

describe("approval", () => {
  test("is not requested by default", async () => {
    expect(await asked()).toEqual([]);
  });

  test("is requested for calls that may destroy, including tools without hints", async () => {
    expect(await asked("destructive")).toEqual([
      ["odd_sound", "odd_sound needs approval."],
      ["odd_die", "odd_die needs approval."],
    ]);
  });

  test("is requested for the calls that the function selects", async () => {
    const decided: unknown[] = [];
    const questions = await asked((tool, input, { stepNumber }) => {
      decided.push([tool.name, input, stepNumber]);
      return tool.annotations.destructiveHint === true ? "It is dangerous." : stepNumber === 2;
    });
    expect(questions).toEqual([
      ["odd_seen", "odd_seen needs approval."],
      ["odd_die", "It is dangerous."],
    ]);
    expect(decided).toEqual([
      ["seen", { n: 1 }, 2],
      ["sound", { n: 1 }, 3],
      ["die", { n: 1 }, 4],
    ]);
  });
});

test("repeats no call after a crash that may destroy, including tools without hints", async () => {
  const { tools } = await connected();
  const listed = ["odd_hang", "odd_seen", "odd_sound", "odd_die", "odd_grow"].map((name) => {
    const tool = tools.find((candidate) => candidate.name === name);
    return [name, tool?.retryAfterCrash];
  });
  expect(Object.fromEntries(listed)).toEqual({
    odd_hang: true,
    odd_seen: true,
    odd_sound: false,
    odd_die: false,
    odd_grow: true,
  });
});

test("closes with `await using`", async () => {
  const peer = handMadeOverStdio("well");
  {
    await using server = await connectMcp({
      name: "odd",
      transport: peer.transport,
      filter: isUsable,
    });
    expect(server.tools).toHaveLength(12);
    expect(peer.pids.map(isAlive)).toEqual([true]);
  }
  expect(peer.pids.map(isAlive)).toEqual([false]);
});

test("fails to list tools after it was closed", async () => {
  const server = await connected();
  await server.close();
  await expect(server.refresh()).rejects.toMatchObject({
    code: "mcp_unavailable",
    data: { server: "odd", reason: "closed" },
  });
});
