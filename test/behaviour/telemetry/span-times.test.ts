// Goal: no viewer finds an invalid time: every span has a length and lies within its parent,
// whatever happened.
// Method: the golden runs as they reach an OTLP endpoint, with a clock that stands still in between
// and with one that always ticks. The checks are the warnings of Jaeger 2.20: an end that is not
// after its start (`negative_duration_santizer.go`), and a child that does not fit into its parent
// (`clockskew.go`).

import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { NodeTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-node";
import { describe, expect } from "vitest";

import { openTelemetry, traceIdGenerator } from "../../../src/telemetry/otel.ts";
import { proves } from "../../harness/proves.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import type { EspalierEvent } from "../../../src/protocol/event.ts";
import type { Tracing } from "../../../src/protocol/tracing.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import type { SinkSpan } from "../../support/otlp-schema.ts";
import { OtlpSink } from "../../support/otlp-sink.ts";
import { TickingClock } from "../../support/ticking-clock.ts";
import { calls, part, tool, use } from "../../harness/scripted-agents.ts";
import { timeFaults } from "../../support/telemetry/span-times.ts";
import { SPAN_STORIES } from "../../support/telemetry/span-stories.ts";

/** Returns the spans of some runs, as they reach an endpoint. */
async function exported(
  work: (newTracing: () => Tracing) => Promise<unknown>,
): Promise<readonly SinkSpan[]> {
  await using sink = await OtlpSink.open();
  const exporter = new OTLPTraceExporter({ url: sink.tracesUrl });
  const provider = new NodeTracerProvider({
    spanProcessors: [new SimpleSpanProcessor(exporter)],
    idGenerator: traceIdGenerator,
  });
  await work(() => openTelemetry({ tracer: provider.getTracer("espalier") }));
  await provider.forceFlush();
  return sink.spans;
}

describe.each(Object.entries(SPAN_STORIES))("the spans of the story %s", (_name, story) => {
  proves(["S7.31"], "lie within their parents at an endpoint, to the microsecond", async () => {
    const spans = await exported((newTracing) => story(newTracing));
    expect(spans.length).toBeGreaterThan(1);
    expect(timeFaults(spans)).toEqual([]);
  });

  proves(["S7.31"], "lie within their parents with a clock that always ticks", async () => {
    const spans = await exported((newTracing) =>
      story(newTracing, (startMs) => new TickingClock(startMs)),
    );
    expect(spans.length).toBeGreaterThan(1);
    expect(timeFaults(spans)).toEqual([]);
  });
});

describe("a tool that takes 0.3 ms", () => {
  // A year in which a millisecond is known to a quarter of a microsecond.
  const START_MS = Date.UTC(2026, 10, 23);

  proves(
    ["S7.31"],
    "has a span of 300 µs within its parent, while durations are whole milliseconds",
    async () => {
      const clock = new ManualClock(START_MS);
      const passes = (ms: number) => (): string => {
        clock.advance(ms);
        return "done";
      };
      const tools = [tool("quick", passes(0.3)), tool("slow", passes(1.9))];
      const replies = [calls(use("quick")), calls(use("slow")), says("Done.")];
      const { role } = part("lead", replies, { tools });
      // The run itself also takes time between two events.
      const take = ({ type }: EspalierEvent): void => {
        if (type !== "tool.started") clock.advance(0.05);
      };
      const events: EspalierEvent[] = [];
      const results: RunResult[] = [];
      const spans = await exported(async (newTracing) => {
        const fixture = newFixture({ clock, tracing: newTracing(), sinks: [{ emit: take }] });
        results.push(await fixture.run(role));
        events.push(...fixture.sink.events);
      });

      expect(timeFaults(spans)).toEqual([]);
      const tooled = spans.filter(({ name }) => name.startsWith("execute_tool"));
      expect(tooled.map(({ name, startUs, endUs }) => [name, endUs - startUs])).toEqual([
        ["execute_tool quick", 300],
        ["execute_tool slow", 1_900],
      ]);
      const stamps = events.flatMap(({ type, atMs }) => (type.startsWith("tool.") ? [atMs] : []));
      expect(stamps.map((atMs) => Math.round(atMs * 1_000))).toEqual(
        tooled.flatMap(({ startUs, endUs }) => [startUs, endUs]),
      );
      const told = events.flatMap((event) => ("durationMs" in event ? [event.durationMs] : []));
      const [result] = results;
      const agents = result?.agents.map(({ durationMs }) => durationMs) ?? [];
      const durations = [...told, ...agents, result?.durationMs];
      expect(durations).toHaveLength(6);
      expect(durations.filter((durationMs) => !Number.isInteger(durationMs))).toEqual([]);
    },
  );
});
