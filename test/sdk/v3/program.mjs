// SDK 3.x, set up by the application: it has no NodeTracerProvider, and a processor takes its
// exporter among its options.

import { context, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";
import { ExportQueue, openTelemetry, traceIdGenerator } from "espalier/otel";

import { runSmallTree } from "./small-tree.mjs";

const provider = new TracerProvider({
  resource: resourceFromAttributes({ "service.name": "v3" }),
  idGenerator: traceIdGenerator,
  spanProcessors: [
    new ExportQueue({
      exporter: new OTLPTraceExporter(),
      processor: (exporter, settings) => new BatchSpanProcessor({ exporter, ...settings }),
    }),
  ],
});
trace.setGlobalTracerProvider(provider);
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
await runSmallTree(openTelemetry(), () => trace.getActiveSpan()?.spanContext().spanId);
await provider.shutdown();
