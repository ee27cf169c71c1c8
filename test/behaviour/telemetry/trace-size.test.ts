// Goal (S7.32): a tree of any size is shown in few traces, none of which is too large for a viewer.
// A run that fits is in one trace.
// Method: handwritten runs are exported with the default options. The traces are counted, and each
// is checked for gaps and for times that a viewer warns of.

import {
  InMemorySpanExporter,
  NodeTracerProvider,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-node";
import { describe, expect, test } from "vitest";

import { openTelemetry, traceIdGenerator } from "../../../src/telemetry/otel.ts";
import { proves } from "../../harness/proves.ts";
import { placeAll, recorded, type RecordedSpan } from "../../support/telemetry/recorded-spans.ts";
import { RunScript } from "../../support/telemetry/run-script.ts";
import { timeFaults } from "../../support/telemetry/span-times.ts";
import { crowd, wideRun } from "../../support/telemetry/wide-run.ts";

const MAX = 5_000;

interface Shown {
  readonly spans: readonly RecordedSpan[];
  readonly traces: readonly (readonly RecordedSpan[])[];
  readonly sizes: readonly number[];
}

/**
 * Exports a run with the default options. Ids are the provider's own, or derived from the events.
 */
function shown({ drafts }: RunScript, idGenerator?: typeof traceIdGenerator): Shown {
  const exporter = new InMemorySpanExporter();
  const provider = new NodeTracerProvider({
    spanProcessors: [new SimpleSpanProcessor(exporter)],
    ...(idGenerator === undefined ? {} : { idGenerator }),
  });
  const ids = placeAll(openTelemetry({ tracer: provider.getTracer("test") }), drafts);
  const spans = exporter.getFinishedSpans().map(recorded);
  const known = new Set(spans.map(({ traceId, spanId }) => `${traceId} ${spanId}`));
  expect(ids.filter(({ traceId, spanId }) => !known.has(`${traceId} ${spanId}`))).toEqual([]);
  const orphans = spans.filter(
    ({ traceId, parentSpanId }) =>
      parentSpanId !== undefined && !known.has(`${traceId} ${parentSpanId}`),
  );
  expect(orphans).toEqual([]);
  expect(timeFaults(spans)).toEqual([]);
  const traces = [...Map.groupBy(spans, ({ traceId }) => traceId).values()];
  for (const own of traces)
    expect(own.filter(({ parentSpanId }) => parentSpanId === undefined)).toHaveLength(1);
  return { spans, traces, sizes: traces.map(({ length }) => length) };
}

describe("a thousand agents that were spawned in one reply", () => {
  proves(["S7.32"], "make at most ten traces with 35 spans each, none above its size", () => {
    const { spans, traces, sizes } = shown(crowd(1_000, 16), traceIdGenerator);
    expect(spans.length).toBeGreaterThan(35_000);
    expect(sizes.length).toBeLessThanOrEqual(10);
    // A step that began within the limit ends in the same trace.
    expect(Math.max(...sizes)).toBeLessThanOrEqual(MAX + 1_000);
    const placesOf = Map.groupBy(
      spans.filter(({ name }) => name.startsWith("invoke_agent reader")),
      ({ name }) => name,
    );
    expect(placesOf.size).toBe(1_000);
    expect(Math.max(...[...placesOf.values()].map(({ length }) => length))).toBe(2);
    expect(traces.map(([last]) => last?.attributes["espalier.run.id"])).toEqual(
      traces.map(() => "run_1"),
    );
  });

  proves(["S7.32"], "make at most ten traces with the provider's own ids", () => {
    expect(shown(crowd(1_000, 16)).sizes.length).toBeLessThanOrEqual(10);
  });

  proves(["S7.32"], "make one trace if each of them does little", () => {
    expect(shown(crowd(1_000, 0)).sizes).toEqual([4 + 3 * 1_000]);
    expect(shown(crowd(999, 1)).sizes).toEqual([4 + 5 * 999]);
  });
});

proves(["S7.32"], "shares traces between small agents that follow each other", () => {
  const { sizes, spans } = shown(wideRun(1_000, 17), traceIdGenerator);
  expect(spans.length).toBeGreaterThan(19_000);
  expect(sizes.length).toBeLessThanOrEqual(5);
  // The calls of one reply stay together.
  expect(Math.max(...sizes)).toBeLessThanOrEqual(MAX + 1_000);
});

test("splits an agent that works for long into as many traces as it fills, linked one to the next", () => {
  const { sizes, spans } = shown(crowd(1, 6_000), traceIdGenerator);
  expect(sizes.length).toBe(3);
  const places = spans
    .filter(({ name }) => name === "invoke_agent reader#1")
    .toSorted((left, right) => left.startUs - right.startUs);
  expect(places.map(({ links }) => links.map(({ spanId }) => spanId))).toEqual(
    places.map((_, index) =>
      [places[index - 1], places[index + 1]].flatMap((other) => other?.spanId ?? []),
    ),
  );
  expect(places.map(({ attributes }) => attributes["espalier.outcome"])).toEqual(
    places.map(() => "completed"),
  );
});

proves(["S7.35"], "shows the outcome of an agent in each of its traces", () => {
  for (const [outcome, name, shownStatus] of [
    ["stopped", "invoke_agent lead (stopped)", "UNSET"],
    ["failed", "invoke_agent lead", "ERROR"],
  ] as const) {
    const run = new RunScript();
    run.started();
    run.root.started();
    for (let step = 0; step < MAX; step += 1) {
      run.root.asks();
      run.root.hears();
    }
    run.root.ended(outcome);
    run.ended(outcome);
    const { spans } = shown(run, traceIdGenerator);
    const places = spans.filter((span) => span.name.startsWith("invoke_agent lead"));
    expect(places.map((span) => [span.name, span.status])).toEqual(
      [1, 2].map(() => [name, shownStatus]),
    );
  }
});

proves(
  ["S7.32"],
  "shows a wait of more than 10 ms as a span with the name of the waiting part",
  () => {
    const run = new RunScript();
    run.started();
    run.root.started();
    for (const queuedMs of [10, 11]) {
      const callId = `call_${queuedMs}`;
      run.root.asks({ waitedMs: queuedMs });
      run.root.hears({ queuedMs });
      run.root.calls(callId, "search");
      run.root.gets(callId, "search", { queuedMs });
    }
    run.root.ended();
    run.ended();
    const waits = shown(run).spans.filter(({ name }) => name.startsWith("queue_wait"));
    expect(
      waits.map(({ name, attributes }) => [
        name,
        attributes["espalier.queue.wait_ms"],
        attributes["gen_ai.tool.name"],
      ]),
    ).toEqual([
      ["queue_wait budget", 11, undefined],
      ["queue_wait model-1", 11, undefined],
      ["queue_wait search", 11, "search"],
    ]);
  },
);

proves(["D628"], "shows the wait of the first attempt for a model call, as the viewer does", () => {
  const run = new RunScript();
  run.started();
  run.root.started();
  run.root.asks({ queuedMs: 20 });
  run.root.retries(10);
  run.root.hears({ attemptCount: 2, queuedMs: 65 });
  run.root.ended();
  run.ended();
  const { spans } = shown(run);
  const rows = spans.filter(({ name }) => name.startsWith("queue_wait"));
  expect(rows.map(({ attributes }) => attributes["espalier.queue.wait_ms"])).toEqual([20]);
});
