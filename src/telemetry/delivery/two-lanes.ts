// TwoLanes: finished spans on their way to one exporter, in two lanes, with every span accounted
// for. Depends on no SDK: the processor of a lane is made by the application.
// Owns two queues and the counts. Talks to an exporter and, once, to the user by a process warning.
// 1. Spans that hold the tree together have a lane of their own: a flood of leaves cannot push them
//    out. Spans end from the leaves up, so one full queue would lose the parents first.
// 2. delivered + lost + pending is the number of spans that ended. A lost span is counted, never
//    hidden, and said on the span of one run.
// 3. Nothing here throws or rejects because of the endpoint, and `onEnd` never waits for it.

import { TraceFlags } from "@opentelemetry/api";

import { checkCount, checkKeys, checkMethods, mismatch } from "../../kernel/check.ts";
import { idleClock } from "../../kernel/clock.ts";
import type {
  EndingSpan,
  LaneExporter,
  LaneProcessor,
  LaneResult,
  LaneSettings,
  LaneSpan,
} from "./any-sdk.ts";
import { DroppedSpans } from "../metrics/dropped-spans.ts";
import { ExportGate } from "./export-gate.ts";
import { ESPALIER, GEN_AI, OPERATION } from "../gen-ai-attributes.ts";
import { afterShutdown, neverExported, notQueued, notTaken, refused, type Loss } from "./loss.ts";
import { isStructural } from "./structural-span.ts";

/** How many finished spans each lane may hold. */
export interface LaneQueues {
  /** Runs, agents, calls that spawn, approvals; 8,192 if left out. */
  readonly structure?: number;
  /** Model calls, tool calls and all else; 32,768 if left out. */
  readonly leaves?: number;
}

export interface TwoLanesOptions {
  /** Takes the spans of both lanes, at most 8 batches at once. Is shut down with the lanes. */
  readonly exporter: LaneExporter;
  /**
   * Makes the processor of a lane; called twice. Hand both arguments on: the exporter is one that
   * counts, and the settings are those that the counts go by. Of the processor only `onEnd`,
   * `forceFlush` and `shutdown` are called.
   */
  readonly processor: (exporter: LaneExporter, settings: LaneSettings) => LaneProcessor;
  readonly queues?: LaneQueues;
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
const LANE_DEFAULTS = {
  structure: 8_192,
  leaves: 32_768,
  batchSize: 512,
  delayMs: 1_000,
  exportTimeoutMs: 30_000,
} as const;

/**
 * A span processor for a provider of your own, of SDK 2.x or 3.x: a burst of spans costs leaves
 * before it costs the tree, and whatever is lost is counted, warned about once, and said on the span
 * of the run as `espalier.telemetry.dropped_spans`.
 *
 * @throws EspalierError `invalid_option` for options that do not fit.
 */
export function twoLanes(options: TwoLanesOptions): TwoLanes {
  return new TwoLanes(options);
}

/** Fits wherever an SDK takes a `SpanProcessor`. */
export class TwoLanes {
  readonly #exporter: LaneExporter;
  readonly #gate: ExportGate;
  readonly #endpoint: string | undefined;
  readonly #dropped = new DroppedSpans();
  readonly #structure: Lane;
  readonly #leaves: Lane;
  #endedSpans = 0;
  #deliveredSpans = 0;
  #lostSpans = 0;
  /** Lost, and not yet said on the span of a run. */
  #unsaidSpans = 0;
  #lastLoss: Loss | undefined;

  constructor(options: TwoLanesOptions) {
    checkOptions(options);
    this.#exporter = options.exporter;
    const { exportTimeoutMs: timeoutMs = LANE_DEFAULTS.exportTimeoutMs } = options;
    this.#gate = new ExportGate(options.exporter, { timeoutMs, clock: idleClock });
    this.#endpoint = options.endpoint;
    const { structure = LANE_DEFAULTS.structure, leaves = LANE_DEFAULTS.leaves } =
      options.queues ?? {};
    this.#structure = new Lane(options, structure, this.#outlet(true));
    this.#leaves = new Lane(options, leaves, this.#outlet(false));
  }

  onStart(): void {}

  /** The span of a run says how much of the picture was missing when it ended. */
  onEnding(span: EndingSpan): void {
    if (this.#unsaidSpans === 0 || span.attributes[GEN_AI.operation] !== OPERATION.workflow) return;
    span.setAttribute(ESPALIER.droppedSpans, this.#unsaidSpans);
    this.#unsaidSpans = 0;
  }

  onEnd(span: LaneSpan): void {
    if ((span.spanContext().traceFlags & TraceFlags.SAMPLED) === 0) return;
    this.#endedSpans += 1;
    const lane = isStructural(span.attributes) ? this.#structure : this.#leaves;
    lane.take(span);
  }

  /**
   * Sends what is queued and waits for all that is on its way. Takes as long as the exporter does,
   * within `exportTimeoutMs` for each batch. Never rejects.
   */
  async forceFlush(): Promise<void> {
    await Promise.all([this.#structure.flush(), this.#leaves.flush()]);
    await this.#gate.idle();
    await quietly(() => this.#exporter.forceFlush?.());
  }

  /** The same, and takes no further spans. Never rejects. */
  async shutdown(): Promise<void> {
    await Promise.all([this.#structure.close(), this.#leaves.close()]);
    await this.#gate.idle();
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

  #outlet(isUrgent: boolean): LaneOutlet {
    return {
      send: (spans, done) =>
        this.#gate.send(spans, isUrgent, (result) => {
          this.#settled(spans, result);
          done(result);
        }),
      lost: (loss) => this.#lose(loss),
    };
  }

  #settled(spans: readonly LaneSpan[], { code, error, rejectedSpans = 0 }: LaneResult): void {
    if (code === SUCCESS) {
      // Which of them is unknown.
      const lostSpans = rejectedSpans > 0 ? Math.min(rejectedSpans, spans.length) : 0;
      this.#deliveredSpans += spans.length - lostSpans;
      if (lostSpans > 0) this.#lose(refused(lostSpans, error));
      return;
    }
    for (const { attributes } of spans) {
      this.#unsaidSpans += Number(attributes[ESPALIER.droppedSpans] ?? 0);
    }
    this.#lose(notTaken(spans.length, error));
  }

  #lose(loss: Loss): void {
    const { spans, reason, advice } = loss;
    const hasWarned = this.#lastLoss !== undefined;
    this.#lostSpans += spans;
    this.#unsaidSpans += spans;
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

/** Where the spans of a lane go. */
interface LaneOutlet {
  send(spans: LaneSpan[], done: (result: LaneResult) => void): void;
  lost(loss: Loss): void;
}

/**
 * One queue. Counts it itself, because a processor drops what exceeds it without a word, and because
 * a flush empties the queue of a processor: what is on its way is held in memory as well.
 */
class Lane {
  readonly #processor: LaneProcessor;
  readonly #maxQueueSize: number;
  readonly #outlet: LaneOutlet;
  /** Given to the processor, and not yet exported. */
  #queuedSpans = 0;
  /** Exported, and not yet answered. */
  #sentSpans = 0;
  #isClosed = false;

  constructor(options: TwoLanesOptions, maxQueueSize: number, outlet: LaneOutlet) {
    this.#maxQueueSize = maxQueueSize;
    this.#outlet = outlet;
    const counting: LaneExporter = {
      export: (spans, done) => {
        this.#queuedSpans -= spans.length;
        this.#sentSpans += spans.length;
        outlet.send(spans, (result) => {
          this.#sentSpans -= spans.length;
          done(result);
        });
      },
      // The lanes share the exporter: it is shut down once, by its owner.
      shutdown: () => Promise.resolve(),
    };
    this.#processor = options.processor(counting, {
      maxQueueSize,
      maxExportBatchSize: Math.min(options.batchSize ?? LANE_DEFAULTS.batchSize, maxQueueSize),
      scheduledDelayMillis: options.delayMs ?? LANE_DEFAULTS.delayMs,
    });
    const methods = ["onEnd", "forceFlush", "shutdown"];
    checkMethods("twoLanes.processor(…)", this.#processor, methods);
  }

  take(span: LaneSpan): void {
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

const OPTIONS: Readonly<Record<keyof TwoLanesOptions, true>> = {
  exporter: true,
  processor: true,
  queues: true,
  batchSize: true,
  delayMs: true,
  exportTimeoutMs: true,
  endpoint: true,
};

function checkOptions(options: TwoLanesOptions): void {
  checkKeys("twoLanes", options, Object.keys(OPTIONS));
  const { exporter, processor, queues = {}, batchSize, delayMs, exportTimeoutMs } = options;
  checkMethods("twoLanes.exporter", exporter, ["export", "shutdown"]);
  if (typeof processor !== "function") {
    const advice = "Make a BatchSpanProcessor of its two arguments.";
    throw mismatch("twoLanes.processor", "a function", processor, advice);
  }
  checkKeys("twoLanes.queues", queues, ["structure", "leaves"]);
  checkSize("twoLanes.queues.structure", queues.structure);
  checkSize("twoLanes.queues.leaves", queues.leaves);
  checkSize("twoLanes.batchSize", batchSize);
  if (delayMs !== undefined) checkCount("twoLanes.delayMs", delayMs, LEAVE_OUT);
  if (delayMs !== undefined && delayMs > LONGEST_DELAY_MS)
    throw mismatch("twoLanes.delayMs", "at most 2147483647", delayMs, LEAVE_OUT);
  checkSize("twoLanes.exportTimeoutMs", exportTimeoutMs);
}

/** A processor waits with one timer: what is longer is no wait at all. */
const LONGEST_DELAY_MS = 2 ** 31 - 1;
const LEAVE_OUT = "Leave it out for the measured default.";

function checkSize(field: string, value: number | undefined): void {
  if (value === undefined) return;
  checkCount(field, value, LEAVE_OUT);
  if (value === 0) throw mismatch(field, "at least 1", value, LEAVE_OUT);
}
