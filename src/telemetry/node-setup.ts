// Entry `espalier/otel/node`: an OpenTelemetry SDK for programs that have none, with one call.
// Owns a tracer provider and its delivery. Installs no signal handlers and ends no process.
// 1. `flush` and `shutdown` never reject, and resolve within their bound whatever the endpoint
//    does.
// 2. The resource names no process and no instance: a span that is exported again is
//    byte-identical.

import { ProxyTracerProvider, trace } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import {
  defaultResource,
  detectResources,
  envDetector,
  resourceFromAttributes,
  type Resource,
} from "@opentelemetry/resources";
import { NodeTracerProvider } from "@opentelemetry/sdk-trace-node";

import { checkKeys, checkText } from "../kernel/check.ts";
import { sleep, systemClock, type Clock } from "../kernel/clock.ts";
import type { Tracing } from "../protocol/event-sink.ts";
import { INSTRUMENTATION, SERVICE_NAME } from "./gen-ai-attributes.ts";
import { openTelemetry } from "./otel.ts";
import { MAX_EXPORTS_IN_FLIGHT, SpanDelivery, type DeliveryCounts } from "./span-delivery.ts";

export interface NodeTracingOptions {
  /**
   * `service.name`, by which Jaeger colours and filters. Left out: `OTEL_SERVICE_NAME`, else
   * `espalier`.
   */
  readonly serviceName?: string;
  /**
   * Where spans go, with its path: `http://localhost:4318/v1/traces`, which is also the default.
   * Left out: `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, else `OTEL_EXPORTER_OTLP_ENDPOINT` with
   * `/v1/traces` added.
   */
  readonly tracesUrl?: string;
  /** Bounds `flush` and `shutdown`. Left out: the clock of the machine. */
  readonly clock?: Clock;
}

export interface FlushOptions {
  /** At most so long; 3,000 if left out. */
  readonly timeoutMs?: number;
}

/** What became of all spans since the set-up. Complete, if none is pending or lost. */
export type FlushReport = DeliveryCounts;

export interface NodeTracing {
  /** Hand it to the orchestrator. */
  readonly tracing: Tracing;
  /**
   * Sends all spans that have ended. Never rejects. Call it before a short program ends: spans
   * leave a second after they ended, and a timer does not keep a process alive for them.
   */
  flush(options?: FlushOptions): Promise<FlushReport>;
  /** The same, and takes no further spans. Never rejects. */
  shutdown(options?: FlushOptions): Promise<FlushReport>;
}

const FLUSH_TIMEOUT_MS = 3_000;
const EXPORT_TIMEOUT_MS = 2_000;
/**
 * Characters; OpenTelemetry has no limit of its own, and a receiver refuses a batch that is too
 * large whole.
 */
const MAX_ATTRIBUTE_LENGTH = 16_384;

/**
 * Sets up tracing for this process: spans leave in batches by OTLP over HTTP, as Jaeger and every
 * collector take them, and the active span follows `await`. Registers itself globally, so that
 * instrumented libraries join the same traces. An application that has an SDK uses
 * `openTelemetry()` instead.
 *
 * Sampling, headers, certificates and compression are read from the usual `OTEL_*` variables. If
 * the endpoint cannot be reached, runs go on, spans are counted as lost, and one process warning
 * says so.
 *
 * @throws EspalierError `invalid_option`, `invalid_definition` for options that do not fit.
 */
export function setUpNodeTracing(options: NodeTracingOptions = {}): NodeTracing {
  checkKeys("setUpNodeTracing", options, ["serviceName", "tracesUrl", "clock"]);
  if (options.serviceName !== undefined) checkText("serviceName", options.serviceName);
  const clock = options.clock ?? systemClock;
  const delivery = new SpanDelivery(traceExporter(options.tracesUrl));
  const provider = new NodeTracerProvider({
    resource: resourceOf(options.serviceName),
    spanLimits: { attributeValueLengthLimit: MAX_ATTRIBUTE_LENGTH },
    spanProcessors: [delivery],
  });
  provider.register();

  const settle = async (work: Promise<void>, bounds: FlushOptions = {}): Promise<FlushReport> => {
    const timeoutMs = bounds.timeoutMs ?? FLUSH_TIMEOUT_MS;
    await atMost(clock, timeoutMs, work);
    return delivery.counts();
  };
  return {
    tracing: openTelemetry({
      tracer: provider.getTracer(INSTRUMENTATION.name, INSTRUMENTATION.version),
    }),
    flush: (bounds) => settle(delivery.forceFlush(), bounds),
    shutdown: (bounds) => {
      unregister(provider);
      return settle(delivery.shutdown(), bounds);
    },
  };
}

type ExporterOptions = NonNullable<ConstructorParameters<typeof OTLPTraceExporter>[0]>;
type Compression = NonNullable<ExporterOptions["compression"]>;

function traceExporter(url: string | undefined): OTLPTraceExporter {
  const compression = compressionOf(url, process.env);
  return new OTLPTraceExporter({
    ...(url === undefined ? {} : { url }),
    ...(compression === undefined ? {} : { compression }),
    concurrencyLimit: MAX_EXPORTS_IN_FLIGHT,
    timeoutMillis: EXPORT_TIMEOUT_MS,
  });
}

/**
 * As the exporter reads it. If nothing is said: gzip, by which spans shrink to a tenth, but not to an
 * endpoint on this machine, where it would only cost more than the span itself.
 */
function compressionOf(url: string | undefined, env: NodeJS.ProcessEnv): Compression | undefined {
  const endpoint =
    url ?? env["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] ?? env["OTEL_EXPORTER_OTLP_ENDPOINT"];
  const word =
    env["OTEL_EXPORTER_OTLP_TRACES_COMPRESSION"] ??
    env["OTEL_EXPORTER_OTLP_COMPRESSION"] ??
    (isOnThisMachine(endpoint ?? DEFAULT_ENDPOINT) ? "none" : "gzip");
  return isCompression(word) ? word : undefined;
}

const DEFAULT_ENDPOINT = "http://localhost:4318";
const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/;

function isOnThisMachine(endpoint: string): boolean {
  return URL.canParse(endpoint) && LOOPBACK.test(new URL(endpoint).hostname);
}

function isCompression(word: string): word is Compression {
  return word === "gzip" || word === "none";
}

/** The weakest first: our default, the environment, the option. */
function resourceOf(serviceName: string | undefined): Resource {
  const resource = defaultResource()
    .merge(resourceFromAttributes({ [SERVICE_NAME]: INSTRUMENTATION.name }))
    .merge(detectResources({ detectors: [envDetector] }));
  if (serviceName === undefined) return resource;
  return resource.merge(resourceFromAttributes({ [SERVICE_NAME]: serviceName }));
}

/**
 * Waits for work to end in any way, but not longer than `timeoutMs`. Its failures are in the
 * counts.
 */
async function atMost(clock: Clock, timeoutMs: number, work: Promise<void>): Promise<void> {
  const stop = new AbortController();
  await Promise.race([Promise.allSettled([work]), sleep(clock, timeoutMs, stop.signal)]);
  stop.abort();
}

/**
 * Frees the global place, so that tracing can be set up again; leaves a provider of somebody else
 * alone.
 */
function unregister(provider: NodeTracerProvider): void {
  const global = trace.getTracerProvider();
  if (global instanceof ProxyTracerProvider && global.getDelegate() === provider) trace.disable();
}
