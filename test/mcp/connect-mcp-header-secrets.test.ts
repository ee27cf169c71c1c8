// Goal: values of `headers` that a server repeats reach neither models nor errors.
// Method: the hand-made server over HTTP, with answers that quote its requests.

import { inspect } from "node:util";

import { expect } from "vitest";

import { connectMcp, type McpServer } from "../../src/mcp/connect-mcp.ts";
import { afterwards } from "../harness/afterwards.ts";
import { proves } from "../harness/proves.ts";
import { newFixture } from "../harness/run-scripted.ts";
import { rejection } from "../support/openai-calls.ts";
import { made, textsOf } from "../support/mcp/agents.ts";
import { incoming } from "../support/mcp/hand-made-server.ts";
import { handMadeOverHttp, type HttpFixtureOptions } from "../support/mcp/http-server.ts";

const TOKEN = "tickets-0123456789";
const headers = { "X-Api-Key": `Token ${TOKEN}`, "user-agent": "tickets-client" };

async function connected(options: HttpFixtureOptions): Promise<McpServer> {
  const { transport } = await handMadeOverHttp(options);
  const server = await connectMcp({
    name: "peer",
    prefix: "",
    transport: { ...transport, headers },
    filter: ({ name }) => ["refuse", "empty", "meta"].includes(name),
  });
  afterwards(() => server.close());
  return server;
}

/** Replaces the result of the tool `empty`, which is a failure without text. */
function answering(result: object): (text: string) => string {
  return (text) => {
    const { id } = incoming(text);
    return text.includes('"isError":true') ? JSON.stringify({ jsonrpc: "2.0", id, result }) : text;
  };
}

proves(["D407"], "hides a header that a refusal repeats from the model", async () => {
  const rewrite = (text: string): string =>
    text.replaceAll("out of order", `${TOKEN} by tickets-client is unknown`);
  const { tools } = await connected({ rewrite });
  const executions = await made(tools, [["refuse"]]);
  expect(textsOf(executions)).toEqual([
    expect.stringContaining("[header x-api-key] by tickets-client is unknown"),
  ]);
  expect(inspect(executions, { depth: 9 })).not.toContain(TOKEN);
});

proves(["D407"], "hides a header that a failed result repeats from the model", async () => {
  const content = [
    { type: "text", text: `Token ${TOKEN} is unknown.` },
    { type: "resource", resource: { uri: "file:///a", text: TOKEN } },
  ];
  const { tools } = await connected({ rewrite: answering({ isError: true, content }) });
  const executions = await made(tools, [["empty"]]);
  expect(textsOf(executions)).toEqual([expect.stringContaining("[header x-api-key] is unknown.")]);
  expect(inspect(executions, { depth: 9 })).not.toContain(TOKEN);
});

proves(["D407"], "shows a result that succeeds to the model unchanged", async () => {
  const content = [{ type: "text", text: TOKEN }];
  const { tools } = await connected({ rewrite: answering({ content }) });
  expect(textsOf(await made(tools, [["empty"]]))).toEqual([TOKEN]);
});

proves(["D407"], "removes a header that the server repeats from errors of connectMcp", async () => {
  const answers = [
    [500, {}, `Who is ${TOKEN}?`],
    [400, {}, JSON.stringify({ jsonrpc: "2.0", id: 0, error: { code: 1, message: TOKEN } })],
    [401, { "www-authenticate": `Bearer scope="${TOKEN}", error_description="${TOKEN}"` }, TOKEN],
    [401, { "www-authenticate": `Bearer error="${"x".repeat(490)}${TOKEN}"` }, ""],
  ] as const;
  for (const [status, more, body] of answers) {
    const front: HttpFixtureOptions["front"] = (_request, response) => {
      response.writeHead(status, more).end(body);
      return true;
    };
    const { transport } = await handMadeOverHttp({ front });
    const options = { name: "peer", transport: { ...transport, headers } };
    const thrown = await rejection(connectMcp(options));
    const text = inspect(thrown, { depth: 9, maxStringLength: 1e6 });
    expect(text).not.toContain("tickets-0");
    expect(text).toContain("[header x");
  }
});

proves(["D407"], "removes a header that cannot be sent from the error", async () => {
  const { transport } = await handMadeOverHttp();
  const bad = { "x-api-key": `${TOKEN}\nmore` };
  const options = { name: "peer", transport: { ...transport, headers: bad } };
  const text = inspect(await rejection(connectMcp(options)), { depth: 9 });
  expect(text).not.toContain(TOKEN);
});

proves(["D492"], "removes a header that the server repeats from reports of progress", async () => {
  const rewrite = (text: string): string =>
    text.includes('"isError":true') ? `${REPORT}\n\ndata: ${text}` : text;
  const { tools } = await connected({ rewrite });
  const fixture = newFixture();
  await made(tools, [["empty"]], fixture);
  const reports = fixture.sink.events.filter(({ type }) => type === "tool.progressed");
  expect(reports).toHaveLength(1);
  const text = inspect(reports, { depth: 9 });
  expect(text).toContain("[header x-api-key] works");
  expect(text).not.toContain(TOKEN);
});

/** Precedes the answer. The first call has the first token. */
const REPORT = JSON.stringify({
  jsonrpc: "2.0",
  method: "notifications/progress",
  params: { progressToken: "call-1", progress: 1, message: `Token ${TOKEN} works` },
});

proves(["D492"], "removes a header that the server repeats from instructions", async () => {
  const rewrite = (text: string): string =>
    text.replace("Handle with care.", `Handle ${TOKEN} with care.`);
  const { instructions } = await connected({ rewrite });
  expect(instructions).toBe("Handle [header x-api-key] with care.");
});
