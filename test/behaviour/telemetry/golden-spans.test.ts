// Goal: the spans of whole runs match the golden files, in an exporter and at an OTLP endpoint.
// Method: real runs on a manual clock, with ids derived from the event log. Every story runs in
// memory, over OTLP as JSON and as protobuf, and twice, and is compared with one golden file.

import { OTLPTraceExporter as JsonExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { OTLPTraceExporter as ProtobufExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import {
  InMemorySpanExporter,
  NodeTracerProvider,
  SimpleSpanProcessor,
  type SpanExporter,
} from "@opentelemetry/sdk-trace-node";
import { afterEach, describe, expect, test, vi } from "vitest";

import { openTelemetry, traceIdGenerator } from "../../../src/telemetry/otel.ts";
import { proves } from "../../harness/proves.ts";
import { checkGolden } from "../../support/golden-files.ts";
import { goldenSpans } from "../../support/golden-spans.ts";
import { OtlpSink } from "../../support/otlp-sink.ts";
import { recorded, type RecordedSpan } from "../../support/telemetry/recorded-spans.ts";
import { SPAN_STORIES, type NewTracing } from "../../support/telemetry/span-stories.ts";

type Story = (newTracing: NewTracing) => Promise<void>;

async function told(story: Story, exporter: SpanExporter): Promise<void> {
  const provider = new NodeTracerProvider({
    spanProcessors: [new SimpleSpanProcessor(exporter)],
    idGenerator: traceIdGenerator,
  });
  await story(() => openTelemetry({ tracer: provider.getTracer("espalier") }));
  await provider.forceFlush();
}

async function inMemory(story: Story): Promise<readonly RecordedSpan[]> {
  const exporter = new InMemorySpanExporter();
  await told(story, exporter);
  return exporter.getFinishedSpans().map(recorded);
}

interface Wire {
  readonly form: string;
  readonly compression: "none" | "gzip";
  readonly exporterTo: (url: string) => SpanExporter;
}

const WIRES: readonly Wire[] = [
  { form: "json", compression: "none", exporterTo: (url) => new JsonExporter({ url }) },
  { form: "x-protobuf", compression: "gzip", exporterTo: (url) => new ProtobufExporter({ url }) },
];

afterEach(() => vi.unstubAllEnvs());

describe.each(Object.entries(SPAN_STORIES))("the spans of the story %s", (name, story) => {
  proves(["R178"], `match the golden spans of ${name}`, async () => {
    checkGolden(`spans/${name}`, goldenSpans(await inMemory(story)));
  });

  test("are the same every time, including their ids", async () => {
    expect(byId(await inMemory(story))).toEqual(byId(await inMemory(story)));
  });

  test.each(WIRES)("arrive over OTLP as $form, compressed by $compression", async (wire) => {
    const { form, compression, exporterTo } = wire;
    vi.stubEnv("OTEL_EXPORTER_OTLP_COMPRESSION", compression);
    await using sink = await OtlpSink.open();
    await told(story, exporterTo(sink.tracesUrl));
    checkGolden(`spans/${name}`, goldenSpans(sink.spans));
    const [request] = sink.requests;
    const encoding = compression === "none" ? undefined : compression;
    expect(request).toMatchObject({ contentType: `application/${form}`, encoding });
  });
});

function byId(spans: readonly RecordedSpan[]): readonly RecordedSpan[] {
  return spans.toSorted((left, right) => (left.spanId < right.spanId ? -1 : 1));
}
