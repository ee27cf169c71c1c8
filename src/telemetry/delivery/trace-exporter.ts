// The exporter that `setUpNodeTracing` makes: OTLP over HTTP, by options and environment.

import type { Agent } from "node:http";
import { createRequire } from "node:module";

import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";

import { withoutSecrets } from "../../kernel/address.ts";
import type { AnySpanExporter, AnyExportResult } from "./any-sdk.ts";
import { boundedAgent } from "./bounded-agent.ts";
import { NO_OTLP } from "./loss.ts";
import type { SdkDiagnostics, SdkRemark } from "./sdk-diagnostics.ts";
import { warnOfVariable, type TracingVariables } from "./otel-variables.ts";

/** An exporter, and its description. */
export interface TraceExporter {
  readonly exporter: AnySpanExporter;
  readonly endpoint?: string;
  /** Within which it answers, with its retries. */
  readonly exportTimeoutMs?: number;
}

const DEFAULT_URL = "http://localhost:4318/v1/traces";
/** The default of the OpenTelemetry specification. */
const EXPORT_TIMEOUT_MS = 10_000;

const PROTOBUF_PACKAGE = "@opentelemetry/exporter-trace-otlp-proto";
const PROTOBUF_MISSING =
  `Expected ${PROTOBUF_PACKAGE} to be installed, since OTEL_EXPORTER_OTLP_PROTOCOL is http/protobuf. ` +
  `Spans leave as JSON, which every OTLP endpoint takes, too. npm install ${PROTOBUF_PACKAGE}@^0.223.1`;
const GRPC_UNKNOWN =
  "Expected OTEL_EXPORTER_OTLP_PROTOCOL to be http/json or http/protobuf, got grpc. Spans leave as JSON over " +
  "HTTP, for which endpoints listen on port 4318. Hand an exporter for gRPC to setUpNodeTracing as `exporter`.";

/** Beyond the timeout that the exporter gets, which bounds an attempt without an answer: for the answer of the last one. */
const GRACE_MS = 1_000;
/** Then the exporter knows that its spans are lost, and takes a broken connection for nothing else. */
const CLOSING_MS = 100;

/** `url`: with its path; wins over the environment. */
export function traceExporter(url: string | undefined, variables: TracingVariables): TraceExporter {
  const address = url ?? variables.tracesUrl ?? DEFAULT_URL;
  const Exporter = exporterFor(variables);
  const compression = variables.compression ?? defaultCompression(address);
  const timeoutMillis = variables.exportTimeoutMs ?? EXPORT_TIMEOUT_MS;
  const exportTimeoutMs = timeoutMillis + GRACE_MS;
  let agent: Agent | undefined;
  const exporter: AnySpanExporter = new Exporter({
    url: address,
    ...(isAlgorithm(compression) ? { compression } : {}),
    timeoutMillis,
    httpAgentOptions: (protocol) => {
      const options = { keepAlive: true, ...variables.certificates };
      return (agent = boundedAgent(protocol, exportTimeoutMs + CLOSING_MS, options));
    },
  });
  const shutDown = exporter.shutdown.bind(exporter);
  exporter.shutdown = async () => {
    await shutDown();
    agent?.destroy();
  };
  return { exporter, endpoint: withoutSecrets(address), exportTimeoutMs };
}

/**
 * Turns successes into what they are: the SDK takes every answer of status 200 for a success, and
 * gives only to a logger, just before, what was wrong with it.
 */
export function doubting(exporter: AnySpanExporter, diagnostics: SdkDiagnostics): AnySpanExporter {
  return {
    export: (spans, done) =>
      exporter.export(spans, (result) => {
        const remark = diagnostics.takeRemark();
        done(remark === undefined || result.code !== 0 ? result : resultOf(remark));
      }),
    forceFlush: async () => exporter.forceFlush?.(),
    shutdown: () => exporter.shutdown(),
  };
}

function resultOf(remark: SdkRemark): AnyExportResult {
  if (remark === "foreign") return { code: 1, error: new Error(FOREIGN) };
  const { rejectedSpans, errorMessage } = remark;
  return { code: 0, rejectedSpans, error: new Error(errorMessage) };
}

const FOREIGN = `status 200 with a web page, ${NO_OTLP}`;

type ExporterClass = typeof OTLPTraceExporter;

function exporterFor({ protocol }: TracingVariables): ExporterClass {
  if (protocol === "grpc") warnOfVariable(GRPC_UNKNOWN);
  if (protocol !== "http/protobuf") return OTLPTraceExporter;
  try {
    const loaded: unknown = createRequire(import.meta.url)(PROTOBUF_PACKAGE);
    if (isExporterModule(loaded)) return loaded.OTLPTraceExporter;
  } catch {
    // It is not installed.
  }
  warnOfVariable(PROTOBUF_MISSING);
  return OTLPTraceExporter;
}

/** Both packages are of one release, and their exporters differ in the encoding alone. */
function isExporterModule(
  loaded: unknown,
): loaded is { readonly OTLPTraceExporter: ExporterClass } {
  return typeof loaded === "object" && loaded !== null && "OTLPTraceExporter" in loaded;
}

/**
 * Gzip, by which spans shrink to a tenth, but not to an endpoint on this machine, where it would only
 * cost more than the span itself.
 */
function defaultCompression(address: string): string {
  return LOOPBACK.test(new URL(address).hostname) ? "none" : "gzip";
}

type Algorithm = NonNullable<NonNullable<ConstructorParameters<ExporterClass>[0]>["compression"]>;

/** The exporter has an enumeration for the two words that there are. */
function isAlgorithm(word: string): word is Algorithm {
  return word === "gzip" || word === "none";
}

const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/;
