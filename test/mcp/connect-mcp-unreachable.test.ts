// Goal: a server that cannot be reached, or is not an MCP server, is a clear error in bounded time
// and leaves nothing behind.
// Method: programs that end, stay silent, write garbage or do not exist, on a manual clock.

import { createServer } from "node:http";
import { once } from "node:events";

import { describe, expect, test } from "vitest";

import { connectMcp } from "../../src/mcp/connect-mcp.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { refusal, until } from "../support/mcp/connecting.ts";
import { afterwards } from "../harness/afterwards.ts";
import { proves } from "../harness/proves.ts";
import { handMadeOverStdio, isAlive } from "../support/mcp/servers.ts";
import { freePort } from "../support/free-port.ts";
import { rejectionOf } from "../support/thrown.ts";

test("reports a command that does not exist", async () => {
  const fault = await refusal({ type: "stdio", command: "/nowhere/server" });
  expect([fault.kind, fault.message]).toEqual(["unreachable", "spawn /nowhere/server ENOENT"]);
});

test("reports a folder that does not exist", async () => {
  const { command, args } = handMadeOverStdio("well").transport;
  const fault = await refusal({ type: "stdio", command, args: args ?? [], cwd: "/nowhere" });
  expect(fault.kind).toBe("unreachable");
});

test("reports a port without a listener", async () => {
  const port = await freePort();
  const fault = await refusal({ type: "http", url: `http://127.0.0.1:${port}/mcp` });
  expect([fault.kind, fault.message]).toEqual([
    "unreachable",
    `fetch failed: connect ECONNREFUSED 127.0.0.1:${port}`,
  ]);
});

test("reports the exit code of a program that ends, and its stderr separately", async () => {
  const peer = handMadeOverStdio("exits");
  const fault = await refusal(peer.transport);
  expect([fault.kind, fault.message]).toEqual([
    "unreachable",
    "the connection was closed; it exited with code 3",
  ]);
  expect(fault.detail).toMatch(/^its stderr: pid \d+\nNo key was given\.$/);
});

test.each(["silent", "garbage"])(
  "reports a program that is %s after the time limit",
  async (behaviour) => {
    const peer = handMadeOverStdio(behaviour);
    const clock = new ManualClock();
    const refused = refusal(peer.transport, { clock, connectTimeoutMs: 1_000 });
    await peer.started(1);
    clock.advance(1_000);
    const fault = await refused;
    expect([fault.kind, fault.message]).toEqual([
      "unreachable",
      "it did not answer within 1000 ms",
    ]);
    expect(peer.pids.map(isAlive)).toEqual([false]);
  },
);

test("kills a program that does not end", async () => {
  const peer = handMadeOverStdio("stubborn");
  const clock = new ManualClock();
  const refused = refusal(peer.transport, { clock, connectTimeoutMs: 1_000 });
  await until(() => peer.errorText().includes("ready"));
  clock.advance(1_000);
  await until(() => peer.errorText().includes("no\n"));
  expect(peer.pids.map(isAlive)).toEqual([true]);
  clock.advance(1_000);
  expect((await refused).kind).toBe("unreachable");
  expect(peer.pids.map(isAlive)).toEqual([false]);
});

test("reports a server over HTTP that never answers", async () => {
  const http = createServer(() => {});
  http.listen(0, "127.0.0.1");
  await once(http, "listening");
  afterwards(() => {
    http.closeAllConnections();
    http.close();
  });
  const address = http.address();
  const port = typeof address === "object" ? address?.port : undefined;
  const clock = new ManualClock();
  const asked = once(http, "request");
  const refused = refusal(
    { type: "http", url: `http://127.0.0.1:${port}/` },
    { clock, connectTimeoutMs: 1_000 },
  );
  await asked;
  clock.advance(1_000);
  expect((await refused).message).toBe("it did not answer within 1000 ms");
  expect(clock.pendingTimers).toBe(0);
});

test("names the server, its address without secrets, the reason and the remedy", async () => {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}/mcp?key=secret`;
  await expect(connectMcp({ name: "far", transport: { type: "http", url } })).rejects.toMatchObject(
    {
      code: "mcp_unavailable",
      message: `Expected the MCP server "far" at http://127.0.0.1:${port}/mcp to answer, got: fetch failed: connect ECONNREFUSED 127.0.0.1:${port}. Check its URL, and that it is running.`,
      data: { server: "far", reason: "unreachable" },
    },
  );
  const { transport } = handMadeOverStdio("exits");
  const near = connectMcp({ name: "near", transport });
  await expect(near).rejects.toThrow(
    /^Expected the MCP server "near" at .* to answer, got: the connection was closed; it exited with code 3 \(its stderr: pid \d+\nNo key was given\.\)\. Check its command, and that it runs by itself\.$/,
  );
});

/** Returns the URL of a server that answers 401. */
async function guarded(): Promise<string> {
  const http = createServer((request, response) => {
    request.resume();
    response.writeHead(401, { "www-authenticate": "Bearer" }).end("Who are you?");
  });
  http.listen(0, "127.0.0.1");
  await once(http, "listening");
  afterwards(() => {
    http.closeAllConnections();
    http.close();
  });
  const address = http.address();
  return `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}/mcp`;
}

describe("a server that answers 401", () => {
  proves(["S7.38"], "is reported as unauthorized, with the credentials to pass", async () => {
    const url = await guarded();
    const thrown = await rejectionOf(
      connectMcp({ name: "far", transport: { type: "http", url: `${url}?key=secret` } }),
    );
    expect(thrown).toEqual({
      code: "mcp_unauthorized",
      message: `Expected the MCP server "far" at ${url} to need no authorization, got: HTTP 401 (it asks for Bearer). Pass valid credentials: transport.auth, a provider of @modelcontextprotocol/client, or transport.headers: { authorization: "Bearer …" }.`,
      data: {
        server: "far",
        reason: "unauthorized",
        challenge: { status: 401, scheme: "Bearer" },
      },
    });
  });

  proves(
    ["S7.38"],
    "is reported as unauthorized if it rejects the authorization in the headers",
    async () => {
      const url = await guarded();
      const headers = { Authorization: "Bearer old" };
      const thrown = await rejectionOf(
        connectMcp({ name: "far", transport: { type: "http", url, headers } }),
      );
      expect(thrown.message).toBe(
        `Expected the MCP server "far" at ${url} to accept the authorization in its headers, got: HTTP 401 (it asks for Bearer). Pass valid credentials: transport.auth, a provider of @modelcontextprotocol/client, or transport.headers: { authorization: "Bearer …" }.`,
      );
    },
  );
});

test.each([
  ["Put its arguments into args.", { command: "espalier-nowhere -y foo" }],
  ["Check its command and its cwd.", { command: process.execPath, cwd: "/nowhere" }],
  ["Check its command, and that it runs by itself.", { command: "espalier-nowhere" }],
])("reports a program that cannot be started: %s", async (advice, more) => {
  const near = connectMcp({ name: "near", transport: { type: "stdio", ...more } });
  const { code, message } = await rejectionOf(near);
  expect([code, message]).toEqual([
    "mcp_unavailable",
    `Expected the MCP server "near" at ${more.command} to answer, got: spawn ${more.command} ENOENT. ${advice}`,
  ]);
});
