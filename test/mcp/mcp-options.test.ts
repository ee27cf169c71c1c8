// Goal: a slip in the options is an error that names the field, before anything is started. Method: options by hand.

import { describe, expect, test } from "vitest";

import { connectMcp } from "../../src/mcp/connect-mcp.ts";
import { EspalierError } from "../../src/kernel/error.ts";
import { mcpSettings, type McpOptions } from "../../src/mcp/mcp-options.ts";

const transport = { type: "stdio", command: "server" } as const;

test("what is left out has a default", () => {
  const {
    clock: _clock,
    filter,
    onToolsChanged,
    ...settings
  } = mcpSettings({ name: "a", transport });
  expect(settings).toEqual({
    name: "a",
    transport: { type: "stdio", command: "server", args: [], env: {} },
    prefix: "a_",
    needsApproval: undefined,
    timeoutMs: 60_000,
    connectTimeoutMs: 30_000,
    maxAttempts: 3,
    delayMs: 500,
  });
  expect([filter({ name: "any", annotations: {} }), onToolsChanged()]).toEqual([true, undefined]);
});

test("what was given may change afterwards", () => {
  const args = ["one"];
  const env = { KEY: "one" };
  const settings = mcpSettings({ name: "a", transport: { ...transport, args, env } });
  args.push("two");
  env.KEY = "two";
  expect(settings.transport).toEqual({ ...transport, args: ["one"], env: { KEY: "one" } });
});

const http = (more: object) => ({
  name: "a",
  transport: { type: "http", url: "http://a/", ...more },
});
const stdio = (more: object) => ({ name: "a", transport: { ...transport, ...more } });

describe("an error", () => {
  test.each([
    ["connectMcp", "connectMcp"],
    ["connectMcp.name", { transport }],
    ["connectMcp.name", { name: "a b", transport }],
    ["connectMcp.name", { name: "", transport }],
    ["connectMcp.prefix", { name: "a", transport, prefix: "a." }],
    ["connectMcp.transport.type", { name: "a" }],
    ["connectMcp.transport.type", { name: "a", transport: null }],
    ["connectMcp.transport.type", { name: "a", transport: { type: "sse", url: "http://a/" } }],
    ["connectMcp.transport.command", stdio({ command: " " })],
    ["connectMcp.transport.args", stdio({ args: "--fast" })],
    ["connectMcp.transport.args[1]", stdio({ args: ["a", 1] })],
    ["connectMcp.transport.env.KEY", stdio({ env: { KEY: undefined } })],
    ["connectMcp.transport.cwd", stdio({ cwd: "" })],
    ["connectMcp.transport.onStderr", stdio({ onStderr: true })],
    ["connectMcp.transport.url", stdio({ url: "http://a/" })],
    ["connectMcp.transport.url", http({ url: "a/b" })],
    ["connectMcp.transport.url", http({ url: "file:///etc" })],
    ["connectMcp.transport.url", http({ url: undefined })],
    ["connectMcp.transport.headers.authorization", http({ headers: { authorization: 1 } })],
    ["connectMcp.transport.fetch", http({ fetch: "fetch" })],
    ["connectMcp.transport.command", http({ command: "server" })],
    ["connectMcp.filter", { name: "a", transport, filter: ["read"] }],
    ["connectMcp.needsApproval", { name: "a", transport, needsApproval: "always" }],
    ["connectMcp.timeoutMs", { name: "a", transport, timeoutMs: 0 }],
    ["connectMcp.timeoutMs", { name: "a", transport, timeoutMs: Number.NaN }],
    ["connectMcp.connectTimeoutMs", { name: "a", transport, connectTimeoutMs: -1 }],
    ["connectMcp.reconnect.maxAttempts", { name: "a", transport, reconnect: { maxAttempts: 1.5 } }],
    ["connectMcp.reconnect.delayMs", { name: "a", transport, reconnect: { delayMs: Infinity } }],
    ["connectMcp.reconnect.attempts", { name: "a", transport, reconnect: { attempts: 3 } }],
    ["connectMcp.onToolsChanged", { name: "a", transport, onToolsChanged: null }],
    ["connectMcp.clock", { name: "a", transport, clock: {} }],
    ["connectMcp.timeout", { name: "a", transport, timeout: 1 }],
  ])("names %s", async (field, options) => {
    const error: unknown = await connectMcp(foreign(options)).catch((thrown: unknown) => thrown);
    if (!EspalierError.is(error)) throw new Error("Expected an error of ours.", { cause: error });
    const { code, data, message } = error;
    expect(data["field"]).toBe(field);
    expect(["invalid_option", "invalid_definition"]).toContain(code);
    expect(message).toMatch(/^Expected /);
  });
});

/** What a user without types may hand over. */
function foreign(options: unknown): McpOptions {
  return isOptions(options) ? options : expect.fail("nothing");
}

function isOptions(options: unknown): options is McpOptions {
  return options !== undefined;
}
