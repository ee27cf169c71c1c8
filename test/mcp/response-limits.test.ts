// Goal: each answer of a server is bounded, over both transports and wherever it may come from. Method: small limits, and servers that
// send without end.

import { ClientCredentialsProvider } from "@modelcontextprotocol/client";
import { expect, test } from "vitest";

import { EventMeter } from "../../src/mcp/bounded-response.ts";
import { connectMcp } from "../../src/mcp/connect-mcp.ts";
import type { McpTransport } from "../../src/mcp/mcp-options.ts";
import { takeWarnings } from "../harness/process-watch.ts";
import { proves } from "../harness/proves.ts";
import { settled } from "../harness/run-scripted.ts";
import { rejectionOf } from "../support/thrown.ts";
import { line, until } from "./connecting.ts";
import { startEndlessServer } from "./endless-server.ts";
import { LONG } from "./hand-made-server.ts";
import { handMadeOverHttp } from "./http-server.ts";
import { handMadeOverStdio } from "./servers.ts";

const LIMIT = 64 * 1024;
const limited = { maxResponseBytes: LIMIT } as const;
const TOO_LONG = "its answer is longer than 65,536 bytes (maxResponseBytes)";

function failureOf(transport: McpTransport) {
  return rejectionOf(connectMcp({ name: "peer", transport, ...limited }));
}

test.each([
  ["the bytes of one event", ["data: 12345\n"], [12]],
  ["nothing of events that have ended", ["data: 1\n\n", "data: 1\n\nda"], [9, 9]],
  ["the longest of several events", ["data: 1\n\ndata: 12345\n\n"], [13]],
  ["lines that end with CR", ["data: 1\r\rda", "ta"], [9, 4]],
  ["lines that end with CR LF", ["data: 1\r\n\r", "\ndata"], [10, 5]],
  ["lines without data", ["event: a\n", ": b\n", "\n"], [9, 13, 14]],
])("counts %s", (_what, chunks, counts) => {
  const meter = new EventMeter();
  expect(chunks.map((chunk) => meter.count(Buffer.from(chunk)))).toEqual(counts);
});

test("accepts an answer of as many bytes as the limit over HTTP, and refuses one more", async () => {
  const { transport } = await handMadeOverHttp({ tools: LONG });
  const { call } = await line(transport, limited);
  const frame =
    'data: {"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":""}]}}\n\n';
  const length = LIMIT - frame.length;
  expect([
    (await call("long", { arguments: { length } })).length,
    await call("long", { arguments: { length: length + 1 } }),
    await call("meta"),
  ]).toEqual([length, `too_large: ${TOO_LONG}`, "{}"]);
});

proves(
  ["D400"],
  "ends a server over stdio whose answer exceeds the limit, with a coded error",
  async () => {
    const peer = handMadeOverStdio("long");
    const { call } = await line(peer.transport, limited);
    const length = LIMIT + 1;
    expect([
      await call("long", { arguments: { length } }),
      await call("meta"),
      peer.pids.length,
    ]).toEqual([`too_large: ${TOO_LONG}`, "{}", 2]);
  },
);

test("does not connect to a server over stdio that writes without end", async () => {
  expect(await failureOf(handMadeOverStdio("endless").transport)).toEqual({
    code: "mcp_response_too_large",
    data: { server: "peer", reason: "too_large" },
    message: `Cannot use the MCP server "peer": ${TOO_LONG}. Raise maxResponseBytes if the server is to be trusted.`,
  });
});

test("does not connect to a server over stdio that asks without reading the answers", async () => {
  expect((await failureOf(handMadeOverStdio("deaf").transport)).message).toContain(
    "it does not read the answers to 1000 requests",
  );
  // The SDK may wait for each answer by a listener of its own, of which Node warns.
  expect(takeWarnings().filter((warning) => !warning.includes("drain listeners"))).toEqual([]);
});

proves(["D400"], "bounds the answers of an authorization", async () => {
  const server = await startEndlessServer("authorization", "JSON");
  const auth = new ClientCredentialsProvider({
    clientId: "client-1",
    clientSecret: "client-secret",
    expectedIssuer: new URL(server.url).origin,
  });
  expect(await failureOf({ type: "http", url: server.url, auth })).toEqual({
    code: "mcp_response_too_large",
    data: { server: "peer", reason: "too_large" },
    message: `Cannot use the MCP server "peer": ${TOO_LONG}. Raise maxResponseBytes if the server is to be trusted.`,
  });
  await until(() => server.flooded.size === 0);
});

proves(
  ["D400"],
  "closes a standing stream whose event exceeds the limit, and does not reopen it",
  async () => {
    for (const shape of ["event", "lines", "numbered event"] as const) {
      const server = await startEndlessServer("standing stream", shape);
      const { clock, call } = await line({ type: "http", url: server.url }, limited);
      await until(() => server.floods === 1 && server.flooded.size === 0);
      await until(() => clock.pendingTimers > 0);
      clock.advance(60_000);
      expect([await call("look"), server.streams, takeWarnings()]).toEqual([
        "seen",
        1,
        [
          'EspalierWarning: The stream of notifications of MCP server "peer" was closed: an event is longer than 65,536 bytes. Calls still work. To accept such events, raise maxResponseBytes.',
        ],
      ]);
    }
  },
);

test("reads a standing stream of many short events beyond the limit", async () => {
  const server = await startEndlessServer("standing stream", "events");
  const { call, connection } = await line({ type: "http", url: server.url }, limited);
  await until(() => server.bytes > 10 * LIMIT);
  expect([await call("look"), server.flooded.size]).toEqual(["seen", 1]);
  await connection.close();
  await until(() => server.flooded.size === 0);
});

test("waits before it reopens a stream, whatever the server asks for", async () => {
  const server = await startEndlessServer("standing stream", "short streams");
  const { clock } = await line({ type: "http", url: server.url });
  await until(() => clock.pendingTimers > 0);
  clock.advance(199);
  await settled();
  expect(server.streams).toBe(1);
  clock.advance(1);
  await until(() => server.streams === 2);
});

proves(["D400"], "bounds the pages of a list of tools together", async () => {
  const tools = [
    { name: "a", inputSchema: { type: "object" }, description: "a".repeat(LIMIT - 1_000) },
  ];
  const { transport } = await handMadeOverHttp({ tools });
  expect((await failureOf(transport)).message).toContain(
    "the list of its tools is longer than 65,536 bytes (maxResponseBytes)",
  );
});
