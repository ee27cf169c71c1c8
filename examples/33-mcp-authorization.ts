// An MCP server with OAuth that asks people during a call. The approver of the run answers. Both
// servers are part of this file.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";

import { ClientCredentialsProvider } from "@modelcontextprotocol/client";
import { defineAgent, deny, provideResult, Orchestrator, type Approver } from "espalier";
import { connectMcp } from "espalier/mcp";
import { asks, says, ScriptedModel } from "espalier/testing";

const ASKED = {
  message: "Where to, and for how long?",
  requestedSchema: {
    type: "object",
    properties: { city: { type: "string" }, nights: { type: "integer", default: 2 } },
    required: ["city", "nights"],
  },
};
const RESULTS: Readonly<Record<string, object>> = {
  initialize: {
    protocolVersion: "2025-11-25",
    capabilities: { tools: {} },
    serverInfo: { name: "booking", version: "1" },
  },
  "tools/list": { tools: [{ name: "book", inputSchema: { type: "object" } }] },
};
let answered: ((text: string) => void) | undefined;

const http = createServer((request, response) => void serve(request, response)).listen(
  0,
  "127.0.0.1",
);
await once(http, "listening");
const address = http.address();
const issuer = `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`;

const auth = new ClientCredentialsProvider({
  clientId: "booking-agent",
  clientSecret: process.env["BOOKING_SECRET"] ?? "only for this example",
  scope: "book",
  expectedIssuer: issuer, // no other issuer gets the secret
});
const server = await connectMcp({
  name: "booking",
  transport: { type: "http", url: `${issuer}/mcp`, auth },
  elicitation: true,
});
const approver: Approver = (question) => {
  if (question.kind === "approval") return deny(question);
  // In your program: show a form for question.arguments.
  return provideResult(question, { city: "Bonn" });
};
const model = new ScriptedModel([asks("booking_book", {}), says("Booked.")]);
const clerk = defineAgent({
  name: "clerk",
  instructions: "Book what is asked for.",
  model,
  tools: server.tools,
});

const result = await new Orchestrator({ approver }).start(clerk, "Book a room for us.").result;
await server.close();
http.closeAllConnections();
http.close();

const [booked] = result.steps.flatMap(({ tools }) => tools.executions);
console.log(booked?.text);
assert.equal(result.status, "completed");
assert.equal(booked?.text, '{"action":"accept","content":{"city":"Bonn","nights":2}}');

// A caller with the token may call; one with the right secret gets the token.

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  let text = "";
  for await (const chunk of request) text += String(chunk);
  const json = (body: object, status = 200): void => {
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  };
  switch (request.url) {
    case "/.well-known/oauth-protected-resource/mcp":
      return json({ resource: `${issuer}/mcp`, authorization_servers: [issuer] });
    case "/.well-known/oauth-authorization-server":
      return json({
        issuer,
        authorization_endpoint: `${issuer}/authorize`,
        token_endpoint: `${issuer}/token`,
        response_types_supported: ["code"],
        token_endpoint_auth_methods_supported: ["client_secret_basic"],
      });
    case "/token":
      return json({ access_token: "the-token", token_type: "Bearer" });
    default:
  }
  if (request.headers.authorization !== "Bearer the-token") {
    response.writeHead(401, { "www-authenticate": 'Bearer scope="book"' }).end();
    return;
  }
  if (request.method !== "POST") return void response.writeHead(405).end();
  const message: unknown = JSON.parse(text);
  assert.ok(typeof message === "object" && message !== null);
  const {
    id,
    method,
    result: answer,
  } = { id: undefined, method: "", result: undefined, ...message };
  if (id === "ask") answered?.(JSON.stringify(answer));
  if (id === undefined || id === "ask") return void response.writeHead(202).end();
  if (method !== "tools/call") return json({ jsonrpc: "2.0", id, result: RESULTS[method] });
  response.writeHead(200, { "content-type": "text/event-stream" });
  const send = (data: object): boolean => response.write(`data: ${JSON.stringify(data)}\n\n`);
  const { promise, resolve } = Promise.withResolvers<string>();
  answered = resolve;
  send({ jsonrpc: "2.0", id: "ask", method: "elicitation/create", params: ASKED });
  const content = [{ type: "text", text: await promise }];
  send({ jsonrpc: "2.0", id, result: { content } });
  response.end();
}
