// Entry `espalier/otel`: spans through whatever OpenTelemetry SDK the application has set up.

import { trace, type Tracer } from "@opentelemetry/api";

import { checkBoolean, checkCount, checkKeys, defaultAdvice } from "../kernel/check.ts";
import { OWN_PACKAGE } from "../kernel/own-package.ts";
import { randomHex } from "../kernel/trace-ids.ts";
import type { Tracing } from "../protocol/tracing.ts";
import { contentSettings, SHOWN_OPTIONS, type RedactContent } from "./content/content.ts";
import { type MetricsOptions, RunMetrics } from "./metrics/run-metrics.ts";
import { SpanProjector } from "./spans/span-projector.ts";

export type { RedactContent } from "./content/content.ts";
export type { MetricsOptions } from "./metrics/run-metrics.ts";
export type { AnySpanExporter, AnySpanProcessor, FinishedSpan } from "./delivery/export-queue.ts";
export {
  ExportQueue,
  type DeliveryCounts,
  type ExportQueueOptions,
} from "./delivery/export-queue.ts";
export { traceIdGenerator } from "./spans/derived-ids.ts";

/** How runs are shown as traces and as metrics. */
export interface OpenTelemetryOptions extends MetricsOptions {
  /**
   * Makes the spans. Left out: the tracer `espalier` of the provider that is registered globally.
   */
  readonly tracer?: Tracer;
  /**
   * Whether spans hold what models and tools were given and what they answered: `true`, `false`, or how. Left out:
   * `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` as it is now decides, and without that there is none.
   */
  readonly content?:
    | boolean
    | {
        /** Returns the content that may leave the process. Left out: content leaves unchanged. */
        readonly redact?: RedactContent;
      };
  /**
   * So many spans a trace may have before subagents that begin, and agents that ask their models again, continue
   * in a further trace of the run, linked in both directions; 5,000 if left out, since viewers slow down
   * beyond. Events follow.
   */
  readonly maxSpansPerTrace?: number;
  /**
   * True: the context in which tools, models and MCP servers are called has `espalier.run.id` and
   * `espalier.agent.path` in its baggage, besides what the caller of the run put there. It leaves
   * the process in a header of every outgoing call that carries baggage. Default false.
   */
  readonly baggage?: boolean;
}

const MAX_SPANS_PER_TRACE = 5_000;

/**
 * Shows every run as one trace: `invoke_workflow` → `invoke_agent` → `chat` and `execute_tool`, a
 * subagent below the call that spawned it. Tool bodies and model clients run inside their spans, so
 * that instrumented libraries nest below them and `traceparent` travels on outgoing calls.
 *
 * No text of a task, a message, an argument or a result is exported, unless `content` allows it. Depends on
 * `@opentelemetry/api` alone: without an SDK it makes no spans and costs next to nothing, and
 * events still carry ids of their own. An SDK that is registered later takes effect with the next
 * run.
 *
 * Metrics of the same go to whatever `MeterProvider` the application has set up (docs/metrics.md).
 *
 * @throws EspalierError `invalid_option` for an option that does not exist or cannot be used.
 */
export function openTelemetry(options: OpenTelemetryOptions = {}): Tracing {
  checkKeys("openTelemetry", options, ["tracer", ...SHOWN_OPTIONS]);
  const content = contentSettings(options.content);
  const { maxSpansPerTrace = MAX_SPANS_PER_TRACE, baggage: hasBaggage = false } = options;
  checkCount("maxSpansPerTrace", maxSpansPerTrace, defaultAdvice(MAX_SPANS_PER_TRACE));
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
