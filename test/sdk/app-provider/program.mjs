// SDK 2.x, set up by the application with two queues and protobuf.

import { trace } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { openTelemetry, exportQueues } from "espalier/otel";

import { runSmallTree } from "./small-tree.mjs";

const queues = exportQueues({
  exporter: new OTLPTraceExporter(),
  processor: (exporter, settings) => new BatchSpanProcessor(exporter, settings),
});
const provider = new NodeTracerProvider({ spanProcessors: [queues] });
provider.register();
await runSmallTree(openTelemetry(), () => trace.getActiveSpan()?.spanContext().spanId);
await provider.shutdown();
