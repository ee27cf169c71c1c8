// An OpenTelemetry SDK that stores finished spans in memory, and its spans as plain values.

import {
  InMemorySpanExporter,
  NodeTracerProvider,
  SimpleSpanProcessor,
  type ReadableSpan,
} from "@opentelemetry/sdk-trace-node";
import { SpanKind, SpanStatusCode, type HrTime, type Tracer } from "@opentelemetry/api";

import type { EventDraft, TraceIds } from "../../../src/protocol/event.ts";
import type { Tracing } from "../../../src/protocol/tracing.ts";
import { START_MS } from "./run-script-facts.ts";
import { spanTree, type PlainSpan } from "./span-tree.ts";

export interface RecordedSpan extends PlainSpan {
  readonly startUs: number;
  readonly endUs: number;
  readonly traceId: string;
  readonly kind: string;
  readonly links: readonly {
    readonly traceId: string;
    readonly spanId: string;
    readonly attributes: Readonly<Record<string, unknown>>;
  }[];
  readonly events: readonly {
    readonly name: string;
    readonly atMs: number;
    readonly attributes: Readonly<Record<string, unknown>>;
  }[];
}

export interface Recorder {
  readonly provider: NodeTracerProvider;
  readonly tracer: Tracer;
  spans(): readonly RecordedSpan[];
}

export function recorder(): Recorder {
  const exporter = new InMemorySpanExporter();
  const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  return {
    provider,
    tracer: provider.getTracer("test"),
    spans: () => exporter.getFinishedSpans().map(recorded),
  };
}

/** Places all events and returns the ids of each. */
export function placeAll(tracing: Tracing, drafts: readonly EventDraft[]): readonly TraceIds[] {
  return drafts.map((draft) => tracing.traceEvent(draft));
}

const SHOWN = [
  "error.type",
  "espalier.outcome",
  "espalier.run.state",
  "espalier.spawn.outcome",
  "espalier.refusal.code",
  "gen_ai.tool.call.id",
  "gen_ai.usage.input_tokens",
  "espalier.subtree.total_tokens",
];

/** Returns the tree of all spans, with the attributes that report how they ended. */
export function treeOf(spans: readonly PlainSpan[]): string {
  return spanTree(spans, { originMs: START_MS, attributes: SHOWN });
}

/** Converts a span of the SDK to plain values. */
export function recorded(span: ReadableSpan): RecordedSpan {
  return {
    name: span.name,
    kind: SpanKind[span.kind],
    traceId: span.spanContext().traceId,
    spanId: span.spanContext().spanId,
    parentSpanId: span.parentSpanContext?.spanId,
    status: statusOf(span.status.code),
    attributes: span.attributes,
    events: span.events.map((event) => ({
      name: event.name,
      atMs: msOf(event.time),
      attributes: event.attributes ?? {},
    })),
    links: span.links.map((link) => ({
      traceId: link.context.traceId,
      spanId: link.context.spanId,
      attributes: link.attributes ?? {},
    })),
    startMs: msOf(span.startTime),
    endMs: msOf(span.endTime),
    startUs: usOf(span.startTime),
    endUs: usOf(span.endTime),
  };
}

function statusOf(code: SpanStatusCode): PlainSpan["status"] {
  if (code === SpanStatusCode.ERROR) return "ERROR";
  return code === SpanStatusCode.OK ? "OK" : "UNSET";
}

/** Returns whole milliseconds. */
function msOf(time: HrTime): number {
  return Math.floor(usOf(time) / 1_000);
}

function usOf([seconds, nanos]: HrTime): number {
  return seconds * 1_000_000 + nanos / 1_000;
}
