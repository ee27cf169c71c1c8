// Goal: with baggage enabled, and only then, requests of a tool name their run and agent. Nothing
// else adds baggage.
// Method: an SDK in memory with the W3C propagators, an HTTP server that records headers, and a
// real MCP server.

import { context, propagation, ProxyTracerProvider, trace } from "@opentelemetry/api";
import { createServer, type IncomingHttpHeaders } from "node:http";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";

import { parseJson } from "../../../src/kernel/json.ts";
import { connectMcp } from "../../../src/mcp/connect-mcp.ts";
import type { McpTransport } from "../../../src/mcp/mcp-options.ts";
import type { EspalierEvent } from "../../../src/protocol/event.ts";
import { openTelemetry, type OpenTelemetryOptions } from "../../../src/telemetry/otel.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { newFixture, flushEventLoop, type Fixture } from "../../harness/run-scripted.ts";
import { made, textsOf } from "../../support/mcp/agents.ts";
import { handMadeOverHttp } from "../../support/mcp/http-server.ts";
import { handMadeOverStdio } from "../../support/mcp/servers.ts";
import { calls, part, spawn } from "../../harness/scripted-agents.ts";
import { recorder } from "../../support/telemetry/recorded-spans.ts";

const recording = recorder();
beforeAll(() => recording.provider.register());
afterAll(() => {
  trace.disable();
  context.disable();
  propagation.disable();
});

/** Returns the headers of an HTTP request that a tool of a subagent sends. */
async function headersOfCall(fixture: Fixture): Promise<IncomingHttpHeaders> {
  const received: IncomingHttpHeaders[] = [];
  const server = createServer((request, response) => {
    received.push(request.headers);
    response.end("ok");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = typeof address === "object" ? address?.port : undefined;
  const call = defineTool({
    name: "call",
    description: "Calls a service, as an instrumented client does.",
    inputSchema: z.object({}),
    execute: async () => {
      await flushEventLoop();
      const headers: Record<string, string> = {};
      propagation.inject(context.active(), headers);
      return await (await fetch(`http://127.0.0.1:${port}/`, { headers })).text();
    },
  });
  const helper = part("helper", [asks("call", {}), says("Called.")], { tools: [call] });
  const lead = part("lead", [calls(spawn("helper")), says("Done.")], { subagents: [helper.role] });
  await fixture.run(lead.role);
  server.closeAllConnections();
  await new Promise<void>((resolve) => server.close(() => resolve()));
  const [headers] = received;
  if (headers === undefined) throw new Error("Expected a request.");
  return headers;
}

function traced(options: OpenTelemetryOptions = {}): Fixture {
  return newFixture({ tracing: openTelemetry({ tracer: recording.tracer, ...options }) });
}

function started({ sink }: Fixture): EspalierEvent {
  const event = sink.events.findLast(({ type }) => type === "tool.started");
  if (event === undefined) throw new Error("Expected a call of a tool.");
  return event;
}

/** Returns the entries of a baggage header, decoded. */
function entriesOf(header: unknown): Readonly<Record<string, string>> {
  const pairs = String(header).split(",");
  return Object.fromEntries(
    pairs.map((pair) => {
      const [key = "", value = ""] = pair.split("=");
      return [key, decodeURIComponent(value)];
    }),
  );
}

test("sends the trace and no baggage from a tool by default", async () => {
  for (const options of [{}, { baggage: false }]) {
    const fixture = traced(options);
    const headers = await headersOfCall(fixture);
    const { traceId, spanId } = started(fixture);
    expect([headers["traceparent"], headers["baggage"]]).toEqual([
      `00-${traceId}-${spanId}-01`,
      undefined,
    ]);
  }
});

test("adds the run and the agent to the baggage of the caller if enabled", async () => {
  const given = propagation.createBaggage({
    customer: { value: "17" },
    "espalier.run.id": { value: "of somebody else" },
  });
  const fixture = traced({ baggage: true });
  const headers = await context.with(propagation.setBaggage(context.active(), given), () =>
    headersOfCall(fixture),
  );
  const { runId, traceId, spanId } = started(fixture);
  expect(headers["traceparent"]).toBe(`00-${traceId}-${spanId}-01`);
  expect(entriesOf(headers["baggage"])).toEqual({
    customer: "17",
    "espalier.run.id": runId,
    "espalier.agent.path": "lead/helper#1",
  });
});

test("passes the baggage of the caller on unchanged if disabled", async () => {
  const given = propagation.createBaggage({ customer: { value: "17" } });
  const fixture = traced();
  const headers = await context.with(propagation.setBaggage(context.active(), given), () =>
    headersOfCall(fixture),
  );
  expect(headers["baggage"]).toBe("customer=17");
});

/** Returns the expected baggage of an agent. */
function place({ sink }: Fixture, agentPath: string): object {
  return { "espalier.run.id": sink.events[0]?.runId, "espalier.agent.path": agentPath };
}

test("sets the baggage of a nested run to its own run and agent", async () => {
  const seen: unknown[] = [];
  const note = defineTool({
    name: "note",
    description: "Notes.",
    inputSchema: z.object({}),
    execute: () => {
      const entries = propagation.getActiveBaggage()?.getAllEntries() ?? [];
      seen.push(Object.fromEntries(entries.map(([key, { value }]) => [key, value])));
      return "noted";
    },
  });
  const inner = part("inner", [asks("note", {}), says("Inner.")], { tools: [note] });
  const innerFixture = traced({ baggage: true });
  const nest = defineTool({
    name: "nest",
    description: "Nests.",
    inputSchema: z.object({}),
    execute: async () => (await innerFixture.run(inner.role)).text,
  });
  const outer = part("outer", [asks("nest", {}), asks("note", {}), says("Outer.")], {
    tools: [nest, note],
  });
  const fixture = traced({ baggage: true });
  await fixture.run(outer.role);
  expect(seen).toEqual([place(innerFixture, "inner"), place(fixture, "outer")]);
});

/**
 * Returns the result of the server's tool `meta`, called in a run whose caller has its own baggage.
 */
async function metaOf(transport: McpTransport, fixture: Fixture): Promise<unknown> {
  const server = await connectMcp({
    name: "peer",
    transport,
    filter: ({ name }) => name === "meta",
  });
  const given = propagation.createBaggage({
    customer: { value: "17" },
    "espalier.run.id": { value: "of somebody else" },
  });
  try {
    const [text = ""] = await context.with(
      propagation.setBaggage(context.active(), given),
      async () => textsOf(await made(server.tools, [["peer_meta"]], fixture)),
    );
    return parseJson(text);
  } finally {
    await server.close();
  }
}

test("sends no baggage to an MCP server by default", async () => {
  const fixture = traced();
  const meta = await metaOf(handMadeOverStdio("well").transport, fixture);
  const { traceId, spanId } = started(fixture);
  expect(meta).toEqual({ traceparent: `00-${traceId}-${spanId}-01` });
});

test("sends only its own two entries to an MCP server if enabled, in _meta and in the headers", async () => {
  const { transport, headers } = await handMadeOverHttp();
  const fixture = traced({ baggage: true });
  const meta = await metaOf(transport, fixture);
  const { runId, traceId, spanId } = started(fixture);
  const baggage = `espalier.run.id=${runId},espalier.agent.path=solo`;
  expect(meta).toEqual({ traceparent: `00-${traceId}-${spanId}-01`, baggage });
  expect(headers.map((sent) => sent["baggage"])).toEqual([
    undefined,
    undefined,
    undefined,
    baggage,
  ]);
});

test("sends no baggage to an MCP server from a nested run for which it is disabled", async () => {
  const within = traced();
  let meta: unknown;
  const nest = defineTool({
    name: "nest",
    description: "Nests.",
    inputSchema: z.object({}),
    execute: async () => {
      meta = await metaOf(handMadeOverStdio("well").transport, within);
      return "done";
    },
  });
  const outer = part("outer", [asks("nest", {}), says("Outer.")], { tools: [nest] });
  await traced({ baggage: true }).run(outer.role);
  const { traceId, spanId } = started(within);
  expect(meta).toEqual({ traceparent: `00-${traceId}-${spanId}-01` });
});

test("adds baggage even if the tracer does not record", async () => {
  const tracer = new ProxyTracerProvider().getTracer("none");
  const fixture = traced({ tracer, baggage: true });
  const headers = await headersOfCall(fixture);
  expect(Object.keys(entriesOf(headers["baggage"]))).toEqual([
    "espalier.run.id",
    "espalier.agent.path",
  ]);
});

test("rejects an option `baggage` that is not a boolean", () => {
  const given: unknown = "yes";
  const options: object = { baggage: given };
  expect(() => openTelemetry(options)).toThrow(
    'Expected baggage to be true or false, got "yes". Set true or false.',
  );
});
