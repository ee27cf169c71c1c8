// The exporter that `setUpNodeTracing` makes: OTLP over HTTP, as options and environment say.

import { createRequire } from "node:module";

import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";

import type { LaneExporter } from "./any-sdk.ts";
import { NO_OTLP } from "./loss.ts";
import { withoutSecrets, type Compression, type TracingVariables } from "./otel-variables.ts";

/** An exporter, and what is said of it. */
export interface TraceExporter {
  readonly exporter: LaneExporter;
  readonly endpoint?: string;
  /** Why it is not the one that was asked for. */
  readonly complaints: readonly string[];
}

const DEFAULT_URL = "http://localhost:4318/v1/traces";
const EXPORT_TIMEOUT_MS = 2_000;

const PROTOBUF_PACKAGE = "@opentelemetry/exporter-trace-otlp-proto";
const PROTOBUF_MISSING =
  `Expected ${PROTOBUF_PACKAGE} to be installed, since OTEL_EXPORTER_OTLP_PROTOCOL is http/protobuf. ` +
  `Spans leave as JSON, which every OTLP endpoint takes, too. npm install ${PROTOBUF_PACKAGE}@^0.223.1`;
const GRPC_UNKNOWN =
  "Expected OTEL_EXPORTER_OTLP_PROTOCOL to be http/json or http/protobuf, got grpc. Spans leave as JSON over " +
  "HTTP, for which endpoints listen on port 4318. Hand an exporter for gRPC to setUpNodeTracing as `exporter`.";

/** `url`: with its path; wins over the environment. */
export function traceExporter(url: string | undefined, variables: TracingVariables): TraceExporter {
  const address = url ?? variables.tracesUrl ?? DEFAULT_URL;
  const { Exporter, complaints } = exporterFor(variables);
  const exporter = new Exporter({
    url: address,
    ...compressionOf(variables.compression ?? defaultCompression(address)),
    timeoutMillis: variables.exportTimeoutMs ?? EXPORT_TIMEOUT_MS,
  });
  return { exporter, endpoint: withoutSecrets(address), complaints };
}

/**
 * Turns successes into failures that are none: the SDK takes every answer of status 200 for a
 * success.
 */
export function doubting(exporter: LaneExporter, isForeignAnswer: () => boolean): LaneExporter {
  return {
    export: (spans, done) =>
      exporter.export(spans, (result) => {
        const isForeign = isForeignAnswer();
        done(isForeign && result.code === 0 ? { code: 1, error: new Error(FOREIGN) } : result);
      }),
    forceFlush: async () => exporter.forceFlush?.(),
    shutdown: () => exporter.shutdown(),
  };
}

const FOREIGN = `status 200 with a web page, ${NO_OTLP}`;

type ExporterClass = typeof OTLPTraceExporter;

function exporterFor({ protocol }: TracingVariables): {
  readonly Exporter: ExporterClass;
  readonly complaints: readonly string[];
} {
  if (protocol === "grpc") return { Exporter: OTLPTraceExporter, complaints: [GRPC_UNKNOWN] };
  if (protocol !== "http/protobuf") return { Exporter: OTLPTraceExporter, complaints: [] };
  const Exporter = protobufExporter();
  if (Exporter !== undefined) return { Exporter, complaints: [] };
  return { Exporter: OTLPTraceExporter, complaints: [PROTOBUF_MISSING] };
}

/** Undefined if it is not installed. */
function protobufExporter(): ExporterClass | undefined {
  try {
    const loaded: unknown = createRequire(import.meta.url)(PROTOBUF_PACKAGE);
    return isExporterModule(loaded) ? loaded.OTLPTraceExporter : undefined;
  } catch {
    return undefined;
  }
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
function defaultCompression(address: string): Compression {
  return LOOPBACK.test(new URL(address).hostname) ? "none" : "gzip";
}

type Algorithm = NonNullable<NonNullable<ConstructorParameters<ExporterClass>[0]>["compression"]>;

/** The exporter has an enumeration for the same two words. */
function compressionOf(word: Compression): { readonly compression?: Algorithm } {
  return isAlgorithm(word) ? { compression: word } : {};
}

function isAlgorithm(word: Compression | Algorithm): word is Algorithm {
  return word === "gzip" || word === "none";
}

const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/;
