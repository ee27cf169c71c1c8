// An application with its own OpenTelemetry SDK 2.x: spans pass through a queue that loses none, spans of
// instrumented libraries are below their tool, and metrics go to the registered provider.

import assert from "node:assert/strict";
import { createServer } from "node:http";

import { metrics, trace } from "@opentelemetry/api";
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";

import { defineAgent, defineTool, Orchestrator } from "espalier";
import { ExportQueue, openTelemetry, traceIdGenerator } from "espalier/otel";
import { asks, says, ScriptedModel } from "espalier/testing";
import { z } from "zod";

// An endpoint that keeps what it takes. Yours is Jaeger, or a collector.
const received: string[] = [];
const endpoint = createServer((request, response) => {
  request.setEncoding("utf8").on("data", (text: string) => received.push(text));
  request.on("end", () => response.end("{}"));
}).listen(0, "127.0.0.1");
await new Promise((resolve) => endpoint.once("listening", resolve));
const address = endpoint.address();
assert(typeof address === "object" && address !== null);
process.env["OTEL_EXPORTER_OTLP_ENDPOINT"] = `http://127.0.0.1:${address.port}`;

const queue = new ExportQueue({
  exporter: new OTLPTraceExporter(),
  processor: (exporter, settings) => new BatchSpanProcessor(exporter, settings),
});
const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({ "service.name": "survey" }),
  spanProcessors: [queue],
  idGenerator: traceIdGenerator,
});
// register() installs a context manager, which instrumented libraries need.
provider.register();
const orchestrator = new Orchestrator({ tracing: openTelemetry() });

// Keeps the metrics in memory. Yours is the OTLPMetricExporter of OpenTelemetry, for example.
const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);

// espalier finds the registered provider when a run starts.
const reader = new PeriodicExportingMetricReader({ exporter });
metrics.setGlobalMeterProvider(new MeterProvider({ readers: [reader] }));

// A call of an instrumented library, which knows nothing of runs.
const fetched = (page: string): string => {
  trace.getTracer("http").startSpan(`GET ${page}`).end();
  return "An espalier is a tree trained to grow within a frame.";
};
const look = defineTool({
  name: "look_up",
  description: "Reads a page.",
  inputSchema: z.object({ page: z.string() }),
  execute: async ({ page }) => {
    await Promise.resolve();
    return fetched(page);
  },
});
const role = defineAgent({
  name: "gardener",
  instructions: "Answer in a sentence.",
  model: new ScriptedModel([asks("look_up", { page: "/espalier" }), says("A trained tree.")]),
  tools: [look],
});

const budget = { totalTokens: 10_000 };
const { status } = await orchestrator.start(role, "What is an espalier?", { budget }).result;
await provider.shutdown();
await reader.forceFlush();
endpoint.close();

assert.equal(status, "completed");
assert.deepEqual(queue.getCounts(), { deliveredSpans: 6, lostSpans: 0, pendingSpans: 0 });
const SentSchema = z.object({
  resourceSpans: z.array(
    z.object({
      scopeSpans: z.array(
        z.object({
          spans: z.array(
            z.object({
              name: z.string(),
              spanId: z.string(),
              traceId: z.string(),
              parentSpanId: z.string().optional(),
            }),
          ),
        }),
      ),
    }),
  ),
});
const spans = received
  .flatMap((text) => SentSchema.parse(JSON.parse(text)).resourceSpans)
  .flatMap(({ scopeSpans }) => scopeSpans.flatMap((scope) => scope.spans));
const request = spans.find(({ name }) => name === "GET /espalier");
const above = spans.find(({ spanId }) => spanId === request?.parentSpanId);
assert.deepEqual([above?.name, above?.traceId], ["execute_tool look_up", request?.traceId]);

const measured = exporter
  .getMetrics()
  .flatMap(({ scopeMetrics }) => scopeMetrics)
  .flatMap((scope) => scope.metrics.map(({ descriptor }) => descriptor.name));
assert(measured.includes("gen_ai.client.inference.duration"));
await reader.shutdown();
console.log(`${spans.length} spans delivered, with that of a library below its tool.`);
