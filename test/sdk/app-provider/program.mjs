// SDK 2.x, set up by the application with an ExportQueue and protobuf.

import { trace } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { ExportQueue, openTelemetry } from "espalier/otel";

import { runSmallTree } from "./small-tree.mjs";

const queue = new ExportQueue({
  exporter: new OTLPTraceExporter(),
  processor: (exporter, settings) => new BatchSpanProcessor(exporter, settings),
});
const provider = new NodeTracerProvider({ spanProcessors: [queue] });
provider.register();
await runSmallTree(openTelemetry(), () => trace.getActiveSpan()?.spanContext().spanId);
await provider.shutdown();
