// What processors and exporters of OpenTelemetry have in common in every version of its SDK, so that
// ours needs none of them.

import type { Attributes, AttributeValue, SpanContext } from "@opentelemetry/api";

/** A finished span, as every SDK has it: what is read of it here. */
export interface FinishedSpan {
  /** What it has. */
  readonly attributes: Attributes;
  spanContext(): SpanContext;
}

/** What became of an export; code 0 is success. */
export interface AnyExportResult {
  /** 0 for a success, 1 for a failure. */
  readonly code: number;
  /** What went wrong. */
  readonly error?: Error;
  /** Of a success: so many of the spans were refused all the same; `error` is the reason. */
  readonly rejectedSpans?: number;
}

/** A `SpanExporter` of any SDK. */
export interface AnySpanExporter {
  export(spans: FinishedSpan[], done: (result: AnyExportResult) => void): void;
  forceFlush?(): Promise<void>;
  shutdown(): Promise<void>;
}

/** A `SpanProcessor` of any SDK: what a queue needs of it. */
export interface AnySpanProcessor {
  onEnd(span: FinishedSpan): void;
  forceFlush(): Promise<void>;
  shutdown(): Promise<void>;
}

/** As `BatchSpanProcessor` takes them, in SDK 2.x as its second argument, in 3.x with the exporter. */
export interface BatchSettings {
  /** Most spans that wait. */
  readonly maxQueueSize: number;
  /** Most spans of one export. */
  readonly maxExportBatchSize: number;
  /** Milliseconds between two exports. */
  readonly scheduledDelayMillis: number;
}

/** A span that is about to end, as SDKs that know `onEnding` hand it over. */
export interface EndingSpan extends FinishedSpan {
  setAttribute(key: string, value: AttributeValue): unknown;
}
