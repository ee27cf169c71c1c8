// Goal: tracing follows the standard variables of OpenTelemetry. A mistake in one of them is
// reported once by its name and stops nothing. Reports that the SDK only logs become warnings.
// Method: stubbed environments, a loopback sink for JSON and protobuf, and servers that do not
// speak OTLP.

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

import { findRegisteredApi } from "../../src/telemetry/spans/api-versions.ts";
import { setUpNodeTracing } from "../../src/telemetry/node-setup.ts";
import type { DeliveryCounts } from "../../src/telemetry/delivery/export-queue.ts";
import { readTracingVariables } from "../../src/telemetry/delivery/otel-variables.ts";
import { flushEventLoop } from "../harness/run-scripted.ts";
import { proves } from "../harness/proves.ts";
import { takeWarnings } from "../harness/process-watch.ts";
import { OtlpSink } from "../support/otlp-sink.ts";
import { outputWithout } from "../support/without-package.ts";
import { placeAll } from "../support/telemetry/recorded-spans.ts";
import { RunScript } from "../support/telemetry/run-script.ts";

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

async function traced(options = {}): Promise<DeliveryCounts> {
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
  await flushEventLoop();
  return takeWarnings().map((warning) => warning.replace("EspalierWarning: ", ""));
}

const WHOLE: DeliveryCounts = { deliveredSpans: 3, lostSpans: 0, pendingSpans: 0 };
const NOTHING: DeliveryCounts = { deliveredSpans: 0, lostSpans: 0, pendingSpans: 0 };

test("exports the same spans as JSON and protobuf, plain and compressed", async () => {
  for (const protocol of ["http/json", "http/protobuf"]) {
    for (const compression of ["none", "gzip"]) {
      vi.stubEnv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol);
      vi.stubEnv("OTEL_EXPORTER_OTLP_COMPRESSION", compression);
      expect(await traced({ serviceName: "same" })).toEqual(WHOLE);
    }
  }
  expect(sink.requests.map(({ contentType, encoding }) => [contentType, encoding])).toEqual([
    ["application/json", undefined],
    ["application/json", "gzip"],
    ["application/x-protobuf", undefined],
    ["application/x-protobuf", "gzip"],
  ]);
  const ways = Array.from({ length: 4 }, (_value, at) => sink.spans.slice(3 * at, 3 * at + 3));
  const [json, ...others] = ways.map((spans) =>
    spans.map((span) => ({ ...span, traceId: "", spanId: "", parentSpanId: "", links: [] })),
  );
  expect(others).toEqual([json, json, json]);
});

test("uses a custom exporter", async () => {
  const exporter = new OTLPTraceExporter({ url: sink.tracesUrl });
  expect(await traced({ exporter })).toEqual(WHOLE);
  expect(new Set(sink.requests.map(({ contentType }) => contentType))).toEqual(
    new Set(["application/x-protobuf"]),
  );
});

test("rejects an exporter beside an address, and an invalid address", () => {
  const exporter = new OTLPTraceExporter();
  expect(() => setUpNodeTracing({ exporter, tracesUrl: "http://me:secr@t@host/v1?key=1" })).toThrow(
    'Expected tracesUrl to be left out when exporter is set, got "http://…@host/v1?…". ' +
      "Set the address of the exporter that you create.",
  );
  expect(() => setUpNodeTracing({ tracesUrl: "localhost:4318" })).toThrow(
    'Expected tracesUrl to be a URL that begins with http:// or https://, got "localhost:4318". ' +
      "Include its path.",
  );
});

test("rejects invalid options by name and registers nothing", () => {
  const slip = { serviceName: "survey", servicename: "survey" };
  expect(() => setUpNodeTracing(slip)).toThrow(
    "Expected setUpNodeTracing.servicename to be one of serviceName, serviceNamePerRole, tracesUrl, exporter, clock, content, " +
      'maxSpansPerTrace, baggage, meter, legacyMetrics, got "servicename". Use serviceName.',
  );
  expect(() => setUpNodeTracing({ maxSpansPerTrace: -1 })).toThrow(/^Expected maxSpansPerTrace /);
  const { version: _version, ...registered } = findRegisteredApi() ?? {};
  expect(registered).toEqual({});
});

test.each([
  ["OTEL_SDK_DISABLED", "TRUE"],
  ["OTEL_TRACES_EXPORTER", "none"],
  ["OTEL_TRACES_EXPORTER", " None "],
])("exports no spans, registers no SDK and does not warn with %s=%s", async (name, value) => {
  vi.stubEnv(name, value);
  expect(await traced()).toEqual(NOTHING);
  expect([sink.requests, Reflect.get(trace.getTracerProvider(), "getDelegate")]).toEqual([
    [],
    expect.anything(),
  ]);
  expect(await warnings()).toEqual([]);
});

test.each([
  ["always_off", "1", NOTHING],
  ["parentbased_always_off", "1", NOTHING],
  ["traceidratio", "0", NOTHING],
  ["parentbased_traceidratio", "0", NOTHING],
  ["traceidratio", "1", WHOLE],
  ["parentbased_traceidratio", "1", WHOLE],
  ["always_on", "0", WHOLE],
  ["parentbased_always_on", "0", WHOLE],
])("applies the sampler %s with %s", async (sampler, share, report) => {
  vi.stubEnv("OTEL_TRACES_SAMPLER", sampler);
  vi.stubEnv("OTEL_TRACES_SAMPLER_ARG", share);
  expect([await traced(), await warnings()]).toEqual([report, []]);
});

test("warns that gRPC is not supported and exports JSON", async () => {
  vi.stubEnv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc");
  expect(await traced()).toEqual(WHOLE);
  expect(sink.requests[0]?.contentType).toBe("application/json");
  expect(await warnings()).toEqual([
    "Expected OTEL_EXPORTER_OTLP_PROTOCOL to be http/json or http/protobuf, got grpc. Spans are exported as JSON " +
      "over HTTP, for which endpoints listen on port 4318. Pass an exporter for gRPC to setUpNodeTracing " +
      "as `exporter`.",
  ]);
});

const reportWarning = (line: string): string =>
  `OpenTelemetry reports: ${line}. See all reports with diag.setLogger().`;

/** Reports about variables that only the SDK reads. */
const SDK_REPORTS = [
  "Configuration: OTEL_EXPORTER_OTLP_COMPRESSION is invalid, expected 'none' or 'gzip' (actual: 'zip')",
  "Failed to read root certificate file",
  'OTEL_TRACES_SAMPLER value "sometimes" invalid, defaulting to "parentbased_always_on".',
  "Unknown value 'many' for OTEL_SPAN_EVENT_COUNT_LIMIT, expected a number, using defaults",
].map((line) => reportWarning(line));

test("reports a mistake in the environment once, without secrets, and continues", async () => {
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
    'Expected OTEL_EXPORTER_OTLP_PROTOCOL to be one of http/json, http/protobuf, grpc, got "http". ' +
      "Spans are exported as JSON over HTTP.",
    'Expected OTEL_EXPORTER_OTLP_TIMEOUT to be a whole number from 1 to 2147000000, got "-1". The default ' +
      "is used.",
    "Expected OTEL_EXPORTER_OTLP_TRACES_ENDPOINT to be a URL that begins with http:// or https://, " +
      'got "…@localhost:4318?…". The default is used.',
    'Expected OTEL_SDK_DISABLED to be one of true, false, got "no". Nothing is disabled.',
    'Expected OTEL_TRACES_EXPORTER to be otlp or none, got "zipkin". Spans are exported by OTLP. Pass another ' +
      "exporter to setUpNodeTracing as `exporter`.",
    ...SDK_REPORTS,
  ]);
  expect(await traced()).toEqual(WHOLE);
  // The SDK reads its variables again in each set-up.
  expect((await warnings()).toSorted()).toEqual(SDK_REPORTS);
});

test.each(["", "half", "1.5", "-0.1", "NaN"])(
  "reports a sampling share of %j and samples every trace",
  async (share) => {
    vi.stubEnv("OTEL_TRACES_SAMPLER", "traceidratio");
    vi.stubEnv("OTEL_TRACES_SAMPLER_ARG", share);
    expect(await traced()).toEqual(WHOLE);
    expect((await warnings()).join()).toContain("OTEL_TRACES_SAMPLER_ARG");
  },
);

test("reads valid variables and prefers those for traces to those for all signals", () => {
  expect(
    readTracingVariables({
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
      OTEL_TRACES_EXPORTER: "otlp",
      OTEL_SDK_DISABLED: " ",
    }),
  ).toEqual({
    isDisabled: false,
    isExportOff: false,
    tracesUrl: "https://collector:4318/base/v1/traces",
    protocol: "http/protobuf",
    hasCompression: true,
    certificates: {},
    exportTimeoutMs: 500,
    batchTimeoutMs: undefined,
    maxQueueSize: 4_096,
    batchSize: 128,
    delayMs: 0,
    maxAttributeLength: 1_000,
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
  "explains in one warning why a server is not an OTLP endpoint, with its address (%s)",
  async (mode, reason) => {
    await sink.setMode(mode);
    for (const protocol of ["http/json", "http/protobuf"]) {
      vi.stubEnv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol);
      expect(await traced()).toEqual({ ...NOTHING, lostSpans: 3, lastError: reason });
      expect(await warnings()).toEqual([
        `Expected the trace endpoint ${sink.tracesUrl} to take all spans, got: ${reason}. Spans lost: 3. Traces ` +
          "have gaps; runs are not affected. Check the address (OTEL_EXPORTER_OTLP_ENDPOINT) and the headers " +
          "(OTEL_EXPORTER_OTLP_HEADERS), and that it takes OTLP over HTTP. Further losses are counted, without another warning.",
      ]);
    }
  },
);

test("turns each different report of the SDK into a warning while tracing is set up", async () => {
  const node = setUpNodeTracing();
  diag.error("the first\n  at somewhere");
  for (let time = 0; time < 20; time += 1) diag.warn("the second");
  diag.info("a word");
  placeAll(node.tracing, smallRun().drafts);
  expect(await node.shutdown({ timeoutMs: 20_000 })).toEqual(WHOLE);
  diag.error("after the end");
  expect(await warnings()).toEqual([reportWarning("the first"), reportWarning("the second")]);
});

test("limits a flood of reports of the SDK to ten warnings", async () => {
  const node = setUpNodeTracing();
  for (let time = 0; time < 1_000; time += 1) diag.warn(`report ${time}`);
  await node.shutdown();
  const first = Array.from({ length: 10 }, (_value, time) => reportWarning(`report ${time}`));
  expect(await warnings()).toEqual(first);
});

const createHistogram: Meter["createHistogram"] = (name) => {
  diag.warn("spoken early");
  return createNoopMeter().createHistogram(name);
};

test("warns of reports that the SDK makes during the set-up", async () => {
  const meter: unknown = Object.create(createNoopMeter(), {
    createHistogram: { value: createHistogram },
  });
  expect(await traced({ meter })).toMatchObject({ deliveredSpans: 3 });
  expect(await warnings()).toEqual([
    expect.stringContaining("OpenTelemetry reports: spoken early."),
  ]);
});

/** Creates a logger of an application, which records its messages. */
function listener(): { readonly told: unknown[]; readonly logger: DiagLogger } {
  const told: unknown[] = [];
  const tell = (...words: readonly unknown[]): unknown => told.push(...words);
  return {
    told,
    logger: { error: tell, warn: tell, info: silent, debug: silent, verbose: silent },
  };
}

test("passes all reports to a logger of the application, before and after the shutdown", async () => {
  const { told, logger } = listener();
  diag.setLogger(logger, DiagLogLevel.ERROR);
  const node = setUpNodeTracing();
  diag.error("one");
  diag.warn("too quiet for its level");
  expect(await node.shutdown()).toEqual(NOTHING);
  diag.error("two");
  expect([told, await warnings()]).toEqual([["one", "two"], []]);
});

test("leaves no logger behind after two concurrent set-ups", async () => {
  const [first, second] = [setUpNodeTracing(), setUpNodeTracing()];
  await first.shutdown();
  diag.error("between");
  await second.shutdown();
  const { version: _version, ...registered } = findRegisteredApi() ?? {};
  expect("diag" in registered).toBe(false);
  expect(await warnings()).toEqual([
    expect.stringContaining("no OpenTelemetry SDK in this process"),
    expect.stringContaining("OpenTelemetry reports: between."),
  ]);
});

test("leaves a logger in place that the application sets later", async () => {
  const node = setUpNodeTracing();
  const { told, logger } = listener();
  diag.setLogger(logger, { suppressOverrideMessage: true });
  await node.shutdown();
  diag.error("two");
  expect(told).toEqual(["two"]);
});

test("counts spans that an endpoint rejects in a successful response as lost", async () => {
  for (const protocol of ["http/json", "http/protobuf"]) {
    vi.stubEnv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol);
    await sink.setMode("partial");
    const lastError = "the endpoint refused them (too old)";
    expect(await traced()).toEqual({
      deliveredSpans: 2,
      lostSpans: 1,
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
});

proves(
  ["S7.35"],
  "works with a custom exporter if the OTLP exporter is not installed, and otherwise names the command",
  () => {
    const output = outputWithout(
      "@opentelemetry/exporter-trace-otlp-http",
      `import { InMemorySpanExporter } from "@opentelemetry/sdk-trace-node";
     import { setUpNodeTracing } from "./src/telemetry/node-setup.ts";
     const node = setUpNodeTracing({ exporter: new InMemorySpanExporter() });
     await node.shutdown();
     try { setUpNodeTracing(); } catch ({ code, message, data }) { console.log(JSON.stringify({ code, message, data })); }`,
    );
    expect(JSON.parse(output)).toEqual({
      code: "missing_package",
      message:
        "The package @opentelemetry/exporter-trace-otlp-http is not installed: without it, setUpNodeTracing needs the option exporter. Run: npm install @opentelemetry/exporter-trace-otlp-http.",
      data: { package: "@opentelemetry/exporter-trace-otlp-http" },
    });
  },
);
