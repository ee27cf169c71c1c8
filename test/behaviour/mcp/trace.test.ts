// Goal: the work of a server can be found in the trace of the run.
// Method: an OpenTelemetry SDK in memory, and a hand-made server that returns the metadata of its
// calls.

import { context, createTraceState, propagation, trace } from "@opentelemetry/api";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { connectMcp } from "../../../src/mcp/connect-mcp.ts";
import type { McpTransport } from "../../../src/mcp/mcp-options.ts";
import { parseJson } from "../../../src/kernel/json.ts";
import { getCurrentTrace } from "../../../src/mcp/mcp-toolset.ts";
import { openTelemetry } from "../../../src/telemetry/otel.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { recorder } from "../../support/telemetry/recorded-spans.ts";
import { made, textsOf } from "../../support/mcp/agents.ts";
import { handMadeOverHttp } from "../../support/mcp/http-server.ts";
import { afterwards } from "../../harness/afterwards.ts";
import { handMadeOverStdio } from "../../support/mcp/servers.ts";

const recording = recorder();

/** Returns the result of the server's tool `meta`, called by an agent of a traced run. */
async function metaOf(transport: McpTransport): Promise<unknown> {
  const server = await connectMcp({
    name: "peer",
    transport,
    filter: ({ name }) => name === "meta",
  });
  afterwards(() => server.close());
  const fixture = newFixture({ tracing: openTelemetry({ tracer: recording.tracer }) });
  const [text = ""] = textsOf(await made(server.tools, [["peer_meta"]], fixture));
  return parseJson(text);
}

/** Returns the span of the tool call, with the attributes of its destination. */
function toolSpan() {
  const span = recording.spans().findLast(({ name }) => name === "execute_tool peer_meta");
  if (span === undefined) throw new Error("Expected a span of the call.");
  const about = Object.entries(span.attributes).filter(([key]) =>
    /^(mcp|network|server)\./.test(key),
  );
  const traceparent = `00-${span.traceId}-${span.spanId}-01`;
  return { traceparent, attributes: Object.fromEntries(about) };
}

test("sends no trace context without an SDK", async () => {
  const { transport, headers } = await handMadeOverHttp();
  expect(await metaOf(transport)).toEqual({});
  expect(headers.filter((sent) => "traceparent" in sent)).toEqual([]);
});

describe("a call with an SDK", () => {
  beforeAll(() => recording.provider.register());
  afterAll(() => {
    trace.disable();
    context.disable();
    propagation.disable();
  });

  proves(["X28"], "carries the span of the tool in _meta over stdio", async () => {
    const meta = await metaOf(handMadeOverStdio("well").transport);
    const { traceparent, attributes } = toolSpan();
    expect(meta).toEqual({ traceparent });
    expect(attributes).toEqual({
      "mcp.method.name": "tools/call",
      "mcp.protocol.version": "2025-11-25",
      "network.transport": "pipe",
    });
  });

  proves(
    ["X28"],
    "carries the span of the tool in _meta and in the headers of the request over HTTP",
    async () => {
      const { transport, headers } = await handMadeOverHttp();
      const meta = await metaOf(transport);
      const { traceparent, attributes } = toolSpan();
      expect(meta).toEqual({ traceparent });
      expect(headers.map((sent) => sent["traceparent"])).toEqual([
        undefined,
        undefined,
        undefined,
        traceparent,
      ]);
      expect(attributes).toEqual({
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": "2025-11-25",
        "mcp.session.id": "session-1",
        "network.transport": "tcp",
        "server.address": "127.0.0.1",
      });
    },
  );

  test("carries the state of the trace, but not its baggage", async () => {
    const baggage = propagation.createBaggage({ customer: { value: "17" } });
    const state = trace.wrapSpanContext({
      traceId: "0af7651916cd43dd8448eb211c80319c",
      spanId: "b7ad6b7169203331",
      traceFlags: 1,
      traceState: createTraceState("vendor=1"),
    });
    const outer = propagation.setBaggage(trace.setSpan(context.active(), state), baggage);
    expect(context.with(outer, getCurrentTrace)).toEqual({
      traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
      tracestate: "vendor=1",
    });
  });

  test("carries nothing after one warning if a propagator throws, and returns its result", async () => {
    propagation.disable();
    propagation.setGlobalPropagator({
      inject: () => {
        throw new Error("out of order");
      },
      extract: (around) => around,
      fields: () => [],
    });
    expect(await metaOf(handMadeOverStdio("well").transport)).toEqual({});
    expect(await metaOf(handMadeOverStdio("well").transport)).toEqual({});
    expect(takeWarnings()).toEqual([
      "EspalierWarning: The propagator of OpenTelemetry threw (out of order). MCP servers get no trace context; tools are not affected.",
    ]);
  });
});
