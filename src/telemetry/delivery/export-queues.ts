// ExportQueues: finished spans on their way to one exporter, in two queues, with every span accounted
// for. Depends on no SDK: the processor of a queue is made by the application.
// Owns two queues and the counts. Talks to an exporter and, once, to the user by a process warning.
// 1. Spans that hold the tree together have a queue of their own: a flood of leaves cannot push them
//    out. Spans end from the leaves up, so one full queue would lose the parents first.
// 2. delivered + lost + pending is the number of spans that ended. A lost span is counted, never
//    hidden, and is on the span of one run.
// 3. Nothing here throws or rejects because of the endpoint, and `onEnd` never waits for it.

import { TraceFlags } from "@opentelemetry/api";

import { checkCount, checkKeys, checkMethods, mismatch } from "../../kernel/check.ts";
import { idleClock } from "../../kernel/clock.ts";
import type {
  EndingSpan,
  AnySpanExporter,
  AnySpanProcessor,
  AnyExportResult,
  BatchSettings,
  FinishedSpan,
} from "./any-sdk.ts";
import { DroppedSpans } from "../metrics/dropped-spans.ts";
import { ExportLimiter } from "./export-limiter.ts";
import { ESPALIER, GEN_AI, OPERATION } from "../gen-ai-attributes.ts";
import { afterShutdown, neverExported, notQueued, notTaken, refused, type Loss } from "./loss.ts";
import { isStructural } from "./structural-span.ts";

/** How many finished spans each queue may hold. */
export interface QueueSizes {
  /** Runs, agents, calls that spawn, approvals; 8,192 if left out. */
  readonly structure?: number;
  /** Model calls, tool calls and all else; 32,768 if left out. */
  readonly leaves?: number;
}

/** What sends the spans of the queues, and how many may wait. */
export interface ExportQueuesOptions {
  /** Takes the spans of both queues, at most 8 batches at once. Is shut down with the queues. */
  readonly exporter: AnySpanExporter;
  /**
   * Makes the processor of a queue; called twice. Hand both arguments on: the exporter is one that
   * counts, and the settings are those that the counts go by. Of the processor only `onEnd`,
   * `forceFlush` and `shutdown` are called.
   */
  readonly processor: (exporter: AnySpanExporter, settings: BatchSettings) => AnySpanProcessor;
  readonly queues?: QueueSizes;
  /** Spans of one export; 512 if left out. More of them stall the event loop. */
  readonly batchSize?: number;
  /** How long a finished span waits for others; 1,000 if left out. */
  readonly delayMs?: number;
  /**
   * An export that the exporter has not answered by then counts as lost, and makes room for others;
   * 30,000 if left out. Give more than the exporter takes with its own retries.
   */
  readonly exportTimeoutMs?: number;
  /** Where spans go, for the warning that some were lost. */
  readonly endpoint?: string;
}

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
 * Enough for 1,000 agents that end in one burst with 20 spans each. Measured: `npm run bench --
 * spans`.
 */
const DEFAULTS = {
  structure: 8_192,
  leaves: 32_768,
  batchSize: 512,
  delayMs: 1_000,
  exportTimeoutMs: 30_000,
} as const;

/**
 * A span processor for a provider of your own, of SDK 2.x or 3.x: a burst of spans costs leaves
 * before it costs the tree, and whatever is lost is counted, warned about once, and counted on the span
 * of the run as `espalier.telemetry.dropped_spans`.
 *
 * @throws EspalierError `invalid_option` for options that do not fit.
 */
export function exportQueues(options: ExportQueuesOptions): ExportQueues {
  return new ExportQueues(options);
}

/** Fits wherever an SDK takes a `SpanProcessor`. */
export class ExportQueues {
  readonly #exporter: AnySpanExporter;
  readonly #limiter: ExportLimiter;
  readonly #endpoint: string | undefined;
  readonly #dropped = new DroppedSpans();
  readonly #structure: ExportQueue;
  readonly #leaves: ExportQueue;
  #endedSpans = 0;
  #deliveredSpans = 0;
  #lostSpans = 0;
  /** Lost, and not yet on the span of a run. */
  #unrecordedSpans = 0;
  #lastLoss: Loss | undefined;

  constructor(options: ExportQueuesOptions) {
    checkOptions(options);
    this.#exporter = options.exporter;
    const { exportTimeoutMs: timeoutMs = DEFAULTS.exportTimeoutMs } = options;
    this.#limiter = new ExportLimiter(options.exporter, { timeoutMs, clock: idleClock });
    this.#endpoint = options.endpoint;
    const { structure = DEFAULTS.structure, leaves = DEFAULTS.leaves } = options.queues ?? {};
    this.#structure = new ExportQueue(options, structure, this.#outlet(true));
    this.#leaves = new ExportQueue(options, leaves, this.#outlet(false));
  }

  onStart(): void {}

  /** The span of a run shows how many spans were missing when it ended. */
  onEnding(span: EndingSpan): void {
    if (this.#unrecordedSpans === 0 || span.attributes[GEN_AI.operation] !== OPERATION.workflow)
      return;
    span.setAttribute(ESPALIER.droppedSpans, this.#unrecordedSpans);
    this.#unrecordedSpans = 0;
  }

  onEnd(span: FinishedSpan): void {
    if ((span.spanContext().traceFlags & TraceFlags.SAMPLED) === 0) return;
    this.#endedSpans += 1;
    const queue = isStructural(span.attributes) ? this.#structure : this.#leaves;
    queue.take(span);
  }

  /**
   * Sends what is queued and waits for all that is on its way. Takes as long as the exporter does,
   * within `exportTimeoutMs` for each batch. Never rejects.
   */
  async forceFlush(): Promise<void> {
    await Promise.all([this.#structure.flush(), this.#leaves.flush()]);
    await this.#limiter.idle();
    await quietly(() => this.#exporter.forceFlush?.());
  }

  /** The same, and takes no further spans. Never rejects. */
  async shutdown(): Promise<void> {
    await Promise.all([this.#structure.close(), this.#leaves.close()]);
    await this.#limiter.idle();
    await quietly(() => this.#exporter.shutdown());
  }

  counts(): DeliveryCounts {
    return {
      deliveredSpans: this.#deliveredSpans,
      lostSpans: this.#lostSpans,
      pendingSpans: this.#endedSpans - this.#deliveredSpans - this.#lostSpans,
      ...(this.#lastLoss === undefined ? {} : { lastError: this.#lastLoss.reason }),
    };
  }

  /** Whether a report of the SDK is about the failure that was counted last. */
  hasCounted(report: string): boolean {
    const { sdkMessage } = this.#lastLoss ?? {};
    if (sdkMessage === undefined) return false;
    // The SDK reports an error as JSON.
    return report.includes(sdkMessage) || report.includes(JSON.stringify(sdkMessage).slice(1, -1));
  }

  #outlet(isUrgent: boolean): Outlet {
    return {
      send: (spans, done) =>
        this.#limiter.send(spans, isUrgent, (result) => {
          this.#settled(spans, result);
          done(result);
        }),
      lost: (loss) => this.#lose(loss),
    };
  }

  #settled(
    spans: readonly FinishedSpan[],
    { code, error, rejectedSpans = 0 }: AnyExportResult,
  ): void {
    if (code === SUCCESS) {
      // Which of them is unknown.
      const lostSpans = rejectedSpans > 0 ? Math.min(rejectedSpans, spans.length) : 0;
      this.#deliveredSpans += spans.length - lostSpans;
      if (lostSpans > 0) this.#lose(refused(lostSpans, error));
      return;
    }
    for (const { attributes } of spans) {
      this.#unrecordedSpans += Number(attributes[ESPALIER.droppedSpans] ?? 0);
    }
    this.#lose(notTaken(spans.length, error));
  }

  #lose(loss: Loss): void {
    const { spans, reason, advice } = loss;
    const hasWarned = this.#lastLoss !== undefined;
    this.#lostSpans += spans;
    this.#unrecordedSpans += spans;
    this.#lastLoss = loss;
    this.#dropped.add(spans);
    if (hasWarned) return;
    const endpoint = this.#endpoint === undefined ? "" : ` ${this.#endpoint}`;
    process.emitWarning(
      `Expected the trace endpoint${endpoint} to take all spans, got: ${reason}. ` +
        `Traces have gaps; runs are not affected. ${advice} ` +
        "Further losses are counted, without another warning.",
      { type: "EspalierWarning", code: "ESPALIER_SPANS_LOST" },
    );
  }
}

/** Where the spans of a queue go. */
interface Outlet {
  send(spans: FinishedSpan[], done: (result: AnyExportResult) => void): void;
  lost(loss: Loss): void;
}

/**
 * One queue. Counts it itself, because a processor drops what exceeds it without a word, and because
 * a flush empties the queue of a processor: what is on its way is held in memory as well.
 */
class ExportQueue {
  readonly #processor: AnySpanProcessor;
  readonly #maxQueueSize: number;
  readonly #outlet: Outlet;
  /** Given to the processor, and not yet exported. */
  #queuedSpans = 0;
  /** Exported, and not yet answered. */
  #sentSpans = 0;
  #isClosed = false;

  constructor(options: ExportQueuesOptions, maxQueueSize: number, outlet: Outlet) {
    this.#maxQueueSize = maxQueueSize;
    this.#outlet = outlet;
    const counting: AnySpanExporter = {
      export: (spans, done) => {
        this.#queuedSpans -= spans.length;
        this.#sentSpans += spans.length;
        outlet.send(spans, (result) => {
          this.#sentSpans -= spans.length;
          done(result);
        });
      },
      // The queues share the exporter: it is shut down once, by its owner.
      shutdown: () => Promise.resolve(),
    };
    this.#processor = options.processor(counting, {
      maxQueueSize,
      maxExportBatchSize: Math.min(options.batchSize ?? DEFAULTS.batchSize, maxQueueSize),
      scheduledDelayMillis: options.delayMs ?? DEFAULTS.delayMs,
    });
    const methods = ["onEnd", "forceFlush", "shutdown"];
    checkMethods("exportQueues.processor(…)", this.#processor, methods);
  }

  take(span: FinishedSpan): void {
    const waitingSpans = this.#queuedSpans + this.#sentSpans;
    if (this.#isClosed) this.#outlet.lost(afterShutdown());
    else if (waitingSpans >= this.#maxQueueSize) this.#outlet.lost(notQueued(waitingSpans));
    else {
      this.#queuedSpans += 1;
      this.#processor.onEnd(span);
    }
  }

  flush(): Promise<void> {
    return quietly(() => this.#processor.forceFlush());
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await quietly(() => this.#processor.shutdown());
    if (this.#queuedSpans > 0) this.#outlet.lost(neverExported(this.#queuedSpans));
    this.#queuedSpans = 0;
  }
}

/** What failed is in the counts: a flush gives them. */
async function quietly(work: () => Promise<void> | undefined): Promise<void> {
  try {
    await work();
  } catch {
    // Counted where it was exported.
  }
}

/** `ExportResultCode` of `@opentelemetry/core`. */
const SUCCESS = 0;

const OPTIONS: Readonly<Record<keyof ExportQueuesOptions, true>> = {
  exporter: true,
  processor: true,
  queues: true,
  batchSize: true,
  delayMs: true,
  exportTimeoutMs: true,
  endpoint: true,
};

function checkOptions(options: ExportQueuesOptions): void {
  checkKeys("exportQueues", options, Object.keys(OPTIONS));
  const { exporter, processor, queues = {}, batchSize, delayMs, exportTimeoutMs } = options;
  checkMethods("exportQueues.exporter", exporter, ["export", "shutdown"]);
  if (typeof processor !== "function") {
    const advice = "Make a BatchSpanProcessor of its two arguments.";
    throw mismatch("exportQueues.processor", "a function", processor, advice);
  }
  checkKeys("exportQueues.queues", queues, ["structure", "leaves"]);
  checkSize("exportQueues.queues.structure", queues.structure);
  checkSize("exportQueues.queues.leaves", queues.leaves);
  checkSize("exportQueues.batchSize", batchSize);
  if (delayMs !== undefined) checkCount("exportQueues.delayMs", delayMs, LEAVE_OUT);
  if (delayMs !== undefined && delayMs > LONGEST_DELAY_MS)
    throw mismatch("exportQueues.delayMs", "at most 2147483647", delayMs, LEAVE_OUT);
  checkSize("exportQueues.exportTimeoutMs", exportTimeoutMs);
}

/** A processor waits with one timer: what is longer is no wait at all. */
const LONGEST_DELAY_MS = 2 ** 31 - 1;
const LEAVE_OUT = "Leave it out for the measured default.";

function checkSize(field: string, value: number | undefined): void {
  if (value === undefined) return;
  checkCount(field, value, LEAVE_OUT);
  if (value === 0) throw mismatch(field, "at least 1", value, LEAVE_OUT);
}
