// Goal: when more spans end at once than can wait, leaves are lost and the tree stands; every span is accounted for.
// Method: small queues, and an exporter that takes everything.

import {
  NodeTracerProvider,
  type ReadableSpan,
  type SpanExporter,
} from "@opentelemetry/sdk-trace-node";
import { expect, test } from "vitest";

import { openTelemetry } from "../../src/telemetry/otel.ts";
import { SpanDelivery } from "../../src/telemetry/span-delivery.ts";
import { takeWarnings } from "../harness/set-up.ts";
import { settled } from "../harness/run-scripted.ts";
import { placeAll } from "./recorded-spans.ts";
import { wideRun } from "./wide-run.ts";

test("a burst that no queue can hold loses leaves only, and the trace says how many", async () => {
  const taken: ReadableSpan[] = [];
  const exporter: SpanExporter = {
    export: (spans, done) => {
      taken.push(...spans);
      done({ code: 0 });
    },
    shutdown: () => Promise.resolve(),
  };
  const delivery = new SpanDelivery(exporter, { structure: 64, leaves: 20 });
  const provider = new NodeTracerProvider({ spanProcessors: [delivery] });
  const [agents, calls] = [10, 8];
  placeAll(openTelemetry({ tracer: provider.getTracer("test") }), wideRun(agents, calls).drafts);
  await delivery.shutdown();
  await settled();

  const { deliveredSpans, lostSpans, pendingSpans, lastError } = delivery.counts();
  expect([deliveredSpans + lostSpans, pendingSpans, lastError]).toEqual([
    2 + agents * (2 + calls),
    0,
    "20 spans were waiting",
  ]);
  expect(lostSpans).toBeGreaterThan(0);
  const known = new Set(taken.map((span) => span.spanContext().spanId));
  const structure = taken.filter((span) => /^invoke|SpawnSubagent/.test(span.name));
  expect(structure).toHaveLength(2 + 2 * agents);
  expect(
    taken.filter(({ parentSpanContext: parent }) => parent && !known.has(parent.spanId)),
  ).toEqual([]);
  const root = taken.find((span) => span.parentSpanContext === undefined);
  expect(root?.attributes["espalier.telemetry.dropped_spans"]).toBe(lostSpans);
  expect(takeWarnings()).toHaveLength(1);
});
