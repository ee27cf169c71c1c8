// The exporter that `setUpNodeTracing` creates: OTLP over HTTP, by options and environment.

import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import { createRequire } from "node:module";

import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";

import { withoutSecrets } from "../../kernel/address.ts";
import type { AnySpanExporter } from "./any-sdk.ts";
import { warnOfVariable, type TracingVariables } from "./otel-variables.ts";

/** An exporter, and its description. */
export interface TraceExporter {
  readonly exporter: AnySpanExporter;
  readonly endpoint: string;
  /** Time in which the exporter answers, with its retries. */
  readonly exportTimeoutMs: number;
}

const DEFAULT_URL = "http://localhost:4318/v1/traces";
/** The default of the OpenTelemetry specification. */
const EXPORT_TIMEOUT_MS = 10_000;
/** For the answer to the last attempt: the timeout of the exporter bounds one without an answer. */
const GRACE_MS = 1_000;

const PROTOBUF_PACKAGE = "@opentelemetry/exporter-trace-otlp-proto";
const PROTOBUF_MISSING =
  `Expected ${PROTOBUF_PACKAGE} to be installed, since OTEL_EXPORTER_OTLP_PROTOCOL is http/protobuf. ` +
  `Spans leave as JSON, which every OTLP endpoint takes, too. npm install ${PROTOBUF_PACKAGE}@^0.223.1`;
const GRPC_UNKNOWN =
  "Expected OTEL_EXPORTER_OTLP_PROTOCOL to be http/json or http/protobuf, got grpc. Spans leave as JSON over " +
  "HTTP, for which endpoints listen on port 4318. Hand an exporter for gRPC to setUpNodeTracing as `exporter`.";

/** `url`: with its path; wins over the environment. */
export function createTraceExporter(
  url: string | undefined,
  variables: TracingVariables,
): TraceExporter {
  const address = url ?? variables.tracesUrl ?? DEFAULT_URL;
  const Exporter = chooseExporter(variables);
  const timeoutMillis = variables.exportTimeoutMs ?? EXPORT_TIMEOUT_MS;
  let agent: HttpAgent | undefined;
  const exporter: AnySpanExporter = new Exporter({
    url: address,
    ...(variables.hasCompression ? {} : compressFor(address)),
    timeoutMillis,
    httpAgentOptions: (protocol) => {
      const Agent = protocol === "https:" ? HttpsAgent : HttpAgent;
      return (agent = new Agent({ keepAlive: true, ...variables.certificates }));
    },
  });
  // An answer that never ends is never idle: its connection would keep the process alive for ever.
  exporter.abort = () => agent?.destroy();
  const shutDown = exporter.shutdown.bind(exporter);
  exporter.shutdown = async () => {
    await shutDown();
    agent?.destroy();
  };
  const exportTimeoutMs = timeoutMillis + GRACE_MS;
  return { exporter, endpoint: withoutSecrets(address), exportTimeoutMs };
}

type ExporterClass = typeof OTLPTraceExporter;

function chooseExporter({ protocol }: TracingVariables): ExporterClass {
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

type Compression = Pick<NonNullable<ConstructorParameters<ExporterClass>[0]>, "compression">;

const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/;

/** Returns gzip, which shrinks spans to a tenth. On this machine it costs more than it saves. */
function compressFor(address: string): Compression {
  const gzip: unknown = { compression: "gzip" };
  return !LOOPBACK.test(new URL(address).hostname) && isCompression(gzip) ? gzip : {};
}

/** The exporter has an enumeration for the word, in a package that is not a dependency. */
function isCompression(options: unknown): options is Compression {
  return typeof options === "object";
}
