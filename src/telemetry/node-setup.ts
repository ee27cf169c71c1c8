// Entry `espalier/otel/node`: an OpenTelemetry SDK for programs that have none, with one call.
// Owns a tracer provider and its delivery. Installs no signal handlers and ends no process.
// 1. `flush` and `shutdown` never reject, and resolve within their bound whatever the endpoint
//    does.
// 2. The resource shows which process recorded a span, on which host and as which version.

import { hostname } from "node:os";

import { ProxyTracerProvider, trace } from "@opentelemetry/api";
import {
  defaultResource,
  detectResources,
  envDetector,
  resourceFromAttributes,
  type Resource,
} from "@opentelemetry/resources";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";

import { withoutSecrets } from "../kernel/address.ts";
import {
  checkBoolean,
  checkKeys,
  checkMethods,
  checkText,
  misdefinition,
  mismatch,
  shown as inWords,
} from "../kernel/check.ts";
import { sleep } from "../kernel/cancel.ts";
import { systemClock, type Clock } from "../kernel/clock.ts";
import { defined, isRecord } from "../kernel/json.ts";
import { OWN_PACKAGE } from "../kernel/own-package.ts";
import type { Tracing } from "../protocol/tracing.ts";
import { contentSettings } from "./content/content-options.ts";
import type { AnySpanExporter } from "./delivery/any-sdk.ts";
import { ONE_COPY, registeredApi, unseenCopy } from "./spans/api-versions.ts";
import { runIdGenerator } from "./spans/derived-ids.ts";
import { RESOURCE, SERVICE_NAME } from "./gen-ai-attributes.ts";
import {
  isHttpUrl,
  LONGEST_MS,
  tracingVariables,
  warnOfVariable,
  type TracingVariables,
} from "./delivery/otel-variables.ts";
import { openTelemetry, type OpenTelemetryOptions } from "./otel.ts";
import { SHOWN_OPTIONS } from "./shown-options.ts";
import { SdkDiagnostics } from "./delivery/sdk-diagnostics.ts";
import { samplerOf } from "./delivery/sampling.ts";
import { servicePerRole } from "./delivery/service-per-role.ts";
import { doubting, traceExporter, type TraceExporter } from "./delivery/trace-exporter.ts";
import { DEFAULTS, ExportQueues, type DeliveryCounts } from "./delivery/export-queues.ts";
import { warnWithCode } from "./coded-warning.ts";

/** Options for how runs are shown are those of `openTelemetry()`. */
export interface NodeTracingOptions extends Omit<OpenTelemetryOptions, "tracer"> {
  /**
   * `service.name`, by which Jaeger colours and filters. Left out: `OTEL_SERVICE_NAME`, else
   * `espalier`.
   */
  readonly serviceName?: string;
  /**
   * True: spans of runs have `<serviceName>/<role>` as their service, so that Jaeger gives each role a
   * colour of its own and can leave roles out. Other backends take it for that many services.
   * Default false.
   */
  readonly serviceNamePerRole?: boolean;
  /**
   * Where spans go, with its path: `http://localhost:4318/v1/traces`, which is also the default.
   * Left out: `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, else `OTEL_EXPORTER_OTLP_ENDPOINT` with
   * `/v1/traces` added.
   */
  readonly tracesUrl?: string;
  /**
   * A ready-made `SpanExporter` in place of the one for OTLP over HTTP: for gRPC, or for a backend of
   * another kind. It is shut down with the tracing. Not beside `tracesUrl`.
   */
  readonly exporter?: AnySpanExporter;
  /** Bounds `flush` and `shutdown`. Left out: the clock of the machine. */
  readonly clock?: Clock;
}

/** How long a flush may take. */
export interface FlushOptions {
  /** At most so long; 30,000 if left out, and for what is no number from 0 up: that is a process warning. */
  readonly timeoutMs?: number;
}

/** Counts of all spans since the set-up. Complete if none is pending, lost or unconfirmed. */
export interface FlushReport extends DeliveryCounts {
  /** Warnings and errors of the SDK itself, if there were any; the first was given as a warning. */
  readonly sdkReports?: number;
}

/** The tracing of this process, with what sends its spans. */
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

/** The time that OpenTelemetry allows a batch by default. */
const FLUSH_TIMEOUT_MS = 30_000;
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
 * Sampling, protocol, headers, certificates, compression and limits are read from the usual `OTEL_*`
 * variables; one that does not fit is a process warning, and its default is used. With
 * `OTEL_SDK_DISABLED=true` or `OTEL_TRACES_EXPORTER=none` there are no spans. If the endpoint cannot
 * be reached, runs continue, spans are counted as lost, and one process warning has the reason.
 *
 * @throws EspalierError `invalid_option`, `invalid_definition` for options that do not fit.
 */
export function setUpNodeTracing(options: NodeTracingOptions = {}): NodeTracing {
  checkOptions(options);
  const { serviceName: _name, serviceNamePerRole: _perRole, tracesUrl: _url, ...others } = options;
  const { exporter, clock: _clock, ...shown } = others;
  const variables = tracingVariables(process.env);
  for (const warning of variables.warnings) warnOfVariable(warning);
  const { isDisabled, isExportOff } = variables;
  if (isDisabled || (isExportOff && exporter === undefined)) return noTracing(shown);
  const diagnostics = new SdkDiagnostics();
  // First: the SDK speaks while it is made, too.
  diagnostics.install();
  try {
    return nodeTracing(options, shown, variables, diagnostics);
  } catch (cause) {
    // Nothing is left, if an option turns out not to fit.
    diagnostics.uninstall();
    throw cause;
  }
}

const OPTIONS = ["serviceName", "serviceNamePerRole", "tracesUrl", "exporter", "clock"];

function checkOptions(options: NodeTracingOptions): void {
  checkKeys("setUpNodeTracing", options, [...OPTIONS, ...SHOWN_OPTIONS]);
  const { serviceName, serviceNamePerRole = false, tracesUrl, exporter } = options;
  if (serviceName !== undefined) checkText("serviceName", serviceName);
  checkBoolean("serviceNamePerRole", serviceNamePerRole);
  if (tracesUrl !== undefined && !isHttpUrl(tracesUrl)) {
    const expected = "an address that begins with http:// or https://";
    const got: unknown = tracesUrl;
    const shown = typeof got === "string" ? withoutSecrets(got) : got;
    throw misdefinition("tracesUrl", expected, shown, "Say it with its path.");
  }
  if (exporter === undefined) return;
  checkMethods("exporter", exporter, ["export", "shutdown"]);
  if (tracesUrl === undefined) return;
  const advice = "Say the address to the exporter that you make.";
  throw mismatch("tracesUrl", "left out beside an exporter", withoutSecrets(tracesUrl), advice);
}

/** Spans with content are large: fewer of them at a time stall the event loop no longer than others do. */
const CONTENT_BATCH_SIZE = 128;

function nodeTracing(
  options: NodeTracingOptions,
  shown: Omit<OpenTelemetryOptions, "tracer">,
  variables: TracingVariables,
  diagnostics: SdkDiagnostics,
): NodeTracing {
  const { serviceName, serviceNamePerRole, tracesUrl, exporter, clock = systemClock } = options;
  const resource = resourceOf(serviceName);
  const made = exporter === undefined ? traceExporter(tracesUrl, variables) : { exporter };
  const outlet = doubting(
    serviceNamePerRole === true ? servicePerRole(made.exporter, resource) : made.exporter,
    diagnostics,
  );
  const batchSize = contentSettings(shown.content) === undefined ? undefined : CONTENT_BATCH_SIZE;
  const queues = queuesTo({ ...made, exporter: outlet }, variables, batchSize);
  diagnostics.hasCounted = (report) => queues.hasCounted(report);
  const { maxAttributeLength = MAX_ATTRIBUTE_LENGTH, sampling } = variables;
  const provider = new NodeTracerProvider({
    resource,
    sampler: samplerOf(sampling),
    spanLimits: { attributeValueLengthLimit: maxAttributeLength },
    spanProcessors: [queues],
    idGenerator: runIdGenerator,
  });
  const tracer = provider.getTracer(OWN_PACKAGE.name, OWN_PACKAGE.version);
  const tracing = openTelemetry({ ...shown, tracer });
  register(provider);
  const settle = async (work: Promise<void>, bounds?: FlushOptions): Promise<FlushReport> => {
    const stop = new AbortController();
    await Promise.race([work, sleep(clock, boundOf(bounds), stop.signal)]);
    stop.abort();
    const { reports: sdkReports } = diagnostics;
    return { ...queues.counts(), ...(sdkReports === 0 ? {} : { sdkReports }) };
  };
  return {
    tracing,
    flush: (bounds) => settle(queues.forceFlush(), bounds),
    shutdown: async (bounds) => {
      // The global place is free for another set-up; another provider is left alone.
      if (isRegistered(provider)) trace.disable();
      const report = await settle(queues.shutdown(), bounds);
      diagnostics.uninstall();
      return report;
    },
  };
}

/** `usualBatch`: spans of a batch, if no variable says how many. */
function queuesTo(
  { exporter, endpoint, exportTimeoutMs }: TraceExporter,
  variables: TracingVariables,
  usualBatch: number = DEFAULTS.batchSize,
): ExportQueues {
  const { maxQueueSize: leaves = DEFAULTS.leaves, batchSize = usualBatch } = variables;
  const { delayMs = DEFAULTS.delayMs, batchTimeoutMs = DEFAULTS.exportTimeoutMs } = variables;
  // The queues bound each export. The processor would also count the time before it is sent.
  const bound = { exportTimeoutMillis: LONGEST_MS };
  return new ExportQueues({
    exporter,
    processor: (counting, settings) => new BatchSpanProcessor(counting, { ...settings, ...bound }),
    queues: { leaves },
    batchSize,
    delayMs,
    exportTimeoutMs: exportTimeoutMs ?? batchTimeoutMs,
    ...defined({ endpoint }),
  });
}

/** What the environment has switched off: runs have ids, and no spans. */
function noTracing(shown: Omit<OpenTelemetryOptions, "tracer">): NodeTracing {
  const report = { deliveredSpans: 0, lostSpans: 0, pendingSpans: 0 };
  const tracer = new ProxyTracerProvider().getTracer(OWN_PACKAGE.name);
  return {
    tracing: openTelemetry({ ...shown, tracer }),
    flush: () => Promise.resolve(report),
    shutdown: () => Promise.resolve(report),
  };
}

/** The weakest first: our default, the environment, the option. */
function resourceOf(serviceName: string | undefined): Resource {
  const ours = {
    [SERVICE_NAME]: OWN_PACKAGE.name,
    [RESOURCE.processId]: process.pid,
    [RESOURCE.runtimeName]: "nodejs",
    [RESOURCE.runtimeVersion]: process.versions.node,
    [RESOURCE.hostName]: hostname(),
    [RESOURCE.distroName]: OWN_PACKAGE.name,
    [RESOURCE.distroVersion]: OWN_PACKAGE.version,
  };
  const named = serviceName === undefined ? {} : { [SERVICE_NAME]: serviceName };
  return defaultResource()
    .merge(resourceFromAttributes(ours))
    .merge(detectResources({ detectors: [envDetector] }))
    .merge(resourceFromAttributes(named));
}

/** A process that flushes is about to end, and must not be stopped by a slip: it is a warning, and the default. */
function boundOf(bounds: unknown = {}): number {
  if (!isRecord(bounds)) return usualBound("options", bounds);
  const { timeoutMs = FLUSH_TIMEOUT_MS, ...others } = bounds;
  const [unknown] = Object.entries(others);
  if (unknown !== undefined) usualBound(...unknown);
  const isBound = typeof timeoutMs === "number" && timeoutMs >= 0 && timeoutMs < Infinity;
  return isBound ? timeoutMs : usualBound("timeoutMs", timeoutMs);
}

/** Warns once in a process. */
function usualBound(field: string, got: unknown): number {
  const code = "ESPALIER_FLUSH_OPTIONS";
  const message =
    `Expected flush and shutdown to be given { timeoutMs } with a number from 0 up, got ${inWords(got)} for ` +
    `${field}. The default is used, ${FLUSH_TIMEOUT_MS}.`;
  warnWithCode(code, message, code);
  return FLUSH_TIMEOUT_MS;
}

/** Takes what is free of the global places: a context manager of an earlier set-up serves as well. */
function register(provider: NodeTracerProvider): void {
  const taken = registeredApi();
  if (taken?.trace === undefined) {
    provider.register({
      ...(taken?.context === undefined ? {} : { contextManager: null }),
      ...(taken?.propagation === undefined ? {} : { propagator: null }),
    });
  }
  if (isRegistered(provider)) return;
  const copies = unseenCopy(taken);
  warnOfVariable(
    copies === undefined
      ? "Expected setUpNodeTracing to find no OpenTelemetry SDK in this process, got one that was registered " +
          "before. Spans of runs leave all the same, but those of instrumented libraries go to the other one. " +
          "Use openTelemetry() beside an SDK of your own."
      : `Expected one copy of @opentelemetry/api, got two: ${copies} Spans of runs leave all the same, but those of ` +
          `instrumented libraries do not join their traces. ${ONE_COPY}`,
  );
}

function isRegistered(provider: NodeTracerProvider): boolean {
  const global = trace.getTracerProvider();
  return global instanceof ProxyTracerProvider && global.getDelegate() === provider;
}
