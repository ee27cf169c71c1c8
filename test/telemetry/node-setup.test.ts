// Goal: one call exports all spans of a run to an OTLP endpoint. An endpoint that is down, hangs or
// is busy causes neither an error nor a longer wait than allowed, and every span is counted.
// Method: a loopback sink with fault modes, and a manual clock for time limits. The setup of all
// tests fails a test that leaves an unhandled rejection or an unexpected warning.

import { hostname } from "node:os";

import { trace } from "@opentelemetry/api";
import { defaultResource } from "@opentelemetry/resources";
import { InMemorySpanExporter } from "@opentelemetry/sdk-trace-node";
import { afterEach, expect, test, vi } from "vitest";

import { proves } from "../harness/proves.ts";
import { OWN_PACKAGE } from "../../src/kernel/own-package.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { setUpNodeTracing, type NodeTracing } from "../../src/telemetry/node-setup.ts";
import type { DeliveryCounts } from "../../src/telemetry/delivery/export-queue.ts";
import { takeWarnings } from "../harness/process-watch.ts";
import { OtlpSink } from "../support/otlp-sink.ts";
import { placeAll, treeOf } from "../support/telemetry/recorded-spans.ts";
import { RunScript } from "../support/telemetry/run-script.ts";
import { CANARY } from "../support/telemetry/run-script-facts.ts";
import { wideRun } from "../support/telemetry/wide-run.ts";

afterEach(() => vi.unstubAllEnvs());

test("exports all spans of a run in one trace, each below its parent", async () => {
  await using sink = await OtlpSink.open();
  const node = setUpNodeTracing({ tracesUrl: sink.tracesUrl });
  placeAll(node.tracing, delegatingRun().drafts);

  expect(await node.shutdown()).toEqual({ deliveredSpans: 6, lostSpans: 0, pendingSpans: 0 });
  expect([...sink.traces().values()].map(treeOf)).toEqual([
    `
invoke_workflow lead 0–210 outcome=completed
  invoke_agent lead 10–200 outcome=completed subtree.total_tokens=120
    chat model-1 40–50 usage.input_tokens=100
    spawn reader#1 70–190 outcome=succeeded spawn.outcome=completed tool.call.id=call_1
      invoke_agent reader#1 90–170 outcome=completed subtree.total_tokens=120
        chat model-1 120–130 usage.input_tokens=100
`.trim(),
  ]);
  expect(sink.bodies).not.toContain(CANARY);
});

proves(
  ["S7.35"],
  "reads endpoint and service name from the environment and reports process, host and version",
  async () => {
    await using sink = await OtlpSink.open();
    vi.stubEnv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.endpoint);
    vi.stubEnv("OTEL_SERVICE_NAME", "survey");
    await traceOneRun(setUpNodeTracing());
    vi.stubEnv("OTEL_SERVICE_NAME", "");
    await traceOneRun(setUpNodeTracing());
    await traceOneRun(setUpNodeTracing({ serviceName: "named" }));

    const { "service.name": _unknown, ...sdk } = defaultResource().attributes;
    const own = {
      "process.pid": process.pid,
      "process.runtime.name": "nodejs",
      "process.runtime.version": process.versions.node,
      "host.name": hostname(),
      "telemetry.distro.name": "espalier",
      "telemetry.distro.version": OWN_PACKAGE.version,
    };
    const roots = sink.spans.filter(({ parentSpanId }) => parentSpanId === undefined);
    expect(roots.map(({ resource }) => resource)).toEqual([
      { "service.name": "survey", ...own, ...sdk },
      { "service.name": "espalier", ...own, ...sdk },
      { "service.name": "named", ...own, ...sdk },
    ]);
  },
);

test("nests spans of instrumented libraries below its own through the global provider", async () => {
  await using sink = await OtlpSink.open();
  const node = setUpNodeTracing({ tracesUrl: sink.tracesUrl });
  const run = delegatingRun();
  const reply = run.drafts.findIndex(({ body }) => body.type === "model.replied");
  placeAll(node.tracing, run.drafts.slice(0, reply));
  await node.tracing.runInSpan(run.drafts[reply]?.scope ?? run.root.scope(), async () => {
    await Promise.resolve();
    trace
      .getTracer("http")
      .startSpan("POST", { startTime: [1, 0] })
      .end([1, 0]);
  });
  placeAll(node.tracing, run.drafts.slice(reply));
  await node.shutdown();

  const library = sink.spans.find((span) => span.name === "POST");
  const parent = sink.spans.find((span) => span.spanId === library?.parentSpanId);
  expect(parent?.name).toBe("chat model-1");
});

proves(["D672"], "limits the time of flush and shutdown and counts every span", async () => {
  vi.stubEnv("OTEL_EXPORTER_OTLP_TIMEOUT", "2000");
  await using refuse = await OtlpSink.open("refuse");
  await using unavailable = await OtlpSink.open("unavailable");
  await using hang = await OtlpSink.open("hang");

  const ends = await Promise.all([refuse, unavailable, hang].map(boundedEnds));

  const [refusal, busy, timeout] = [
    `given up after connect ECONNREFUSED ${new URL(refuse.endpoint).host}`,
    `given up after ${BUSY}`,
    "Request timed out",
  ];
  const lostSpans = (lastError: string): DeliveryCounts => ({
    deliveredSpans: 0,
    lostSpans: 12,
    pendingSpans: 0,
    lastError,
  });
  const ended = [
    lostSpans(refusal),
    lostSpans(busy),
    { ...lostSpans(timeout), lostSpans: 0, unconfirmedSpans: 12 },
  ];
  expect(ends).toEqual(
    ended.map((last) => [
      { deliveredSpans: 0, lostSpans: 0, pendingSpans: 6 },
      { deliveredSpans: 0, lostSpans: 0, pendingSpans: 12 },
      last,
    ]),
  );
  expect((await warningsGiven()).toSorted()).toEqual(
    [
      SECOND_SDK,
      warningOf(refuse, refusal, "Spans lost: 12."),
      warningOf(unavailable, busy, "Spans lost: 12.", CHECK_LOAD),
      warningOf(hang, timeout, "Spans that the endpoint may have stored: 12.", CHECK_TIMEOUT),
    ].toSorted(),
  );
});

test("exports the spans that end after an endpoint has recovered", async () => {
  vi.stubEnv("OTEL_EXPORTER_OTLP_TIMEOUT", "2000");
  await using sink = await OtlpSink.open("unavailable");
  const node = setUpNodeTracing({ tracesUrl: sink.tracesUrl });
  placeAll(node.tracing, delegatingRun().drafts);
  await node.flush({ timeoutMs: 20_000 });
  await sink.setMode("ok");
  placeAll(node.tracing, delegatingRun().drafts);
  expect(await node.shutdown()).toEqual({
    deliveredSpans: 6,
    lostSpans: 6,
    pendingSpans: 0,
    lastError: BUSY,
  });
  expect(await warningsGiven()).toEqual([warningOf(sink, BUSY, "Spans lost: 6.", CHECK_LOAD)]);
  expect(sink.spans.filter(({ parentSpanId }) => parentSpanId === undefined)).toMatchObject([
    { name: "invoke_workflow lead", attributes: { "espalier.telemetry.dropped_spans": 6 } },
  ]);
});

test("confirms no span to an endpoint whose answers never end, and frees the queue for others", async () => {
  await using sink = await OtlpSink.open("drip");
  vi.stubEnv("OTEL_EXPORTER_OTLP_TIMEOUT", "1000");
  vi.stubEnv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1");
  const node = setUpNodeTracing({ tracesUrl: sink.tracesUrl });
  for (let run = 0; run < 2; run += 1) placeAll(node.tracing, delegatingRun().drafts);
  const lastError = "given up after no answer within 2,000 ms";
  const counts = { lostSpans: 10, unconfirmedSpans: 2, pendingSpans: 0, lastError };
  const dripped = { deliveredSpans: 0, ...counts };
  expect(await node.flush({ timeoutMs: 20_000 })).toEqual(dripped);
  await sink.setMode("ok");
  placeAll(node.tracing, delegatingRun().drafts);
  expect(await node.shutdown({ timeoutMs: 20_000 })).toEqual({ ...dripped, deliveredSpans: 6 });
  const lost = "Spans lost: 10. Spans that the endpoint may have stored: 2.";
  expect(await warningsGiven()).toEqual([warningOf(sink, lastError, lost, CHECK_TIMEOUT)]);
});

test("warns of an invalid timeout and uses the default", async () => {
  const node = setUpNodeTracing({ exporter: new InMemorySpanExporter() });
  const nothing = { deliveredSpans: 0, lostSpans: 0, pendingSpans: 0 };
  const slips: readonly unknown[] = [null, 5, { timeoutMs: Number.NaN }, { timeoutMs: -1 }];
  for (const bounds of [...slips, { timeoutMs: Infinity }, { timeoutMs: "1" }])
    expect(await Reflect.apply(node.flush, undefined, [bounds])).toEqual(nothing);
  expect(await Reflect.apply(node.shutdown, undefined, [null])).toEqual(nothing);
  expect(await warningsGiven()).toEqual([
    "EspalierWarning: Expected flush and shutdown to be given { timeoutMs } with a number from 0 up, got null. " +
      "The default is used, 30000.",
  ]);
});

test("counts spans after the shutdown as lost", async () => {
  await using sink = await OtlpSink.open();
  const node = setUpNodeTracing({ tracesUrl: sink.tracesUrl });
  await node.shutdown();
  placeAll(node.tracing, delegatingRun().drafts);
  const lastError = "tracing was shut down before";
  const report = { deliveredSpans: 0, lostSpans: 6, pendingSpans: 0, lastError };
  expect([await node.flush(), await node.shutdown()]).toEqual([report, report]);
  const advice = "Shut tracing down when the last run has ended.";
  expect(await warningsGiven()).toEqual([warningOf(sink, lastError, "Spans lost: 6.", advice)]);
});

test("exports all spans of a burst that one default queue would lose", async () => {
  await using sink = await OtlpSink.open();
  const node = setUpNodeTracing({ tracesUrl: sink.tracesUrl });
  placeAll(node.tracing, wideRun(200, 18).drafts);
  expect(await node.shutdown({ timeoutMs: 25_000 })).toEqual({
    deliveredSpans: 2 + 200 * 20,
    lostSpans: 0,
    pendingSpans: 0,
  });
  expect(sink.orphans()).toEqual([]);
});

test("rejects invalid options by name", () => {
  expect(() => setUpNodeTracing({ serviceName: " " })).toThrow(
    'Expected serviceName to be a non-empty string, got " ". Pass some text.',
  );
});

/**
 * Returns the reports of a flush and a shutdown that the clock cuts off, then of a flush without a
 * limit.
 */
async function boundedEnds(sink: OtlpSink): Promise<readonly DeliveryCounts[]> {
  const clock = new ManualClock();
  const node = setUpNodeTracing({ tracesUrl: sink.tracesUrl, clock });
  placeAll(node.tracing, delegatingRun().drafts);
  const flushed = node.flush({ timeoutMs: 400 });
  clock.advance(400);
  const flushReport = await flushed;

  placeAll(node.tracing, delegatingRun().drafts);
  const closed = node.shutdown();
  clock.advance(30_000);
  const closeReport = await closed;

  const lastReport = await node.flush();
  expect(clock.pendingTimers).toBe(0);
  return [flushReport, closeReport, lastReport];
}

/** Node emits a warning in the tick after its cause. */
async function warningsGiven(): Promise<readonly string[]> {
  await new Promise((resolve) => setImmediate(resolve));
  return takeWarnings();
}

const SECOND_SDK =
  "EspalierWarning: Expected setUpNodeTracing to find no OpenTelemetry SDK in this process, got one that was " +
  "registered before. Spans of runs are exported nevertheless, but those of instrumented libraries go to the other " +
  "one. Use openTelemetry() beside an SDK of your own.";

const CHECK_ENDPOINT =
  "Check the address (OTEL_EXPORTER_OTLP_ENDPOINT) and the headers (OTEL_EXPORTER_OTLP_HEADERS), and " +
  "that it takes OTLP over HTTP.";

const BUSY = "the endpoint is busy (status 429, 502, 503 or 504)";
const CHECK_LOAD =
  "The endpoint is overloaded. Sample (OTEL_TRACES_SAMPLER), or give it more resources.";
const CHECK_TIMEOUT =
  "Check the address (OTEL_EXPORTER_OTLP_ENDPOINT), or allow more time (OTEL_EXPORTER_OTLP_TIMEOUT).";

function warningOf(
  sink: OtlpSink,
  reason: string,
  counts: string,
  advice = CHECK_ENDPOINT,
): string {
  return (
    `EspalierWarning: Expected the trace endpoint ${sink.tracesUrl} to take all spans, got: ${reason}. ` +
    `${counts} Traces have gaps; runs are not affected. ${advice} ` +
    "Further losses are counted, without another warning."
  );
}

async function traceOneRun(node: NodeTracing): Promise<void> {
  placeAll(node.tracing, delegatingRun().drafts);
  await node.shutdown();
}

function delegatingRun(): RunScript {
  const run = new RunScript();
  const lead = run.root;
  const reader = lead.child("reader");
  run.started();
  lead.started();
  lead.asks();
  lead.hears();
  lead.calls("call_1", "SpawnSubagent", "delegation");
  lead.spawns("call_1", reader);
  reader.lives("call_1");
  lead.hearsOfEnd("call_1", reader, "completed");
  lead.gets("call_1", "SpawnSubagent");
  lead.ended();
  run.ended("completed", 1);
  return run;
}
