// Goal: errors contain no values of `headers` that Restate, or a proxy before it, repeats.
// Method: an HTTP server on the loopback that refuses each request and quotes its headers.

import { createServer } from "node:http";
import { inspect } from "node:util";

import { expect } from "vitest";

import { sendRun, registerWorker } from "../../../src/engine/restate/restate-ingress.ts";
import { RunIdSchema } from "../../../src/protocol/ids.ts";
import { proves } from "../../harness/proves.ts";
import { listening } from "../../support/mcp/authorization-server.ts";
import { rejection } from "../../support/openai-calls.ts";

proves(["D409"], "redacts headers that a proxy of Restate repeats in its errors", async () => {
  const http = createServer((request, response) => {
    response.writeHead(403).end(`Who is ${String(request.headers.authorization)}?`);
  });
  const url = await listening(http);
  const headers = { authorization: "Bearer restate-0123456789" };
  const ingress = { url, headers };
  const ticket = { runId: RunIdSchema().parse("run_1"), role: "lead", version: "1" };
  const workerUrl = "http://127.0.0.1:1";
  const registration = { adminUrl: url, headers, workerUrl, services: [] };
  for (const work of [() => sendRun(ingress, ticket), () => registerWorker(registration)]) {
    const text = inspect(await rejection(work()), { depth: 9 });
    expect(text).toContain("status 403: Who is [header authorization]?");
    expect(text).not.toContain("restate-0");
  }
});
