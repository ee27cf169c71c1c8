// ExportQueues: finished spans on their way to one exporter, in two queues, with every span accounted
// for. Depends on no SDK: the processor of a queue is made by the application.
// Owns two queues and the counts. Talks to an exporter and, once, to the user by a process warning.
// 1. Spans that hold the tree together have a queue of their own: a flood of leaves cannot push them
//    out. Spans end from the leaves up, so one full queue would lose the parents first.
// 2. delivered + lost + unconfirmed + pending is the number of spans that ended. A lost span is
//    counted, never hidden, and is on the span of one run.
// 3. Nothing here throws or rejects because of the endpoint, and `onEnd` never waits for it.

import { TraceFlags, type Attributes } from "@opentelemetry/api";

import { checkCount, checkKeys, checkMethods, mismatch } from "../../kernel/check.ts";
import { idleClock } from "../../kernel/clock.ts";
import { defined } from "../../kernel/json.ts";
import type {
  EndingSpan,
  AnySpanExporter,
  AnySpanProcessor,
  AnyExportResult,
  BatchSettings,
  FinishedSpan,
} from "./any-sdk.ts";
import { ExportLimiter, SUCCESS } from "./export-limiter.ts";
import { ESPALIER, GEN_AI, OPERATION } from "../gen-ai-attributes.ts";
import { MeteredInstruments } from "../metrics/instruments.ts";
import { afterShutdown, neverExported, notQueued, notTaken, refused, type Loss } from "./loss.ts";

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
   * An export that the exporter has not answered by then counts as not confirmed, and makes room for
   * others; 30,000 if left out. Give more than the exporter takes with its own retries.
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
  /** Sent in a request that timed out: the endpoint may have stored them. Absent if there are none. */
  readonly unconfirmedSpans?: number;
  /** Still queued or on their way. */
  readonly pendingSpans: number;
  /** Why spans were last lost or not confirmed. */
  readonly lastError?: string;
}

/**
 * Enough for 1,000 agents that end in one burst with 20 spans each. Measured: `npm run bench --
 * spans`.
 */
export const DEFAULTS = {
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

/**
 * One queue. Counts it itself, because a processor drops what exceeds it without a word, and because
 * a flush empties the queue of a processor: what is on its way is held in memory as well.
 */
interface Queue {
  readonly processor: AnySpanProcessor;
  readonly maxQueueSize: number;
  /** Given to the processor, and not yet exported. */
  queuedSpans: number;
  /** Exported, and not yet answered. */
  sentSpans: number;
}

/** Fits wherever an SDK takes a `SpanProcessor`. */
export class ExportQueues {
  readonly #options: ExportQueuesOptions;
  readonly #limiter: ExportLimiter;
  readonly #instruments = new MeteredInstruments();
  readonly #structure: Queue;
  readonly #leaves: Queue;
  #isClosed = false;
  #endedSpans = 0;
  #deliveredSpans = 0;
  #lostSpans = 0;
  #unconfirmedSpans = 0;
  /** Lost, and not yet on the span of a run. */
  #unrecordedSpans = 0;
  #lastLoss: Loss | undefined;

  constructor(options: ExportQueuesOptions) {
    checkOptions(options);
    this.#options = options;
    const { exportTimeoutMs: timeoutMs = DEFAULTS.exportTimeoutMs, queues = {} } = options;
    this.#limiter = new ExportLimiter(options.exporter, { timeoutMs, clock: idleClock });
    this.#structure = this.#queueOf(queues.structure ?? DEFAULTS.structure, true);
    this.#leaves = this.#queueOf(queues.leaves ?? DEFAULTS.leaves, false);
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
    const waitingSpans = queue.queuedSpans + queue.sentSpans;
    if (this.#isClosed) this.#lose(afterShutdown());
    else if (waitingSpans >= queue.maxQueueSize) this.#lose(notQueued(waitingSpans));
    else {
      queue.queuedSpans += 1;
      queue.processor.onEnd(span);
    }
  }

  /**
   * Sends what is queued and waits for all that is on its way. Takes as long as the exporter does,
   * within `exportTimeoutMs` for each batch. Never rejects.
   */
  async forceFlush(): Promise<void> {
    await this.#ofBoth(({ processor }) => processor.forceFlush());
    await this.#limiter.idle();
    await quietly(() => this.#options.exporter.forceFlush?.());
  }

  /** The same, and takes no further spans. Never rejects. */
  async shutdown(): Promise<void> {
    this.#isClosed = true;
    await this.#ofBoth(({ processor }) => processor.shutdown());
    const droppedSpans = this.#structure.queuedSpans + this.#leaves.queuedSpans;
    if (droppedSpans > 0) this.#lose(neverExported(droppedSpans));
    this.#structure.queuedSpans = this.#leaves.queuedSpans = 0;
    await this.#limiter.idle();
    await quietly(() => this.#options.exporter.shutdown());
  }

  counts(): DeliveryCounts {
    const settledSpans = this.#deliveredSpans + this.#lostSpans + this.#unconfirmedSpans;
    return {
      deliveredSpans: this.#deliveredSpans,
      lostSpans: this.#lostSpans,
      pendingSpans: this.#endedSpans - settledSpans,
      ...(this.#unconfirmedSpans > 0 ? { unconfirmedSpans: this.#unconfirmedSpans } : {}),
      ...defined({ lastError: this.#lastLoss?.reason }),
    };
  }

  /** Whether a report of the SDK is about the failure that was counted last. */
  hasCounted(report: string): boolean {
    const { sdkMessage } = this.#lastLoss ?? {};
    if (sdkMessage === undefined) return false;
    // The SDK reports an error as JSON.
    return report.includes(sdkMessage) || report.includes(JSON.stringify(sdkMessage).slice(1, -1));
  }

  #queueOf(maxQueueSize: number, isUrgent: boolean): Queue {
    const exporter: AnySpanExporter = {
      export: (spans, done) => {
        queue.queuedSpans -= spans.length;
        queue.sentSpans += spans.length;
        this.#limiter.send(spans, isUrgent, (result) => {
          this.#settle(spans, result);
          queue.sentSpans -= spans.length;
          done(result);
        });
      },
      // The queues share the exporter: it is shut down once, by its owner.
      shutdown: () => Promise.resolve(),
    };
    const { batchSize = DEFAULTS.batchSize, delayMs = DEFAULTS.delayMs } = this.#options;
    const processor = this.#options.processor(exporter, {
      maxQueueSize,
      maxExportBatchSize: Math.min(batchSize, maxQueueSize),
      scheduledDelayMillis: delayMs,
    });
    const methods = ["onEnd", "forceFlush", "shutdown"];
    checkMethods("exportQueues.processor(…)", processor, methods);
    const queue: Queue = { processor, maxQueueSize, queuedSpans: 0, sentSpans: 0 };
    return queue;
  }

  async #ofBoth(work: (queue: Queue) => Promise<void>): Promise<void> {
    const queues = [this.#structure, this.#leaves];
    await Promise.all(queues.map((queue) => quietly(() => work(queue))));
  }

  #settle(
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
    for (const { attributes } of spans)
      this.#unrecordedSpans += Number(attributes[ESPALIER.droppedSpans] ?? 0);
    const loss = notTaken(spans.length, error);
    if (loss.isUnconfirmed === true) this.#leaveUnconfirmed(loss);
    else this.#lose(loss);
  }

  #lose(loss: Loss): void {
    if (this.#lostSpans === 0)
      this.#warn(
        "ESPALIER_SPANS_LOST",
        `take all spans, got: ${loss.reason}. Traces have gaps; runs are not affected. ` +
          `${loss.advice} Further losses are counted, without another warning.`,
      );
    this.#lostSpans += loss.spans;
    this.#unrecordedSpans += loss.spans;
    this.#lastLoss = loss;
    this.#instruments.find()?.measure("droppedSpans", loss.spans);
  }

  #leaveUnconfirmed(loss: Loss): void {
    if (this.#unconfirmedSpans === 0)
      this.#warn(
        "ESPALIER_SPANS_UNCONFIRMED",
        `confirm all spans, got: ${loss.reason}. The endpoint may have stored the spans, so they ` +
          `count as not confirmed. ${loss.advice} Further timeouts are counted, without another warning.`,
      );
    this.#unconfirmedSpans += loss.spans;
    this.#lastLoss = loss;
    this.#instruments.find()?.measure("unconfirmedSpans", loss.spans);
  }

  #warn(code: string, text: string): void {
    const { endpoint } = this.#options;
    const where = endpoint === undefined ? "" : ` ${endpoint}`;
    const type = "EspalierWarning";
    process.emitWarning(`Expected the trace endpoint${where} to ${text}`, { type, code });
  }
}

/**
 * Whether a span holds the tree together: a run, an agent, a call that spawns one, an approval.
 * Without it, all that is below has no parent.
 */
function isStructural(attributes: Attributes): boolean {
  const operation = attributes[GEN_AI.operation];
  if (operation === OPERATION.workflow || operation === OPERATION.agent) return true;
  if (attributes[ESPALIER.approvalId] !== undefined) return true;
  return operation === OPERATION.tool && attributes[ESPALIER.toolKind] === "delegation";
}

/** What failed is in the counts: a flush gives them. */
async function quietly(work: () => Promise<void> | undefined): Promise<void> {
  try {
    await work();
  } catch {
    // Counted where it was exported.
  }
}

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
