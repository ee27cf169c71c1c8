// The exporter that `setUpNodeTracing` creates: OTLP over HTTP, by options and environment.

import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import { createRequire } from "node:module";

import type { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { diag, DiagLogLevel, type DiagLogger } from "@opentelemetry/api";
import { resourceFromAttributes, type Resource } from "@opentelemetry/resources";

import { redactAddress } from "../../kernel/redact-address.ts";
import { createLoadError } from "../../kernel/optional-package.ts";
import {
  type AnySpanExporter,
  type AnyExportResult,
  isWebPage,
  NO_OTLP,
  type FinishedSpan,
} from "./export-queue.ts";
import { warnOfVariable, type TracingVariables } from "./otel-variables.ts";
import { isRecord, tryParseJson } from "../../kernel/json.ts";
import { emitWarning } from "../../kernel/warn-once.ts";
import { findRegisteredApi } from "../spans/api-versions.ts";
import { ESPALIER, SERVICE_NAME } from "../gen-ai-attributes.ts";
import { readLastName } from "../spans/span-attributes.ts";

/** Exporter with its endpoint and time limit. */
export interface TraceExporter {
  readonly exporter: AnySpanExporter;
  readonly endpoint: string;
  /** Time limit for its answer, including retries. */
  readonly exportTimeoutMs: number;
}

const DEFAULT_URL = "http://localhost:4318/v1/traces";
/** The default of the OpenTelemetry specification. */
const EXPORT_TIMEOUT_MS = 10_000;
/** Grace after the timeout of the exporter, for the answer to its last attempt. */
const GRACE_MS = 1_000;

const JSON_PACKAGE = "@opentelemetry/exporter-trace-otlp-http";
const PROTOBUF_PACKAGE = "@opentelemetry/exporter-trace-otlp-proto";
const PROTOBUF_MISSING =
  `Expected ${PROTOBUF_PACKAGE} to be installed, since OTEL_EXPORTER_OTLP_PROTOCOL is http/protobuf. ` +
  `Spans are exported as JSON, which every OTLP endpoint accepts, too. npm install ${PROTOBUF_PACKAGE}@^0.223.1`;
const GRPC_UNKNOWN =
  "Expected OTEL_EXPORTER_OTLP_PROTOCOL to be http/json or http/protobuf, got grpc. Spans are exported as JSON over " +
  "HTTP, for which endpoints listen on port 4318. Pass an exporter for gRPC to setUpNodeTracing as `exporter`.";

/** Creates the exporter. `url` includes the path, and takes precedence over the environment. */
export function createTraceExporter(
  url: string | undefined,
  variables: TracingVariables,
): TraceExporter {
  const address = url ?? variables.tracesUrl ?? DEFAULT_URL;
  const Exporter = chooseExporter(variables);
  const timeoutMillis = variables.exportTimeoutMs ?? EXPORT_TIMEOUT_MS;
  // gzip shrinks spans to a tenth. For a local endpoint it costs more than it saves. The word is
  // not imported, because its enumeration is in a package that is not a dependency.
  const isLocal = LOOPBACK.test(new URL(address).hostname);
  const gzip: object = { compression: "gzip" };
  let agent: HttpAgent | undefined;
  const exporter: AnySpanExporter = new Exporter({
    url: address,
    ...(variables.hasCompression || isLocal ? {} : gzip),
    timeoutMillis,
    httpAgentOptions: (protocol) => {
      const Agent = protocol === "https:" ? HttpsAgent : HttpAgent;
      agent = new Agent({ keepAlive: true, ...variables.certificates });
      return agent;
    },
  });
  // A response that never ends keeps its connection, and therefore the process, alive.
  exporter.abort = () => agent?.destroy();
  const shutDown = exporter.shutdown.bind(exporter);
  exporter.shutdown = async () => {
    await shutDown();
    agent?.destroy();
  };
  const exportTimeoutMs = timeoutMillis + GRACE_MS;
  return { exporter, endpoint: redactAddress(address), exportTimeoutMs };
}

type ExporterClass = typeof OTLPTraceExporter;

function chooseExporter({ protocol }: TracingVariables): ExporterClass {
  if (protocol === "grpc") warnOfVariable(GRPC_UNKNOWN);
  if (protocol === "http/protobuf") {
    try {
      return loadExporter(PROTOBUF_PACKAGE);
    } catch {
      warnOfVariable(PROTOBUF_MISSING);
    }
  }
  try {
    return loadExporter(JSON_PACKAGE);
  } catch (cause) {
    throw createLoadError(JSON_PACKAGE, "setUpNodeTracing needs the option exporter", cause);
  }
}

/** Loads one of the two exporters, which belong to one release and differ only in the encoding. */
function loadExporter(name: string): ExporterClass {
  const loaded: unknown = createRequire(import.meta.url)(name);
  if (isExporterModule(loaded)) return loaded.OTLPTraceExporter;
  throw new Error(`Expected ${name} to export OTLPTraceExporter.`);
}

function isExporterModule(
  loaded: unknown,
): loaded is { readonly OTLPTraceExporter: ExporterClass } {
  return typeof loaded === "object" && loaded !== null && "OTLPTraceExporter" in loaded;
}

const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/;

// Reads the diagnostics of the OpenTelemetry SDK, which only a logger receives. Owns the global
// logger, unless the application has set one.
// 1. The first ten distinct reports after a set-up become process warnings.
// 2. Only the logger learns that an endpoint answered a success with a web page or refused some of
//    the spans. Such a remark belongs to the next successful export, in the same tick.

/** Values that otel-variables.ts also checks. The address may contain a password. */
const CHECKED_HERE = /\bURL\b|_TIMEOUT\b|_VALUE_LENGTH_LIMIT\b/;
const MAX_REPORTS = 10;
const MAX_LENGTH = 300;

let listeners = 0;
const reports = new Set<string>();
let ownLogger: unknown;
let remark: AnyExportResult | undefined;

/** Installs the logger. Returns the function that removes it. */
export function listenToSdk(): () => void {
  listeners += 1;
  if (listeners === 1 && findRegisteredApi()?.diag === undefined) {
    reports.clear();
    diag.setLogger(LOGGER, DiagLogLevel.WARN);
    ownLogger = findRegisteredApi()?.diag;
  }
  return () => {
    listeners -= 1;
    // A logger that the application set later stays.
    if (listeners === 0 && findRegisteredApi()?.diag === ownLogger) diag.disable();
  };
}

/** Returns the result of an export, corrected by the remark of the SDK about its answer. */
export function applyRemark(result: AnyExportResult): AnyExportResult {
  const applied = result.code === 0 ? (remark ?? result) : result;
  remark = undefined;
  return applied;
}

const report = (...parts: readonly unknown[]): void => {
  // The SDK treats every answer with status 200 as a success, and only reports an unreadable one.
  const isForeign = parts.some((part) =>
    part instanceof Uint8Array
      ? isWebPage(new TextDecoder().decode(part.subarray(0, 100)))
      : /^Failed to parse trace export response: .*'<'/.test(String(part)),
  );
  const at = parts.indexOf("Received Partial Success response:");
  const answer = at === -1 ? undefined : tryParseJson(String(parts[at + 1]));
  // `{"rejectedSpans":"7","errorMessage":"…"}`: JSON has 64-bit numbers as text. With 0 the message
  // is only advice.
  const rejectedSpans = isRecord(answer) ? Number(answer["rejectedSpans"]) : 0;
  if (isForeign || rejectedSpans > 0) {
    const reason = isRecord(answer) ? answer["errorMessage"] : undefined;
    const message = typeof reason === "string" ? reason : "";
    remark = isForeign
      ? { code: 1, error: new Error(`status 200 with a web page, ${NO_OTLP}`) }
      : { code: 0, rejectedSpans, error: new Error(message.slice(0, MAX_LENGTH)) };
    return;
  }
  const text = parts.filter((part) => typeof part === "string").join(" ");
  const [line = ""] = text.slice(0, MAX_LENGTH).split("\n");
  if (CHECKED_HERE.test(line) || reports.has(line) || reports.size >= MAX_REPORTS) return;
  reports.add(line);
  const message = `OpenTelemetry reports: ${line}. See all reports with diag.setLogger().`;
  emitWarning(message, "ESPALIER_OTEL_REPORT");
};

const ignoreDiagnostic = (): void => {};
const LOGGER: DiagLogger = {
  verbose: ignoreDiagnostic,
  debug: ignoreDiagnostic,
  info: ignoreDiagnostic,
  warn: report,
  error: report,
};

// Sets a service per role, for Jaeger, which colours and filters by service: otherwise a tree has
// one colour. Spans of other libraries keep the service of the program.

/** Returns a function that copies a span of a run with its role as service: `survey/researcher`. */
export function createRoleServiceMapper(resource: Resource): (span: FinishedSpan) => FinishedSpan {
  const services = new Map<string, Resource>();
  return (span) => {
    const path = span.attributes[ESPALIER.agentPath];
    if (typeof path !== "string") return span;
    // The role: `lead/researcher#2` without path and number.
    const role = readLastName(path).replace(/#[^#]*$/, "");
    const name = `${String(resource.attributes[SERVICE_NAME])}/${role}`;
    const service =
      services.get(role) ?? resource.merge(resourceFromAttributes({ [SERVICE_NAME]: name }));
    services.set(role, service);
    // Other processors may have the span too, so it does not change.
    const copy: unknown = Object.create(span, { resource: { value: service, enumerable: true } });
    return isSpan(copy) ? copy : span;
  };
}

function isSpan(value: unknown): value is FinishedSpan {
  return typeof value === "object" && value !== null && "spanContext" in value;
}
