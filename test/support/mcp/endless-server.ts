// An MCP server over HTTP that sends one of its answers without end, as long as the client reads.

import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { finished, Readable } from "node:stream";
import { createBrotliCompress, createGzip } from "node:zlib";

import { afterwards } from "../../harness/afterwards.ts";
import { incoming, type Incoming } from "./hand-made-server.ts";

/** The answer that is endless. */
export type EndlessPlace =
  | "initialize"
  | "initialized"
  | "tools/list"
  | "tools/call"
  | "standing stream"
  | "authorization";

/** The shape of the answer. */
export type EndlessShape =
  | "JSON"
  | "JSON in gzip"
  | "JSON in br"
  | "event"
  | "events"
  | "lines"
  | "values"
  | "questions"
  | "numbered event"
  | "resumed events"
  | "short streams"
  | "error"
  | "refusal"
  | "redirect"
  | "accepted"
  | "patterns";

export interface EndlessServer {
  readonly url: string;
  /** The sockets of endless answers that are still open. */
  readonly flooded: ReadonlySet<Socket>;
  /** The number of endless answers that were begun. */
  readonly floods: number;
  /** The bytes of endless answers that were handed to the network. */
  readonly bytes: number;
  /** The number of requests for a stream alone, by GET. */
  readonly streams: number;
}

const PIECE = "a".repeat(16 * 1024);
const NOTICE = JSON.stringify({
  jsonrpc: "2.0",
  method: "notifications/message",
  params: { level: "info", data: PIECE },
});

function* endless(first: string, piece: (count: number) => string): Generator<string> {
  yield first;
  for (let count = 1; ; count += 1) yield piece(count);
}

const SSE = { "content-type": "text/event-stream" };
const JSON_TYPE = { "content-type": "application/json" };

interface Flood {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly first: string;
  readonly piece: (count: number) => string;
}

function floodOf(shape: EndlessShape, id: Incoming["id"], isResumed: boolean): Flood {
  const json = `{"jsonrpc":"2.0","id":${JSON.stringify(id ?? 0)},"result":{"text":"`;
  const same = { status: 200, headers: SSE, first: "", piece: () => PIECE };
  const notice = `data: ${NOTICE}\n\n`;
  switch (shape) {
    case "JSON":
      return { ...same, headers: JSON_TYPE, first: json };
    case "JSON in gzip":
      return { ...same, headers: { ...JSON_TYPE, "content-encoding": "gzip" }, first: json };
    case "JSON in br":
      return { ...same, headers: { ...JSON_TYPE, "content-encoding": "br" }, first: json };
    case "event":
      return { ...same, first: `data: ${json}` };
    case "lines":
      return { ...same, piece: () => `data: ${PIECE}\n` };
    case "values":
      return { ...same, first: "data: ", piece: () => "[],".repeat(4_000) };
    case "events":
      return { ...same, piece: () => notice };
    case "questions":
      return {
        ...same,
        piece: (count) => `data: {"jsonrpc":"2.0","id":"ping-${count}","method":"ping"}\n\n`,
      };
    case "numbered event":
      return { ...same, first: "id: 1\nretry: 0\ndata:\n\ndata: " };
    case "resumed events":
      return isResumed
        ? { ...same, first: "id: 2\n", piece: () => notice }
        : { ...same, first: "id: 1\nretry: 0\ndata:\n\n", piece: () => "" };
    case "short streams":
      return { ...same, first: "retry: 0\n\n" };
    case "error":
      return { ...same, status: 500, headers: { "content-type": "text/plain" } };
    case "refusal":
      return { ...same, status: 401, headers: { "www-authenticate": "Bearer" } };
    case "redirect":
      return { ...same, status: 307, headers: { location: "/mcp" } };
    case "patterns":
    case "accepted":
      return { ...same, status: 202, headers: {} };
  }
}

/** Starts a server on a free port. */
export async function startEndlessServer(
  place: EndlessPlace,
  shape: EndlessShape,
): Promise<EndlessServer> {
  const flooded = new Set<Socket>();
  let floods = 0;
  let streams = 0;
  let bytes = 0;

  const flood = (response: ServerResponse, id?: Incoming["id"], isResumed = false): void => {
    floods += 1;
    const { status, headers, first, piece } = floodOf(shape, id, isResumed);
    response.writeHead(status, headers);
    // A stream that ends without an answer makes the client request the rest.
    if (shape === "short streams" || (shape === "resumed events" && !isResumed))
      return void response.end(first);
    if (response.socket !== null) {
      const { socket } = response;
      flooded.add(socket);
      socket.once("close", () => flooded.delete(socket));
    }
    const source = Readable.from(endless(first, piece), { objectMode: false });
    const encoding = headers["content-encoding"];
    const body =
      encoding === undefined
        ? source
        : source.pipe(encoding === "gzip" ? createGzip() : createBrotliCompress());
    body.on("data", (piece: Uint8Array | string) => (bytes += piece.length));
    body.pipe(response);
    finished(response, () => {
      source.destroy();
      body.destroy();
    });
  };

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    if (request.method === "GET") {
      streams += 1;
      if (request.headers["last-event-id"] === "1" && shape === "resumed events")
        return flood(response, undefined, true);
      if (place === "standing stream") return flood(response);
    }
    if (place === "authorization") {
      if (request.method === "GET" && request.url !== "/mcp") return flood(response);
      return void response.writeHead(401, { "www-authenticate": "Bearer" }).end();
    }
    if (request.method !== "POST") return void response.writeHead(405).end();
    const message = await messageOf(request);
    const { id, method = "" } = message;
    const isPlace = method === place || method === `notifications/${place}`;
    if (isPlace && shape !== "patterns") return flood(response, id);
    if (id === undefined || method === "") return void response.writeHead(202).end();
    response.writeHead(200, { ...JSON_TYPE, "mcp-session-id": "one" });
    response.end(JSON.stringify({ jsonrpc: "2.0", id, result: resultOf(message, shape) }));
  };

  const http = createServer((request, response) => void answer(request, response));
  http.listen(0, "127.0.0.1");
  await once(http, "listening");
  afterwards(() => {
    http.closeAllConnections();
    http.close();
  });
  const address = http.address();
  const port = typeof address === "object" ? address?.port : undefined;
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    flooded,
    get floods() {
      return floods;
    },
    get bytes() {
      return bytes;
    },
    get streams() {
      return streams;
    },
  };
}

/** Tools with patterns of the greatest size. */
const PATTERNED = Array.from({ length: 49 }, (_tool, index) => ({
  name: `patterns_${index}`,
  inputSchema: {
    type: "object",
    properties: Object.fromEntries(
      Array.from({ length: 100 }, (_none, at) => [
        `p${at}`,
        { type: "string", pattern: `^[a-z]{1,400}x${at}y${index}$` },
      ]),
    ),
  },
}));

function resultOf({ method, params }: Incoming, shape: EndlessShape): object {
  switch (method) {
    case "initialize":
      return {
        protocolVersion: params?.protocolVersion,
        capabilities: { tools: {} },
        serverInfo: { name: "endless", version: "1" },
      };
    case "tools/list":
      return {
        tools: [
          { name: "look", inputSchema: { type: "object" } },
          ...(shape === "patterns" ? PATTERNED : []),
        ],
      };
    default:
      return { content: [{ type: "text", text: "seen" }] };
  }
}

async function messageOf(request: IncomingMessage): Promise<Incoming> {
  let text = "";
  for await (const chunk of request) text += String(chunk);
  return incoming(text);
}
