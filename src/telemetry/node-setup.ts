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

import { redactAddress } from "../kernel/redact-address.ts";
import {
  checkBoolean,
  checkKeys,
  checkMethods,
  checkText,
  mismatch,
  describeReceived as inWords,
} from "../kernel/argument-checks.ts";
import { sleep } from "../kernel/cancel-signal.ts";
import { systemClock, type Clock } from "../kernel/clock.ts";
import { omitUndefined, isRecord } from "../kernel/json.ts";
import { OWN_PACKAGE } from "../kernel/own-package.ts";
import { NamedOffenders } from "../kernel/warn-once.ts";
import type { Tracing } from "../protocol/tracing.ts";
import { resolveContentSettings, SHOWN_OPTIONS } from "./spans/span-content.ts";
import {
  isHttpUrl,
  readTracingVariables,
  warnOfVariable,
  type TracingVariables,
} from "./delivery/otel-variables.ts";
import {
  type AnySpanExporter,
  DEFAULTS,
  ExportQueue,
  type DeliveryCounts,
} from "./delivery/export-queue.ts";
import {
  applyRemark,
  listenToSdk,
  createTraceExporter,
  type TraceExporter,
  createRoleServiceMapper,
} from "./delivery/trace-exporter.ts";
import { RESOURCE, SERVICE_NAME } from "./gen-ai-attributes.ts";
import { openTelemetry, type OpenTelemetryOptions } from "./otel.ts";
import { ONE_COPY, findRegisteredApi, findUnseenCopy } from "./spans/api-versions.ts";
import { traceIdGenerator } from "./spans/derived-ids.ts";

/** Options of `setUpNodeTracing`: those of `openTelemetry()`, and the export of spans. */
export interface NodeTracingOptions extends Omit<OpenTelemetryOptions, "tracer"> {
  /**
   * Value of `service.name`, by which backends group and filter traces.
   *
   * @default the environment variable `OTEL_SERVICE_NAME`, else "espalier"
   */
  readonly serviceName?: string;
  /**
   * Whether spans have `<serviceName>/<role>` as their service, so that Jaeger colours and filters
   * by role. Other backends show one service per role.
   *
   * @default false
   */
  readonly serviceNamePerRole?: boolean;
  /**
   * URL of the OTLP endpoint with its path.
   *
   * @default `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, else `OTEL_EXPORTER_OTLP_ENDPOINT` with
   * `/v1/traces`, else `http://localhost:4318/v1/traces`
   *
   * @example
   * ```ts
   * const { tracing } = setUpNodeTracing({ tracesUrl: "http://collector.example:4318/v1/traces" });
   * ```
   */
  readonly tracesUrl?: string;
  /**
   * `SpanExporter` in place of the one for OTLP over HTTP, for example for gRPC. It is shut down
   * with the tracing. Not allowed together with `tracesUrl`.
   *
   * @example
   * ```ts
   * import { InMemorySpanExporter } from "@opentelemetry/sdk-trace-node";
   *
   * const exporter = new InMemorySpanExporter();
   * const { tracing, flush } = setUpNodeTracing({ exporter });
   * ```
   */
  readonly exporter?: AnySpanExporter;
  /**
   * Clock that limits `flush` and `shutdown`.
   *
   * @default the clock of the machine
   */
  readonly clock?: Clock;
}

/** Tracing of this process, with the export of its spans. Returned by `setUpNodeTracing`. */
export interface NodeTracing {
  /** Tracing to pass to the orchestrator as `tracing`. */
  readonly tracing: Tracing;
  /**
   * Sends all ended spans, and returns the counts. Never rejects. Call it before a short program
   * ends: spans are sent a second after they end, and their timer does not keep the process alive.
   *
   * `timeoutMs` limits the time in milliseconds, by default to 30,000. An invalid number is
   * replaced by the default, with a process warning.
   *
   * @example
   * ```ts
   * const { tracing, flush } = setUpNodeTracing();
   * await new Orchestrator({ tracing }).start(role, "What is an espalier?").result;
   * const { deliveredSpans, lostSpans } = await flush({ timeoutMs: 5_000 });
   * ```
   */
  flush(options?: { readonly timeoutMs?: number }): Promise<DeliveryCounts>;
  /**
   * Sends all ended spans, and accepts no further ones. Returns the counts and never rejects.
   * `timeoutMs` is that of `flush`.
   */
  shutdown(options?: { readonly timeoutMs?: number }): Promise<DeliveryCounts>;
}

/** The default of OpenTelemetry for exporting a batch. */
const FLUSH_TIMEOUT_MS = 30_000;
/**
 * Maximum number of characters. OpenTelemetry has no limit by default, and receivers refuse the
 * whole batch if it is too large.
 */
const MAX_ATTRIBUTE_LENGTH = 16_384;

/**
 * Sets up an OpenTelemetry SDK for this process, with a batched export by OTLP over HTTP. It
 * registers the SDK globally, so that instrumented libraries join the traces. In an application
 * that has an SDK, use `openTelemetry()`.
 *
 * Sampling, protocol, headers, certificates, compression and limits come from the `OTEL_*`
 * environment variables. An invalid one is replaced by its default, with a process warning. With
 * `OTEL_SDK_DISABLED=true` or `OTEL_TRACES_EXPORTER=none` there are no spans. If the endpoint
 * cannot be reached, runs continue, spans count as lost, and one process warning gives the reason.
 *
 * @throws EspalierError `invalid_argument` if an option is invalid.
 * @throws EspalierError `missing_package` if `@opentelemetry/exporter-trace-otlp-http` is not
 * installed, and `exporter` is not set.
 *
 * @example
 * ```ts
 * const node = setUpNodeTracing({ serviceName: "survey" });
 * const orchestrator = new Orchestrator({ tracing: node.tracing });
 * await orchestrator.start(role, "What is an espalier?").result;
 * const { lostSpans } = await node.shutdown({ timeoutMs: 5_000 });
 * ```
 */
export function setUpNodeTracing(options: NodeTracingOptions = {}): NodeTracing {
  checkNodeOptions(options);
  const { serviceName: _name, serviceNamePerRole: _perRole, tracesUrl: _url, ...others } = options;
  const { exporter, clock: _clock, ...shown } = others;
  const variables = readTracingVariables(process.env);
  for (const warning of variables.warnings) warnOfVariable(warning);
  const { isDisabled, isExportOff } = variables;
  if (isDisabled || (isExportOff && exporter === undefined)) {
    // Runs have ids, but no spans.
    const report = { deliveredSpans: 0, lostSpans: 0, pendingSpans: 0 };
    const tracer = new ProxyTracerProvider().getTracer(OWN_PACKAGE.name);
    const flush = (): Promise<DeliveryCounts> => Promise.resolve(report);
    return { tracing: openTelemetry({ ...shown, tracer }), flush, shutdown: flush };
  }
  // Installed first, because the SDK also reports during its creation.
  const stopListening = listenToSdk();
  try {
    return startTracing(options, shown, variables, stopListening);
  } catch (cause) {
    stopListening();
    throw cause;
  }
}

function checkNodeOptions(options: NodeTracingOptions): void {
  const ownOptions = ["serviceName", "serviceNamePerRole", "tracesUrl", "exporter", "clock"];
  checkKeys("setUpNodeTracing", options, [...ownOptions, ...SHOWN_OPTIONS]);
  const { serviceName, serviceNamePerRole = false, tracesUrl, exporter } = options;
  if (serviceName !== undefined) checkText("serviceName", serviceName);
  checkBoolean("serviceNamePerRole", serviceNamePerRole);
  if (tracesUrl !== undefined && !isHttpUrl(tracesUrl)) {
    const expected = "a URL that begins with http:// or https://";
    const got: unknown = tracesUrl;
    const shown = typeof got === "string" ? redactAddress(got) : got;
    throw mismatch("tracesUrl", expected, shown, "Include its path.");
  }
  if (exporter === undefined) return;
  checkMethods("exporter", exporter, ["export", "shutdown"]);
  if (tracesUrl === undefined) return;
  const advice = "Set the address of the exporter that you create.";
  throw mismatch("tracesUrl", "left out when exporter is set", redactAddress(tracesUrl), advice);
}

/** Spans with content are large. Smaller batches keep the event loop as responsive. */
const CONTENT_BATCH_SIZE = 128;

function startTracing(
  options: NodeTracingOptions,
  shown: Omit<OpenTelemetryOptions, "tracer">,
  variables: TracingVariables,
  stopListening: () => void,
): NodeTracing {
  const { serviceName, serviceNamePerRole, tracesUrl, clock = systemClock } = options;
  const resource = createResource(serviceName);
  const target: Pick<TraceExporter, "exporter"> & Partial<TraceExporter> =
    options.exporter === undefined
      ? createTraceExporter(tracesUrl, variables)
      : { exporter: options.exporter };
  const { exporter, endpoint, exportTimeoutMs } = target;
  const toShown = serviceNamePerRole === true ? createRoleServiceMapper(resource) : undefined;
  const hasContent = resolveContentSettings(shown.content) !== undefined;
  const usualBatch = hasContent ? CONTENT_BATCH_SIZE : DEFAULTS.maxExportBatchSize;
  const { maxQueueSize = DEFAULTS.maxQueueSize, maxAttributeLength, batchTimeoutMs } = variables;
  const queue = new ExportQueue({
    exporter: {
      export: (spans, done) =>
        exporter.export(toShown === undefined ? spans : spans.map(toShown), (result) =>
          done(applyRemark(result)),
        ),
      forceFlush: async () => exporter.forceFlush?.(),
      shutdown: () => exporter.shutdown(),
      abort: () => exporter.abort?.(),
    },
    processor: (batches, settings) => new BatchSpanProcessor(batches, settings),
    settings: {
      maxQueueSize,
      maxExportBatchSize: Math.min(variables.batchSize ?? usualBatch, maxQueueSize),
      scheduledDelayMillis: variables.delayMs ?? DEFAULTS.scheduledDelayMillis,
      exportTimeoutMillis: exportTimeoutMs ?? batchTimeoutMs ?? DEFAULTS.exportTimeoutMillis,
    },
    ...omitUndefined({ endpoint }),
  });
  const provider = new NodeTracerProvider({
    resource,
    spanLimits: { attributeValueLengthLimit: maxAttributeLength ?? MAX_ATTRIBUTE_LENGTH },
    spanProcessors: [queue],
    idGenerator: traceIdGenerator,
  });
  const tracer = provider.getTracer(OWN_PACKAGE.name, OWN_PACKAGE.version);
  const tracing = openTelemetry({ ...shown, tracer });
  registerProvider(provider);
  const settle = async (work: Promise<void>, bounds: unknown): Promise<DeliveryCounts> => {
    const stop = new AbortController();
    await Promise.race([work, sleep(clock, readBound(bounds), stop.signal)]);
    stop.abort();
    return queue.getCounts();
  };
  let isListening = true;
  return {
    tracing,
    flush: (bounds) => settle(queue.forceFlush(), bounds),
    shutdown: async (bounds) => {
      // Frees the global provider for another set-up, unless another provider is registered.
      if (findDelegate() === provider) trace.disable();
      const counts = await settle(queue.shutdown(), bounds);
      if (isListening) stopListening();
      isListening = false;
      return counts;
    },
  };
}

/**
 * Returns the resource. Later sources take precedence: our default, the environment, the option.
 */
function createResource(serviceName: string | undefined): Resource {
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

const offenders = new NamedOffenders();

/**
 * Returns the time limit. An invalid one is replaced by the default, with a warning: a flush must
 * not throw.
 */
function readBound(bounds: unknown = {}): number {
  const timeoutMs = isRecord(bounds) ? (bounds["timeoutMs"] ?? FLUSH_TIMEOUT_MS) : bounds;
  const isBound = typeof timeoutMs === "number" && timeoutMs >= 0 && timeoutMs < Infinity;
  if (isRecord(bounds) && isBound) return timeoutMs;
  const code = "ESPALIER_FLUSH_OPTIONS";
  const message =
    "Expected flush and shutdown to be given { timeoutMs } with a number from 0 up, got " +
    `${inWords(timeoutMs)}. The default is used, ${FLUSH_TIMEOUT_MS}.`;
  offenders.warn(code, message, code);
  return FLUSH_TIMEOUT_MS;
}

/**
 * Registers the provider in the global places that are free. A context manager of an earlier set-up
 * is reused.
 */
function registerProvider(provider: NodeTracerProvider): void {
  const taken = findRegisteredApi();
  if (taken?.trace === undefined) {
    provider.register({
      ...(taken?.context === undefined ? {} : { contextManager: null }),
      ...(taken?.propagation === undefined ? {} : { propagator: null }),
    });
  }
  if (findDelegate() === provider) return;
  const copies = findUnseenCopy(taken);
  warnOfVariable(
    copies === undefined
      ? "Expected setUpNodeTracing to find no OpenTelemetry SDK in this process, got one that was registered " +
          "before. Spans of runs are exported nevertheless, but those of instrumented libraries go to the other one. " +
          "Use openTelemetry() beside an SDK of your own."
      : `Expected one copy of @opentelemetry/api, got two: ${copies} Spans of runs are exported nevertheless, but those of ` +
          `instrumented libraries do not join their traces. ${ONE_COPY}`,
  );
}

function findDelegate(): unknown {
  const global = trace.getTracerProvider();
  return global instanceof ProxyTracerProvider ? global.getDelegate() : undefined;
}
