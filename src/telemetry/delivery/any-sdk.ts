// Processors and exporters as every version of the OpenTelemetry SDK has them. Imports no SDK.

import type { Attributes, AttributeValue, SpanContext } from "@opentelemetry/api";

/** The part of a finished span that is read here. Every SDK has it. */
export interface FinishedSpan {
  /** Attributes of the span. */
  readonly attributes: Attributes;
  spanContext(): SpanContext;
}

/** The outcome of an export. */
export interface AnyExportResult {
  /** 0 for a success, 1 for a failure. */
  readonly code: number;
  /** The reason of a failure, or of `rejectedSpans`. */
  readonly error?: Error;
  /** Number of spans that the endpoint refused within a success. */
  readonly rejectedSpans?: number;
}

/** A `SpanExporter` of any SDK. */
export interface AnySpanExporter {
  export(spans: FinishedSpan[], done: (result: AnyExportResult) => void): void;
  forceFlush?(): Promise<void>;
  shutdown(): Promise<void>;
  /** Closes the connection of an export that exceeded its time. SDKs do not call this method. */
  abort?(): void;
}

/** A `SpanProcessor` of any SDK: the methods that a queue calls. */
export interface AnySpanProcessor {
  onEnd(span: FinishedSpan): void;
  forceFlush(): Promise<void>;
  shutdown(): Promise<void>;
}

/** Options of `BatchSpanProcessor`: its second argument in SDK 2.x, beside the exporter in 3.x. */
export interface BatchSettings {
  /** Largest number of spans that wait or are being exported; 40,960 by default. */
  readonly maxQueueSize: number;
  /** Largest number of spans of one export; 512 by default. More would block the event loop. */
  readonly maxExportBatchSize: number;
  /** Longest time in which a finished span waits for others; 1,000 by default. */
  readonly scheduledDelayMillis: number;
  /**
   * Time in which the exporter must answer, with its own retries; 30,000 by default. Counts from the
   * call of the exporter, not from the time at which a batch begins to wait.
   */
  readonly exportTimeoutMillis: number;
}

/** A span that is about to end, which SDKs that know `onEnding` pass on. */
export interface EndingSpan extends FinishedSpan {
  setAttribute(key: string, value: AttributeValue): unknown;
}
