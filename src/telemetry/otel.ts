// Entry `espalier/otel`: spans through the OpenTelemetry SDK of the application.

import { trace, type Tracer } from "@opentelemetry/api";

import { checkBoolean, checkCount, checkKeys, adviseDefault } from "../kernel/argument-checks.ts";
import { OWN_PACKAGE } from "../kernel/own-package.ts";
import { randomHex } from "../kernel/trace-ids.ts";
import type { Tracing } from "../protocol/tracing.ts";
import { resolveContentSettings, SHOWN_OPTIONS, type RedactContent } from "./spans/span-content.ts";
import { type MetricsOptions, RunMetrics } from "./metrics/run-metrics.ts";
import { SpanProjector } from "./spans/span-projector.ts";

export type { RedactContent } from "./spans/span-content.ts";
export type { MetricsOptions } from "./metrics/run-metrics.ts";
export type { AnySpanExporter, AnySpanProcessor, FinishedSpan } from "./delivery/export-queue.ts";
export {
  ExportQueue,
  type DeliveryCounts,
  type ExportQueueOptions,
} from "./delivery/export-queue.ts";
export { traceIdGenerator } from "./spans/derived-ids.ts";

/** Options for the traces and metrics of runs. */
export interface OpenTelemetryOptions extends MetricsOptions {
  /**
   * Tracer that creates the spans.
   *
   * @default the tracer `espalier` of the provider that is registered globally
   *
   * @example
   * ```ts
   * import { trace } from "@opentelemetry/api";
   *
   * const tracing = openTelemetry({ tracer: trace.getTracer("survey") });
   * ```
   */
  readonly tracer?: Tracer;
  /**
   * Whether spans contain the requests and replies of models, and the arguments and results of
   * tools. `{ redact }` exports what the function returns.
   *
   * @default by the environment variable `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`, else
   * `false`
   *
   * @example
   * ```ts
   * const orchestrator = new Orchestrator({ tracing: openTelemetry({ content: true }) });
   * ```
   */
  readonly content?:
    | boolean
    | {
        /**
         * Removes confidential parts.
         *
         * @default exports content unchanged
         */
        readonly redact?: RedactContent;
      };
  /**
   * Number of spans after which a run continues in a further trace, linked in both directions. New
   * subagents and further model calls go there. Viewers slow down with larger traces.
   *
   * @default 5_000
   */
  readonly maxSpansPerTrace?: number;
  /**
   * Whether tools, models and MCP servers are called with `espalier.run.id` and
   * `espalier.agent.path` in the OpenTelemetry baggage. Instrumented clients then send both in a
   * header of every outgoing request.
   *
   * @default false
   */
  readonly baggage?: boolean;
}

const MAX_SPANS_PER_TRACE = 5_000;

/**
 * Creates the tracing of an orchestrator on the OpenTelemetry SDK that the application has set up.
 * `setUpNodeTracing` of `espalier/otel/node` sets up an SDK as well.
 *
 * Each run is one trace: `invoke_workflow`, below it `invoke_agent`, below that `chat` and
 * `execute_tool`. A subagent is below the call that started it. Tools and model clients run inside
 * their spans, so that spans of instrumented libraries nest below them.
 *
 * Spans contain no text of a task, message, argument or result unless `content` allows it. Without
 * an SDK there are no spans, and events have ids of their own. An SDK that is registered later
 * takes effect with the next run. Metrics go to the `MeterProvider` of the application.
 *
 * @throws EspalierError `invalid_argument` if an option is unknown or invalid.
 *
 * @example
 * ```ts
 * const orchestrator = new Orchestrator({ tracing: openTelemetry() });
 * ```
 */
export function openTelemetry(options: OpenTelemetryOptions = {}): Tracing {
  checkKeys("openTelemetry", options, ["tracer", ...SHOWN_OPTIONS]);
  const content = resolveContentSettings(options.content);
  const { maxSpansPerTrace = MAX_SPANS_PER_TRACE, baggage: hasBaggage = false } = options;
  checkCount("maxSpansPerTrace", maxSpansPerTrace, adviseDefault(MAX_SPANS_PER_TRACE));
  const metrics = new RunMetrics(options);
  const tracer = options.tracer ?? trace.getTracer(OWN_PACKAGE.name, OWN_PACKAGE.version);
  checkBoolean("baggage", hasBaggage);
  const globals = {
    hasTracer: options.tracer === undefined,
    hasMeter: options.meter === undefined,
  };
  const shown = { content, metrics, maxSpansPerTrace, hasBaggage, globals };
  return new SpanProjector(tracer, randomHex, shown);
}
