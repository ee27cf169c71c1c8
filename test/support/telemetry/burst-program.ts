// A process whose spans all end at once: 1,000 agents, or the number in its second argument, with
// 20 spans each, below two spans of the run. `burst-program.ts default` leaves them to the defaults
// of the SDK, `burst-program.ts espalier` to `setUpNodeTracing`. The endpoint is in its
// environment. Prints one line after the burst, and one with the delivery counts after the
// shutdown.

import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";

import { setUpNodeTracing } from "../../../src/telemetry/node-setup.ts";
import { openTelemetry } from "../../../src/telemetry/otel.ts";
import { placeAll } from "./recorded-spans.ts";
import { wideRun } from "./wide-run.ts";

const [way, agents = "1000"] = process.argv.slice(2);
const { drafts } = wideRun(Number(agents), 18);
if (way === "default") {
  const provider = new NodeTracerProvider({
    spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
  });
  placeAll(openTelemetry({ tracer: provider.getTracer("burst") }), drafts);
  process.stdout.write("ended\n");
  await provider.shutdown();
  process.stdout.write("null\n");
} else {
  const node = setUpNodeTracing();
  placeAll(node.tracing, drafts);
  process.stdout.write("ended\n");
  process.stdout.write(`${JSON.stringify(await node.shutdown())}\n`);
}
