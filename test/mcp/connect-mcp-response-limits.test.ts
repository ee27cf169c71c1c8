// Goal: each answer of a server is bounded, over both transports and wherever it comes from.
// Method: small limits, and servers that send without end.

import { ClientCredentialsProvider } from "@modelcontextprotocol/client";
import { expect, test } from "vitest";

import { BoundedLines } from "../../src/mcp/stdio-transport.ts";
import { connectMcp } from "../../src/mcp/connect-mcp.ts";
import { JsonMeter, MAX_LEVELS, MAX_PARTS, type JsonEnd } from "../../src/mcp/json-meter.ts";
import type { McpTransport } from "../../src/mcp/mcp-options.ts";
import { takeWarnings } from "../harness/process-watch.ts";
import { proves } from "../harness/proves.ts";
import { flushEventLoop } from "../harness/run-scripted.ts";
import { rejectionOf } from "../support/thrown.ts";
import { line, until } from "../support/mcp/connecting.ts";
import { startEndlessServer } from "../support/mcp/endless-server.ts";
import { ASKING, LONG } from "../support/mcp/hand-made-server.ts";
import { handMadeOverHttp, type HttpFixtureOptions } from "../support/mcp/http-server.ts";
import { handMadeOverStdio } from "../support/mcp/servers.ts";

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
])("counts as the length of an event: %s", (_what, chunks, counts) => {
  const longest = Math.max(...counts);
  const refusedAt = (maxBytes: number): number => {
    const meter = new JsonMeter("event", maxBytes);
    return chunks.findIndex((chunk) => meter.read(Buffer.from(chunk), "it") !== undefined);
  };
  expect([refusedAt(longest), refusedAt(longest - 1)]).toEqual([-1, counts.indexOf(longest)]);
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

/** The message of a call of `wide`, without its values. */
const WIDE =
  'data: {"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"wide"}],"structuredContent":{"nested":"core","list":[]}}}';
const MAX_VALUES = MAX_PARTS - (WIDE.match(/[{[,:]/g)?.length ?? 0) + 1;
/** Without the levels of the message, its result and the data. */
const MOST_NESTED = MAX_LEVELS - 3;
const TOO_WIDE = "too_large: its answer has more than 200,000 names and values";
const TOO_DEEP = "too_large: its answer has more than 500 levels";

proves(
  ["D488"],
  "accepts a message over HTTP as wide and deep as the limits, and refuses one more value or level",
  async () => {
    const { transport } = await handMadeOverHttp({ tools: LONG });
    const { call } = await line(transport);
    expect([
      await call("wide", { arguments: { values: MAX_VALUES } }),
      await call("wide", { arguments: { values: MAX_VALUES + 1 } }),
      await call("wide", { arguments: { levels: MOST_NESTED } }),
      await call("wide", { arguments: { levels: MOST_NESTED + 1 } }),
      await call("meta"),
    ]).toEqual(["wide", TOO_WIDE, "wide", TOO_DEEP, "{}"]);
  },
);

proves(
  ["D488"],
  "ends a server over stdio whose message has too many values or levels",
  async () => {
    const peer = handMadeOverStdio("long");
    const { call } = await line(peer.transport);
    expect([
      await call("wide", { arguments: { values: MAX_VALUES } }),
      await call("wide", { arguments: { values: MAX_PARTS } }),
      await call("wide", { arguments: { levels: MOST_NESTED + 1 } }),
      await call("meta"),
      peer.pids.length,
    ]).toEqual(["wide", TOO_WIDE, TOO_DEEP, "{}", 3]);
  },
);

proves(["D488"], "does not connect to a server whose list is nested 100,000 levels", async () => {
  const rewrite = (text: string): string => text.replace('"(deep)"', DEEP);
  const tools = [{ name: "bad", inputSchema: "(deep)" }];
  const { transport } = await handMadeOverHttp({ tools, rewrite });
  expect(await rejectionOf(connectMcp({ name: "peer", transport }))).toEqual({
    code: "mcp_response_too_large",
    data: { server: "peer", reason: "too_large" },
    message:
      'Cannot use the MCP server "peer": its answer has more than 500 levels. Have the server send less at once, for example in pages or as text.',
  });
});

/** Deeper than JSON.stringify can write. */
const DEEP = `${'{"type":"object","properties":{"a":'.repeat(100_000)}{"type":"object"}${"}}".repeat(100_000)}`;

proves(["D488"], "closes a standing stream with an event of too many values", async () => {
  const server = await startEndlessServer("standing stream", "values");
  const { call } = await line({ type: "http", url: server.url });
  await until(() => server.floods === 1 && server.flooded.size === 0);
  expect([await call("look"), takeWarnings()]).toEqual([
    "seen",
    [
      'EspalierWarning: The stream of notifications of MCP server "peer" was closed: an event has more than 200,000 names and values. Calls still work.',
    ],
  ]);
});

const OPENED = "[".repeat(MAX_LEVELS);
const NUMBERS = "0,".repeat(MAX_PARTS);
test.each<readonly [what: string, end: JsonEnd, texts: readonly string[], excess: string]>([
  ["no level of a string", "body", [`["${OPENED}"]`], "none"],
  ["no level of a string with quotes", "body", [`["\\"${OPENED}"]`], "none"],
  ["no level of a string whose escape is cut", "body", ['["\\', `"${OPENED}"]`], "none"],
  ["the levels after a string that ends with a backslash", "body", [`"\\\\"[${OPENED}`], "levels"],
  ["levels that are closed", "body", ["[]".repeat(MAX_LEVELS), OPENED], "none"],
  ["no closing bracket for an open one", "body", ["]]", `[${OPENED}`], "levels"],
  ["the levels of objects", "body", ["[", '{"a":'.repeat(MAX_LEVELS)], "levels"],
  ["the values of a body over empty lines", "body", [NUMBERS, "\n\n", ","], "parts"],
  ["the values of each line", "line", [NUMBERS, "\n", NUMBERS], "none"],
  ["the values of a line over carriage returns", "line", [NUMBERS, "\r", ","], "parts"],
  ["the values of each event", "event", [NUMBERS, "\n\n", NUMBERS, "\r\r", NUMBERS], "none"],
  ["the values of an event over its lines", "event", [NUMBERS, "\r\n", ","], "parts"],
  ["levels behind a comment with a quote", "event", [': "\n', `data: [${OPENED}`], "levels"],
])("counts towards the limits of JSON: %s", (_what, end, texts, excess) => {
  const meter = new JsonMeter(end);
  const faults = texts.map((text) => meter.read(Buffer.from(text), "it")?.message ?? "none");
  const words: Readonly<Record<string, string>> = {
    levels: "it has more than 500 levels",
    parts: "it has more than 200,000 names and values",
  };
  expect(faults).toEqual([...texts.slice(1).map(() => "none"), words[excess] ?? excess]);
});

test("reads a line of 10 MB that comes in 100,000 pieces", () => {
  const lines = new BoundedLines(11_000_000);
  const piece = Buffer.from("a".repeat(100));
  lines.append(Buffer.from('{"jsonrpc":"2.0","method":"'));
  for (let count = 0; count < 100_000; count += 1) lines.append(piece);
  lines.append(Buffer.from('"}\n{"jsonrpc":"2.0","method":"b"}\n{'));
  const methods = [lines.readMessage(), lines.readMessage(), lines.readMessage()].map(
    (message) => message !== null && "method" in message && message.method.length,
  );
  expect(methods).toEqual([10_000_000, 1, false]);
});

test("does not connect to a server over stdio that writes without end", async () => {
  expect(await failureOf(handMadeOverStdio("endless").transport)).toEqual({
    code: "mcp_response_too_large",
    data: { server: "peer", reason: "too_large" },
    message: `Cannot use the MCP server "peer": ${TOO_LONG}. Raise maxResponseBytes if you trust the server.`,
  });
});

test("does not connect to a server over stdio that asks without reading the answers", async () => {
  expect((await failureOf(handMadeOverStdio("deaf").transport)).message).toContain(
    "it does not read the answers to 1000 requests",
  );
  // The SDK may wait for each answer with its own listener, of which Node warns.
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
    message: `Cannot use the MCP server "peer": ${TOO_LONG}. Raise maxResponseBytes if you trust the server.`,
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
  await flushEventLoop();
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

proves(["D490"], "sends 20 answers at a time to a server that asks 300 times at once", async () => {
  const sockets = new Set<unknown>();
  const front: HttpFixtureOptions["front"] = ({ socket }) => {
    sockets.add(socket);
    return false;
  };
  const { transport } = await handMadeOverHttp({ tools: ASKING, front });
  const { call } = await line(transport);
  const answers: unknown = JSON.parse(await call("survey", { arguments: { times: 300 } }));
  expect(answers).toEqual(Array.from({ length: 300 }, () => ({ action: "decline" })));
  // The call itself uses one more, and connecting a few.
  expect(sockets.size).toBeLessThan(60);
});

proves(["D491"], "shortens an error page of a megabyte", async () => {
  const front: HttpFixtureOptions["front"] = (_request, response) => {
    response.writeHead(500).end("e".repeat(1_000_000));
    return true;
  };
  const { transport } = await handMadeOverHttp({ front });
  const { message } = await rejectionOf(connectMcp({ name: "peer", transport }));
  expect([message.length < 10_200, message.includes("HTTP 500: Error POSTing")]).toEqual([
    true,
    true,
  ]);
});
