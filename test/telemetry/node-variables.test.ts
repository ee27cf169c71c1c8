// Goal: tracing goes by the variables that users of OpenTelemetry know; a slip in one of them is
// said once, with the name, and stops nothing; what the SDK tells only to itself is said, too.
// Method: stubbed environments, a loopback sink that takes JSON and protobuf, and servers that know
// nothing of OTLP.

import {
  context,
  createNoopMeter,
  diag,
  DiagLogLevel,
  propagation,
  trace,
  type DiagLogger,
  type Meter,
} from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { registeredApi } from "../../src/telemetry/spans/api-versions.ts";
import { setUpNodeTracing, type FlushReport } from "../../src/telemetry/node-setup.ts";
import { tracingVariables } from "../../src/telemetry/delivery/otel-variables.ts";
import { settled } from "../harness/run-scripted.ts";
import { takeWarnings } from "../harness/process-watch.ts";
import type { SinkSpan } from "../support/otlp-schema.ts";
import { OtlpSink } from "../support/otlp-sink.ts";
import { placeAll } from "./recorded-spans.ts";
import { RunScript } from "./run-script.ts";

let sink: OtlpSink;
beforeEach(async () => {
  sink = await OtlpSink.open();
  vi.stubEnv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.endpoint);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  trace.disable();
  context.disable();
  propagation.disable();
  diag.disable();
  await sink[Symbol.asyncDispose]();
});

async function traced(options = {}): Promise<FlushReport> {
  const node = setUpNodeTracing(options);
  placeAll(node.tracing, smallRun().drafts);
  return node.shutdown({ timeoutMs: 20_000 });
}

function smallRun(): RunScript {
  const run = new RunScript();
  run.started();
  run.root.lives();
  run.ended();
  return run;
}

const silent = (): void => {};

async function warnings(): Promise<readonly string[]> {
  await settled();
  return takeWarnings().map((warning) => warning.replace("EspalierWarning: ", ""));
}

const WHOLE: FlushReport = { deliveredSpans: 3, lostSpans: 0, pendingSpans: 0 };
const NOTHING: FlushReport = { deliveredSpans: 0, lostSpans: 0, pendingSpans: 0 };

test("JSON and protobuf, plain and gzip, say the same", async () => {
  for (const protocol of ["http/json", "http/protobuf"]) {
    for (const compression of ["none", "gzip"]) {
      vi.stubEnv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol);
      vi.stubEnv("OTEL_EXPORTER_OTLP_COMPRESSION", compression);
      expect(await traced({ serviceName: "same" })).toEqual(WHOLE);
    }
  }
  const ofEachQueue = sink.requests.filter((_request, at) => at % 2 === 0);
  expect(ofEachQueue.map(({ contentType, encoding }) => [contentType, encoding])).toEqual([
    ["application/json", undefined],
    ["application/json", "gzip"],
    ["application/x-protobuf", undefined],
    ["application/x-protobuf", "gzip"],
  ]);
  // The queues of one set-up come in any order, those of two never overlap.
  const ways = Array.from({ length: 4 }, (_value, at) =>
    sink.spans.slice(3 * at, 3 * at + 3).toSorted((left, right) => seqOf(left) - seqOf(right)),
  );
  const [json, ...others] = ways.map((spans) =>
    spans.map((span) => ({ ...span, traceId: "", spanId: "", parentSpanId: "", links: [] })),
  );
  expect(others).toEqual([json, json, json]);
});

function seqOf({ attributes }: SinkSpan): number {
  return Number(attributes["espalier.event.seq"]);
}

test("an exporter of one's own is used, and shut down", async () => {
  const exporter = new OTLPTraceExporter({ url: sink.tracesUrl });
  expect(await traced({ exporter })).toEqual(WHOLE);
  expect(new Set(sink.requests.map(({ contentType }) => contentType))).toEqual(
    new Set(["application/x-protobuf"]),
  );
});

test("an exporter beside an address is refused, and so is an address that is none", () => {
  const exporter = new OTLPTraceExporter();
  expect(() => setUpNodeTracing({ exporter, tracesUrl: "http://me:secr@t@host/v1?key=1" })).toThrow(
    'Expected tracesUrl to be left out beside an exporter, got "http://…@host/v1?…". ' +
      "Say the address to the exporter that you make.",
  );
  expect(() => setUpNodeTracing({ tracesUrl: "localhost:4318" })).toThrow(
    'Expected tracesUrl to be an address that begins with http:// or https://, got "localhost:4318". ' +
      "Say it with its path.",
  );
});

test("options that do not fit are refused by name, and nothing is registered", () => {
  const slip = { serviceName: "survey", servicename: "survey" };
  expect(() => setUpNodeTracing(slip)).toThrow(
    "Expected setUpNodeTracing.servicename to be one of serviceName, serviceNamePerRole, tracesUrl, exporter, clock, content, " +
      'maxSpansPerTrace, baggage, meter, legacyMetrics, got "servicename". Use serviceName.',
  );
  expect(() => setUpNodeTracing({ maxSpansPerTrace: -1 })).toThrow(/^Expected maxSpansPerTrace /);
  const { version: _version, ...registered } = registeredApi() ?? {};
  expect(registered).toEqual({});
});

test.each([
  ["OTEL_SDK_DISABLED", "TRUE"],
  ["OTEL_TRACES_EXPORTER", "none"],
  ["OTEL_TRACES_EXPORTER", " None "],
])("with %s=%s there are no spans, no SDK and no warning", async (name, value) => {
  vi.stubEnv(name, value);
  expect(await traced()).toEqual(NOTHING);
  expect([sink.requests, Reflect.get(trace.getTracerProvider(), "getDelegate")]).toEqual([
    [],
    expect.anything(),
  ]);
  expect(await warnings()).toEqual([]);
});

test.each([
  ["ALWAYS_OFF", "1", NOTHING],
  ["parentbased_always_off", "1", NOTHING],
  ["TraceIdRatio", "0", NOTHING],
  ["ParentBased_TraceIdRatio", "0", NOTHING],
  ["traceidratio", "1", WHOLE],
  ["parentbased_traceidratio", "1", WHOLE],
  ["Always_On", "0", WHOLE],
  ["parentbased_always_on", "0", WHOLE],
])("the sampler %s with %s is taken as it is meant", async (sampler, share, report) => {
  vi.stubEnv("OTEL_TRACES_SAMPLER", sampler);
  vi.stubEnv("OTEL_TRACES_SAMPLER_ARG", share);
  expect([await traced(), await warnings()]).toEqual([report, []]);
});

test("gRPC is not spoken, which is said, and spans arrive as JSON", async () => {
  vi.stubEnv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc");
  expect(await traced()).toEqual(WHOLE);
  expect(sink.requests[0]?.contentType).toBe("application/json");
  expect(await warnings()).toEqual([
    "Expected OTEL_EXPORTER_OTLP_PROTOCOL to be http/json or http/protobuf, got grpc. Spans leave as JSON " +
      "over HTTP, for which endpoints listen on port 4318. Hand an exporter for gRPC to setUpNodeTracing " +
      "as `exporter`.",
  ]);
});

test("a slip in the environment is said once, stops nothing, and shows no secret", async () => {
  const slips = {
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "me:secret@localhost:4318?key=secret",
    OTEL_TRACES_SAMPLER: "sometimes",
    OTEL_BSP_SCHEDULE_DELAY: "soon",
    OTEL_BSP_MAX_QUEUE_SIZE: "0",
    OTEL_EXPORTER_OTLP_TIMEOUT: "-1",
    OTEL_EXPORTER_OTLP_COMPRESSION: "zip",
    OTEL_EXPORTER_OTLP_PROTOCOL: "http",
    OTEL_TRACES_EXPORTER: "otlp,zipkin",
    OTEL_SPAN_EVENT_COUNT_LIMIT: "many",
    OTEL_SDK_DISABLED: "no",
    OTEL_BSP_EXPORT_TIMEOUT: "3000000000",
    OTEL_EXPORTER_OTLP_CERTIFICATE: "no/such/file.pem",
  };
  for (const [name, value] of Object.entries(slips)) vi.stubEnv(name, value);
  expect(await traced()).toEqual(WHOLE);
  const given = await warnings();
  expect(given.toSorted()).toEqual([
    'Expected OTEL_BSP_EXPORT_TIMEOUT to be a whole number from 1 to 2147000000, got "3000000000". ' +
      "The default is used.",
    'Expected OTEL_BSP_MAX_QUEUE_SIZE to be a whole number from 1 up, got "0". The default is used.',
    'Expected OTEL_BSP_SCHEDULE_DELAY to be a whole number from 0 to 2147000000, got "soon". The default is used.',
    'Expected OTEL_EXPORTER_OTLP_CERTIFICATE to be a file that can be read, got "no/such/file.pem". ' +
      "Spans leave without it.",
    'Expected OTEL_EXPORTER_OTLP_COMPRESSION to be one of gzip, none, got "zip". The default is used.',
    'Expected OTEL_EXPORTER_OTLP_PROTOCOL to be one of http/json, http/protobuf, grpc, got "http". ' +
      "Spans leave as JSON over HTTP.",
    'Expected OTEL_EXPORTER_OTLP_TIMEOUT to be a whole number from 1 to 2147000000, got "-1". The default ' +
      "is used.",
    "Expected OTEL_EXPORTER_OTLP_TRACES_ENDPOINT to be an address that begins with http:// or https://, " +
      'got "…@localhost:4318?…". The default is used.',
    'Expected OTEL_SDK_DISABLED to be one of true, false, got "no". Nothing is disabled.',
    'Expected OTEL_SPAN_EVENT_COUNT_LIMIT to be a whole number from 0 up, got "many". The default is used.',
    'Expected OTEL_TRACES_EXPORTER to be otlp or none, got "zipkin". Spans leave by OTLP. Hand another ' +
      "exporter to setUpNodeTracing as `exporter`.",
    "Expected OTEL_TRACES_SAMPLER to be one of always_on, always_off, traceidratio, parentbased_always_on, " +
      'parentbased_always_off, parentbased_traceidratio, got "sometimes". Every trace is taken.',
  ]);
  expect(await traced()).toEqual(WHOLE);
  expect(await warnings()).toEqual([]);
});

test.each([undefined, "", "half", "1.5", "-0.1", "NaN"])("a share of %j is none", (share) => {
  const variables = { OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: share };
  const got = share ? JSON.stringify(share) : "nothing";
  expect(tracingVariables(variables).warnings).toEqual([
    `Expected OTEL_TRACES_SAMPLER_ARG to be a number from 0 to 1, got ${got}. Every trace is taken.`,
  ]);
});

test("what fits is taken as it is, the word for traces before the word for all", () => {
  expect(
    tracingVariables({
      OTEL_EXPORTER_OTLP_ENDPOINT: "https://collector:4318/base/",
      OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
      OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: " HTTP/PROTOBUF ",
      OTEL_EXPORTER_OTLP_TRACES_COMPRESSION: "none",
      OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: "500",
      OTEL_EXPORTER_OTLP_TIMEOUT: "5000",
      OTEL_BSP_MAX_QUEUE_SIZE: "4096",
      OTEL_BSP_MAX_EXPORT_BATCH_SIZE: "128",
      OTEL_BSP_SCHEDULE_DELAY: "0",
      OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT: "1000",
      OTEL_TRACES_SAMPLER: "parentbased_traceidratio",
      OTEL_TRACES_SAMPLER_ARG: "0.25",
      OTEL_TRACES_EXPORTER: "otlp",
      OTEL_SDK_DISABLED: " ",
    }),
  ).toEqual({
    isDisabled: false,
    isExportOff: false,
    tracesUrl: "https://collector:4318/base/v1/traces",
    protocol: "http/protobuf",
    compression: "none",
    certificates: {},
    exportTimeoutMs: 500,
    batchTimeoutMs: undefined,
    maxQueueSize: 4_096,
    batchSize: 128,
    delayMs: 0,
    maxAttributeLength: 1_000,
    sampling: { sampler: "parentbased_traceidratio", share: 0.25 },
    warnings: [],
  });
});

test.each([
  [
    "not_found",
    "status 404 (Not Found) with a web page, so this does not look like an OTLP endpoint",
  ],
  ["page", "status 200 with a web page, so this does not look like an OTLP endpoint"],
  ["bad_request", "status 400 (Bad Request)"],
] as const)(
  "of a server that knows no OTLP (%s) the one warning says why, and where",
  async (mode, reason) => {
    await sink.setMode(mode);
    for (const protocol of ["http/json", "http/protobuf"]) {
      vi.stubEnv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol);
      expect(await traced()).toEqual({ ...NOTHING, lostSpans: 3, lastError: reason });
      expect(await warnings()).toEqual([
        `Expected the trace endpoint ${sink.tracesUrl} to take all spans, got: ${reason}. Traces have gaps; ` +
          "runs are not affected. Check the address (OTEL_EXPORTER_OTLP_ENDPOINT), and that it takes OTLP " +
          "over HTTP. Further losses are counted, without another warning.",
      ]);
    }
  },
);

test("what the SDK tells only to a logger is warned about once, and counted", async () => {
  const node = setUpNodeTracing();
  diag.error("the first\n  at somewhere");
  diag.warn("the second");
  diag.info("a word");
  placeAll(node.tracing, smallRun().drafts);
  expect(await node.shutdown({ timeoutMs: 20_000 })).toEqual({ ...WHOLE, sdkReports: 2 });
  diag.error("after the end");
  expect(await warnings()).toEqual([
    "OpenTelemetry reports: the first. Further reports are counted, without another warning. " +
      "See them all with diag.setLogger().",
  ]);
});

const createHistogram: Meter["createHistogram"] = (name) => {
  diag.warn("spoken early");
  return createNoopMeter().createHistogram(name);
};

test("what is said while tracing is set up is warned about, too", async () => {
  const meter: unknown = Object.create(createNoopMeter(), {
    createHistogram: { value: createHistogram },
  });
  expect(await traced({ meter })).toMatchObject({ deliveredSpans: 3 });
  expect(await warnings()).toEqual([
    expect.stringContaining("OpenTelemetry reports: spoken early."),
  ]);
});

/** A logger of an application, and what it was given. */
function listener(): { readonly told: unknown[]; readonly logger: DiagLogger } {
  const told: unknown[] = [];
  const tell = (...words: readonly unknown[]): unknown => told.push(...words);
  return {
    told,
    logger: { error: tell, warn: tell, info: silent, debug: silent, verbose: silent },
  };
}

test("a logger of the application gets everything as before, during and after", async () => {
  const { told, logger } = listener();
  diag.setLogger(logger, DiagLogLevel.ERROR);
  const node = setUpNodeTracing();
  diag.error("one");
  diag.warn("too quiet for its level");
  expect(await node.shutdown()).toEqual(NOTHING);
  diag.error("two");
  expect([told, await warnings()]).toEqual([["one", "two"], []]);
});

test("two set-ups at once leave no logger behind, whichever ends first", async () => {
  const [first, second] = [setUpNodeTracing(), setUpNodeTracing()];
  await first.shutdown();
  diag.error("between");
  const { sdkReports } = await second.shutdown();
  const { version: _version, ...registered } = registeredApi() ?? {};
  expect([sdkReports, "diag" in registered]).toEqual([1, false]);
  expect(await warnings()).toEqual([
    expect.stringContaining("no OpenTelemetry SDK in this process"),
    expect.stringContaining("OpenTelemetry reports: between."),
  ]);
});

test("a logger that the application sets later keeps its place after the end", async () => {
  const node = setUpNodeTracing();
  const { told, logger } = listener();
  diag.setLogger(logger, { suppressOverrideMessage: true });
  await node.shutdown();
  diag.error("two");
  expect(told).toEqual(["two"]);
});

test.each([true, false])(
  "what an endpoint refuses within a success is lost, also beside a logger of the application: %j",
  async (hasLogger) => {
    if (hasLogger) diag.setLogger(listener().logger, DiagLogLevel.ERROR);
    for (const protocol of ["http/json", "http/protobuf"]) {
      vi.stubEnv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol);
      await sink.setMode("partial");
      // Two requests, one for each queue.
      const lastError = "the endpoint refused them (too old)";
      expect(await traced()).toEqual({
        deliveredSpans: 1,
        lostSpans: 2,
        pendingSpans: 0,
        lastError,
      });
      await sink.setMode("page");
      expect(await traced()).toMatchObject({ deliveredSpans: 0, lostSpans: 3 });
    }
    expect((await warnings()).map((words) => /got: ([^.]*)/.exec(words)?.[1])).toEqual(
      Array.from({ length: 2 }, () => [
        "the endpoint refused them (too old)",
        "status 200 with a web page, so this does not look like an OTLP endpoint",
      ]).flat(),
    );
  },
);
