// Entry `espalier/otel`: spans through whatever OpenTelemetry SDK the application has set up.

import { trace, type Tracer } from "@opentelemetry/api";

import { checkKeys } from "../kernel/check.ts";
import { randomHex } from "../kernel/trace-ids.ts";
import type { Tracing } from "../protocol/event-sink.ts";
import { INSTRUMENTATION } from "./gen-ai-attributes.ts";
import { SpanProjector } from "./span-projector.ts";

export interface OpenTelemetryOptions {
  /**
   * Makes the spans. Left out: the tracer `espalier` of the provider that is registered globally.
   */
  readonly tracer?: Tracer;
}

/**
 * Shows every run as one trace: `invoke_workflow` → `invoke_agent` → `chat` and `execute_tool`, a
 * subagent below the call that spawned it. Tool bodies and model clients run inside their spans, so
 * that instrumented libraries nest below them and `traceparent` travels on outgoing calls.
 *
 * No text of a task, a message, an argument or a result is exported. Depends on
 * `@opentelemetry/api` alone: without an SDK it makes no spans and costs next to nothing, and
 * events still carry ids of their own. An SDK that is registered later takes effect with the next
 * run.
 *
 * @throws EspalierError `invalid_option` for an option that does not exist.
 */
export function openTelemetry(options: OpenTelemetryOptions = {}): Tracing {
  checkKeys("openTelemetry", options, ["tracer"]);
  const tracer = options.tracer ?? trace.getTracer(INSTRUMENTATION.name, INSTRUMENTATION.version);
  return new SpanProjector(tracer, randomHex);
}
