// SpanDelivery: finished spans on their way to one exporter, in two lanes, with every span
// accounted for.
// Owns two queues and the counts. Talks to an exporter and, once, to the user by a process warning.
// 1. Spans that hold the tree together have a lane of their own: a flood of leaves cannot push them
//    out. Spans end from the leaves up, so one full queue would lose the parents first.
// 2. delivered + lost + pending is the number of spans that ended. A lost span is counted, never
//    hidden.
// 3. Nothing here throws or rejects because of the endpoint, and `onEnd` never waits for it.

import { TraceFlags } from "@opentelemetry/api";
import {
  BatchSpanProcessor,
  type ReadableSpan,
  type Span,
  type SpanExporter,
  type SpanProcessor,
} from "@opentelemetry/sdk-trace-node";

import { messageOf } from "../kernel/error.ts";
import { ESPALIER, GEN_AI, OPERATION } from "./gen-ai-attributes.ts";

/** What became of the spans that ended since tracing was set up. */
export interface DeliveryCounts {
  /** Taken by the endpoint. */
  readonly deliveredSpans: number;
  /** Given up: the endpoint did not take them, or the queue was full. */
  readonly lostSpans: number;
  /** Still queued or on their way. */
  readonly pendingSpans: number;
  /** Why spans were lost last. */
  readonly lastError?: string;
}

/**
 * How many finished spans may wait, by lane. Measured: enough for 1,000 agents that end in one
 * burst.
 */
const QUEUE_SIZE: QueueSize = { structure: 8_192, leaves: 32_768 };
/** Larger batches stall the event loop: 512 spans take 3.5 ms to encode, 2,048 take 34. */
const BATCH_SIZE = 512;
const DELAY_MS = 1_000;
/** Both queues can be in flight at once; the exporter refuses what exceeds it. */
export const MAX_EXPORTS_IN_FLIGHT = 128;

/** How many finished spans each lane may hold. */
interface QueueSize {
  readonly structure: number;
  readonly leaves: number;
}

type ExportDone = Parameters<SpanExporter["export"]>[1];
type ExportResult = Parameters<ExportDone>[0];
/** `ExportResultCode` of `@opentelemetry/core`. */
const SUCCESS: ExportResult["code"] = 0;
const FAILED: ExportResult["code"] = 1;

export class SpanDelivery implements SpanProcessor {
  readonly #exporter: SpanExporter;
  readonly #structure: Lane;
  readonly #leaves: Lane;
  #endedSpans = 0;
  #deliveredSpans = 0;
  #lostSpans = 0;
  #lastError: string | undefined;
  #hasWarned = false;

  constructor(exporter: SpanExporter, queueSize: QueueSize = QUEUE_SIZE) {
    const settled = (spans: number, result: ExportResult): void => this.#settled(spans, result);
    this.#exporter = exporter;
    this.#structure = new Lane(exporter, queueSize.structure, settled);
    this.#leaves = new Lane(exporter, queueSize.leaves, settled);
  }

  onStart(): void {}

  /** A run's own span says how much of the picture was missing when it ended. */
  onEnding(span: Span): void {
    if (this.#lostSpans === 0 || span.attributes[GEN_AI.operation] !== OPERATION.workflow) return;
    span.setAttribute(ESPALIER.droppedSpans, this.#lostSpans);
  }

  onEnd(span: ReadableSpan): void {
    if ((span.spanContext().traceFlags & TraceFlags.SAMPLED) === 0) return;
    this.#endedSpans += 1;
    const lane = isStructural(span) ? this.#structure : this.#leaves;
    const refusal = lane.take(span);
    if (refusal !== undefined) this.#lose(1, refusal);
  }

  /**
   * Sends what is queued and waits for all that is on its way. Takes as long as the exporter does.
   */
  async forceFlush(): Promise<void> {
    await Promise.allSettled([this.#structure.flush(), this.#leaves.flush()]);
    await Promise.allSettled([this.#exporter.forceFlush?.()]);
  }

  async shutdown(): Promise<void> {
    await Promise.allSettled([this.#structure.close(), this.#leaves.close()]);
    await Promise.allSettled([this.#exporter.shutdown()]);
  }

  counts(): DeliveryCounts {
    return {
      deliveredSpans: this.#deliveredSpans,
      lostSpans: this.#lostSpans,
      pendingSpans: this.#endedSpans - this.#deliveredSpans - this.#lostSpans,
      ...(this.#lastError === undefined ? {} : { lastError: this.#lastError }),
    };
  }

  #settled(spans: number, result: ExportResult): void {
    if (result.code === SUCCESS) this.#deliveredSpans += spans;
    else this.#lose(spans, reasonOf(result.error));
  }

  #lose(spans: number, reason: string): void {
    this.#lostSpans += spans;
    this.#lastError = reason;
    if (this.#hasWarned) return;
    this.#hasWarned = true;
    process.emitWarning(
      `Expected the trace endpoint to take all spans, got: ${reason}. ` +
        "Traces have gaps; runs are not affected. Check OTEL_EXPORTER_OTLP_ENDPOINT. " +
        "Further losses are counted in the report of flush(), without another warning.",
      { type: "EspalierWarning", code: "ESPALIER_SPANS_LOST" },
    );
  }
}

/** One queue. Counts it itself, because the processor drops what exceeds it without a word. */
class Lane {
  readonly #processor: BatchSpanProcessor;
  readonly #maxQueueSize: number;
  #queuedSpans = 0;
  #isClosed = false;

  constructor(
    exporter: SpanExporter,
    maxQueueSize: number,
    settled: (spans: number, result: ExportResult) => void,
  ) {
    this.#maxQueueSize = maxQueueSize;
    this.#processor = new BatchSpanProcessor(
      {
        export: (spans, done) => {
          this.#queuedSpans -= spans.length;
          attempt(exporter, spans, (result) => {
            settled(spans.length, result);
            done(result);
          });
        },
        // The lanes share the exporter: it is shut down once, by its owner.
        shutdown: () => Promise.resolve(),
      },
      {
        maxQueueSize,
        maxExportBatchSize: Math.min(BATCH_SIZE, maxQueueSize),
        scheduledDelayMillis: DELAY_MS,
      },
    );
  }

  /** Queues a span, or says why not. */
  take(span: ReadableSpan): string | undefined {
    if (this.#isClosed) return "tracing was shut down before";
    if (this.#queuedSpans >= this.#maxQueueSize) return `${this.#queuedSpans} spans were waiting`;
    this.#queuedSpans += 1;
    this.#processor.onEnd(span);
    return undefined;
  }

  flush(): Promise<void> {
    return this.#processor.forceFlush();
  }

  close(): Promise<void> {
    this.#isClosed = true;
    return this.#processor.shutdown();
  }
}

function attempt(exporter: SpanExporter, spans: ReadableSpan[], done: ExportDone): void {
  try {
    exporter.export(spans, done);
  } catch (cause) {
    done({ code: FAILED, error: new Error(messageOf(cause), { cause }) });
  }
}

/** Workflows, agents and spawns: without them, all that is below has no parent. */
function isStructural({ attributes }: ReadableSpan): boolean {
  const operation = attributes[GEN_AI.operation];
  if (operation === OPERATION.tool) return attributes[ESPALIER.toolKind] === "delegation";
  return operation === OPERATION.workflow || operation === OPERATION.agent;
}

/** A refused connection to a name with two addresses has a code and no message. */
function reasonOf(error: Error | undefined): string {
  if (error === undefined) return "the endpoint did not take them";
  const code = "code" in error ? String(error.code) : "";
  return error.message || code || error.name;
}
