// The hand-made server over HTTP, in the process of the test: it can forget sessions, cut streams
// and refuse requests.

import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";

import type { McpHttp } from "../../../src/mcp/mcp-options.ts";
import { HandMadeServer, incoming, type Incoming } from "./hand-made-server.ts";
import { afterwards } from "../../harness/afterwards.ts";

export interface HttpFixture {
  readonly transport: McpHttp;
  readonly server: HandMadeServer;
  /** The headers of every request with a body, in order. */
  readonly headers: IncomingMessage["headers"][];
  /** Streams that wait for an answer. */
  readonly openStreams: ReadonlySet<ServerResponse>;
  /** Forgets all sessions, like a restart. */
  forget(): void;
  /** Ends the streams of all pending requests without an answer. */
  cutStreams(): void;
  /** Answers the next tool calls with these statuses, one each. */
  refuse(...statuses: number[]): void;
}

export interface HttpFixtureOptions {
  /** Further tools. */
  readonly tools?: readonly unknown[];
  /** `front` sees every request first and returns true if it has answered. */
  /** Changes the text of each answer. */
  readonly rewrite?: (text: string) => string;
  readonly front?: (request: IncomingMessage, response: ServerResponse) => boolean;
}

/** Starts a server on a free port. */
export async function handMadeOverHttp({
  tools = [],
  rewrite = (text) => text,
  front = () => false,
}: HttpFixtureOptions = {}): Promise<HttpFixture> {
  const server = new HandMadeServer(tools);
  const headers: IncomingMessage["headers"][] = [];
  const sessions = new Set<string>();
  const openStreams = new Set<ServerResponse>();
  const refusals: number[] = [];
  let sessionCount = 0;

  const post = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    headers.push(request.headers);
    const message = await bodyOf(request);
    if (message.method === "initialize") {
      sessionCount += 1;
      sessions.add(`session-${sessionCount}`);
      response.setHeader("mcp-session-id", `session-${sessionCount}`);
    } else if (!sessions.has(String(request.headers["mcp-session-id"]))) {
      response.writeHead(404).end("No such session.");
      return;
    }
    const refusal = message.method === "tools/call" ? refusals.shift() : undefined;
    if (refusal !== undefined) {
      response.writeHead(refusal).end("Refused.");
      return;
    }
    if (message.id === undefined || message.method === undefined) {
      server.handle(message, () => {});
      response.writeHead(202).end();
      return;
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    openStreams.add(response);
    response.once("close", () => openStreams.delete(response));
    server.handle(message, (answer) => {
      response.write(`data: ${rewrite(JSON.stringify(answer))}\n\n`);
      if ("id" in answer && !("method" in answer)) response.end();
    });
  };

  const http = createServer((request, response) => {
    if (front(request, response)) return;
    if (request.method === "POST") void post(request, response);
    else {
      if (request.method === "DELETE") server.seen.push("DELETE");
      response.writeHead(request.method === "DELETE" ? 200 : 405).end();
    }
  });
  http.listen(0, "127.0.0.1");
  await once(http, "listening");
  afterwards(() => {
    http.closeAllConnections();
    http.close();
  });
  const address = http.address();
  const port = typeof address === "object" ? address?.port : undefined;
  return {
    transport: { type: "http", url: `http://127.0.0.1:${port}/mcp` },
    server,
    headers,
    openStreams,
    forget: () => sessions.clear(),
    cutStreams: () => {
      for (const stream of openStreams) stream.end();
    },
    refuse: (...statuses) => refusals.push(...statuses),
  };
}

async function bodyOf(request: IncomingMessage): Promise<Incoming> {
  let text = "";
  for await (const chunk of request) text += String(chunk);
  return incoming(text);
}
