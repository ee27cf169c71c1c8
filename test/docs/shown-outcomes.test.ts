// Goal (S7.35): a span shows its outcome as the table of docs/jaeger.md describes.
// Method: read the table; export the golden stories and a hand-made run for the other outcomes;
// compare span by span.

import { readFileSync } from "node:fs";

import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { NodeTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-node";
import { expect, test } from "vitest";

import { SHOWN_AS } from "../../src/telemetry/gen-ai-attributes.ts";
import { openTelemetry, traceIdGenerator } from "../../src/telemetry/otel.ts";
import { proves } from "../harness/proves.ts";
import { OtlpSink } from "../support/otlp-sink.ts";
import { placeAll } from "../support/telemetry/recorded-spans.ts";
import { RunScript } from "../support/telemetry/run-script.ts";
import { SPAN_STORIES } from "../support/telemetry/span-stories.ts";

interface Row {
  readonly status: string;
  readonly suffix: string;
}

function table(): ReadonlyMap<string, Row> {
  const text = readFileSync("docs/jaeger.md", "utf8");
  const [, section = ""] = text.split("### Outcomes");
  const rows = [...section.matchAll(/^\| `(\w+)`\s+\|[^|]*\|\s*(\w+)\s*\|\s*`?(.*?)`?\s*\|$/gm)];
  return new Map(
    rows.map(([, outcome = "", status = "", suffix = ""]) => [
      outcome,
      { status: status.toUpperCase(), suffix },
    ]),
  );
}

/** The outcomes that the stories lack. */
function others(): RunScript {
  const run = new RunScript();
  const lead = run.root;
  run.started();
  lead.started();
  lead.asksLeave("call_1", "write");
  lead.isAnswered("call_1", "write", { answer: "denied" });
  lead.calls("call_2", "write");
  lead.gets("call_2", "write", { outcome: "not_executed", code: "not_executed" });
  lead.calls("call_3", "write");
  lead.gets("call_3", "write", { outcome: "cancelled", code: "cancelled" });
  lead.calls("call_4", "write");
  lead.ended("stopped");
  run.ended("stopped");
  return run;
}

proves(["S7.35"], "shows the outcome of every exported span as in the table", async () => {
  await using sink = await OtlpSink.open();
  const provider = new NodeTracerProvider({
    spanProcessors: [new SimpleSpanProcessor(new OTLPTraceExporter({ url: sink.tracesUrl }))],
    idGenerator: traceIdGenerator,
  });
  const newTracing = () => openTelemetry({ tracer: provider.getTracer("espalier") });
  for (const story of Object.values(SPAN_STORIES)) {
    await story(newTracing);
    await provider.forceFlush();
  }
  placeAll(newTracing(), others().drafts);
  await provider.forceFlush();

  const rows = table();
  const seen = new Set<string>();
  for (const { name, status, attributes } of sink.spans) {
    const { "espalier.outcome": ended, "espalier.approval.decision": decision } = attributes;
    const outcome = decision === "denied" ? decision : ended;
    if (typeof outcome !== "string") {
      expect([name, status]).toEqual([name.replace(/ \(.*\)$/, ""), "UNSET"]);
      continue;
    }
    seen.add(outcome);
    const [, suffix = ""] = / (\(\w+\))$/.exec(name) ?? [];
    expect({ outcome, status, suffix }, name).toEqual({ outcome, ...rows.get(outcome) });
  }
  expect(seen).toEqual(new Set(rows.keys()));
});

test("lists every outcome in the table", () => {
  expect(new Set(table().keys())).toEqual(new Set(Object.keys(SHOWN_AS)));
});
