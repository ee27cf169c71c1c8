// The application has an older copy of the API than espalier: its SDK is not seen, and that is said.

import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { openTelemetry } from "espalier/otel";

import { runSmallTree } from "./small-tree.mjs";

const provider = new NodeTracerProvider({
  spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
});
provider.register();
await runSmallTree(openTelemetry());
await runSmallTree(openTelemetry());
await provider.shutdown();
