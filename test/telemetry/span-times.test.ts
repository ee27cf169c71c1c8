// Goal: no viewer finds a time at which to wonder: every span has a length, and lies within the one around it, whatever happened.
// Method: the golden runs as they reach an OTLP endpoint; what Jaeger 2.20 warns about is the law: an end that is not after its start
// (`negative_duration_santizer.go`), and a child that does not fit into its parent (`clockskew.go`).

import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { NodeTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-node";
import { describe, expect } from "vitest";

import { openTelemetry, runIdGenerator } from "../../src/telemetry/otel.ts";
import { proves } from "../harness/proves.ts";
import { OtlpSink } from "../support/otlp-sink.ts";
import { timeFaults } from "./span-times.ts";
import { SPAN_STORIES } from "./span-stories.ts";

describe.each(Object.entries(SPAN_STORIES))("%s", (_name, story) => {
  proves(["S7.31"], "every exported span lies within its parent, to the microsecond", async () => {
    await using sink = await OtlpSink.open();
    const exporter = new OTLPTraceExporter({ url: sink.tracesUrl });
    const provider = new NodeTracerProvider({
      spanProcessors: [new SimpleSpanProcessor(exporter)],
      idGenerator: runIdGenerator,
    });
    await story(() => openTelemetry({ tracer: provider.getTracer("espalier") }));
    await provider.forceFlush();
    expect(sink.spans.length).toBeGreaterThan(1);
    expect(timeFaults(sink.spans)).toEqual([]);
  });
});
