// Goal: an invalid option is an error that names the field, before anything is started.
// Method: handwritten options.

import { describe, expect, test } from "vitest";

import { connectMcp } from "../../src/mcp/connect-mcp.ts";
import { EspalierError } from "../../src/kernel/error.ts";
import { resolveMcpSettings, type McpOptions } from "../../src/mcp/mcp-options.ts";
import { thrownBy } from "../support/thrown.ts";

const transport = { type: "stdio", command: "server" } as const;

test("applies a default for each option that is left out", () => {
  const {
    clock: _clock,
    filter,
    onToolsChanged,
    ...settings
  } = resolveMcpSettings({ name: "a", transport });
  expect(settings).toEqual({
    name: "a",
    transport: { type: "stdio", command: "server", args: [], env: {} },
    prefix: "a_",
    needsApproval: undefined,
    timeoutMs: 60_000,
    connectTimeoutMs: 30_000,
    maxAttempts: 3,
    delayMs: 500,
    maxResponseBytes: 10_485_760,
    elicitation: false,
    maxElicitationsPerCall: 50,
    maxTools: 1_000,
  });
  expect([filter({ name: "any", annotations: {} }), onToolsChanged()]).toEqual([true, undefined]);
});

test("copies its options, so later changes have no effect", () => {
  const args = ["one"];
  const env = { KEY: "one" };
  const settings = resolveMcpSettings({ name: "a", transport: { ...transport, args, env } });
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
    ["connectMcp.transport.auth", http({ auth: "Bearer key" })],
    ["connectMcp.transport.auth", http({ auth: { tokens: () => undefined } })],
    ["connectMcp.transport.auth", stdio({ auth: { token: () => undefined } })],
    ["connectMcp.maxResponseBytes", { name: "a", transport, maxResponseBytes: Infinity }],
    ["connectMcp.maxTools", { name: "a", transport, maxTools: -1 }],
    ["connectMcp.maxElicitationsPerCall", { name: "a", transport, maxElicitationsPerCall: "1" }],
    ["connectMcp.elicitation", { name: "a", transport, elicitation: "ask" }],
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
    expect(code).toBe("invalid_argument");
    expect(message).toMatch(/^Expected /);
  });
});

test.each([
  [
    'connectMcp.name to be letters, digits, _ and -, at most 64, got "a b". Choose another name.',
    { name: "a b", transport },
  ],
  [
    'connectMcp.prefix to be letters, digits, _ and -, at most 64, or "", got "a.". Choose another name.',
    { name: "a", transport, prefix: "a." },
  ],
  [
    "connectMcp.filter to be a function, got an array. Leave it out for all tools.",
    { name: "a", transport, filter: ["echo"] },
  ],
  [
    "connectMcp.reconnect.maxAttempts to be a whole number from 0 up, got Infinity. Leave it out for the default, 3.",
    { name: "a", transport, reconnect: { maxAttempts: Infinity } },
  ],
  [
    "connectMcp.reconnect.delayMs to be a finite number from 0 up, got -1. Leave it out for the default, 500.",
    { name: "a", transport, reconnect: { delayMs: -1 } },
  ],
  [
    "connectMcp.timeoutMs to be a number of milliseconds above 0, got Infinity. Leave it out for the default, 60,000.",
    { name: "a", transport, timeoutMs: Infinity },
  ],
  [
    "connectMcp.connectTimeoutMs to be a number of milliseconds above 0, got Infinity. Leave it out for the default, 30,000.",
    { name: "a", transport, connectTimeoutMs: Infinity },
  ],
  [
    'connectMcp.transport.url to be an http or https URL, got "localhost:3000/mcp". Start it with http:// or https://.',
    http({ url: "localhost:3000/mcp" }),
  ],
  [
    "connectMcp.transport.auth to be an OAuthClientProvider or AuthProvider of @modelcontextprotocol/client, got an object. For a fixed token use headers.",
    http({ auth: {} }),
  ],
  [
    'connectMcp.transport.url to be an http or https URL, got "file:///etc". Start it with http:// or https://.',
    http({ url: new URL("file:///etc") }),
  ],
  [
    "connectMcp.transport.url to be an http or https URL, got undefined. Start it with http:// or https://.",
    http({ url: undefined }),
  ],
])("reports: Expected %s", (message, options) => {
  expect(thrownBy(() => resolveMcpSettings(foreign(options))).message).toBe(`Expected ${message}`);
});

test("accepts a URL that is an object", () => {
  const url = new URL("https://example.org/mcp");
  expect(resolveMcpSettings({ name: "a", transport: { type: "http", url } }).transport).toEqual({
    type: "http",
    url: new URL("https://example.org/mcp"),
    headers: {},
  });
});

/** Passes options as a user without types may. */
function foreign(options: unknown): McpOptions {
  return isOptions(options) ? options : expect.fail("nothing");
}

function isOptions(options: unknown): options is McpOptions {
  return options !== undefined;
}
