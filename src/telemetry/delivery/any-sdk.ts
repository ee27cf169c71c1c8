// What processors and exporters of OpenTelemetry have in common in every version of its SDK, so that
// ours needs none of them.

import type { Attributes, AttributeValue, SpanContext } from "@opentelemetry/api";

/** A finished span, as every SDK has it: what is read of it here. */
export interface LaneSpan {
  readonly attributes: Attributes;
  spanContext(): SpanContext;
}

/** What became of an export; code 0 is success. */
export interface LaneResult {
  readonly code: number;
  readonly error?: Error;
  /** Of a success: so many of the spans were refused all the same; `error` is the reason. */
  readonly rejectedSpans?: number;
}

/** A `SpanExporter` of any SDK. */
export interface LaneExporter {
  export(spans: LaneSpan[], done: (result: LaneResult) => void): void;
  forceFlush?(): Promise<void>;
  shutdown(): Promise<void>;
}

/** A `SpanProcessor` of any SDK: what a lane needs of it. */
export interface LaneProcessor {
  onEnd(span: LaneSpan): void;
  forceFlush(): Promise<void>;
  shutdown(): Promise<void>;
}

/** As `BatchSpanProcessor` takes them, in SDK 2.x as its second argument, in 3.x with the exporter. */
export interface LaneSettings {
  readonly maxQueueSize: number;
  readonly maxExportBatchSize: number;
  readonly scheduledDelayMillis: number;
}

/** A span that is about to end, as SDKs that know `onEnding` hand it over. */
export interface EndingSpan extends LaneSpan {
  setAttribute(key: string, value: AttributeValue): unknown;
}
