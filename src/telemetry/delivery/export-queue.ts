// ExportQueue: a `BatchSpanProcessor` with a queue for large trees, in which every span is counted.
// Owns the counts and the batches that wait for the exporter. Imports no SDK: the application creates
// the batch processor.
// 1. One batch is in flight at a time. A flush of the processor passes on all batches at once, and a
//    slow endpoint would answer few of them in time.
// 2. After two failures in a row, or one that the exporter has already retried, the endpoint is gone.
//    The waiting batches fail, so a dead endpoint does not hold up the end of the program.
// 3. delivered + lost + unconfirmed + pending is the number of spans that ended.
// 4. `onEnd` never waits, and no method throws or rejects because of the endpoint.

import { TraceFlags } from "@opentelemetry/api";

import { checkCount, checkKeys, checkMethods, mismatch } from "../../kernel/check.ts";
import { idleClock, type Clock } from "../../kernel/clock.ts";
import { messageOf } from "../../kernel/error.ts";
import { defined } from "../../kernel/json.ts";
import { emitWarning } from "../../kernel/warn-once.ts";
import { ESPALIER, GEN_AI, OPERATION } from "../gen-ai-attributes.ts";
import { MeteredInstruments } from "../metrics/instruments.ts";
import type {
  AnyExportResult,
  AnySpanExporter,
  AnySpanProcessor,
  BatchSettings,
  EndingSpan,
  FinishedSpan,
} from "./any-sdk.ts";
import {
  AFTER_SHUTDOWN,
  describeFailure,
  describeRefusal,
  NEVER_EXPORTED,
  QUEUE_FULL,
  type Loss,
} from "./export-loss.ts";

/** The exporter of a queue, and how many spans may wait for it. */
export interface ExportQueueOptions {
  /** Receives one batch at a time. Is shut down with the queue. */
  readonly exporter: AnySpanExporter;
  /**
   * Creates the batch processor. Pass both arguments on: the exporter counts spans, and the counts
   * rely on the settings.
   *
   * @example (exporter, settings) => new BatchSpanProcessor(exporter, settings)
   */
  readonly processor: (exporter: AnySpanExporter, settings: BatchSettings) => AnySpanProcessor;
  /** Settings that differ from their defaults. */
  readonly settings?: Partial<BatchSettings>;
  /** Address of the endpoint, for the warning about lost spans. */
  readonly endpoint?: string;
  /** Limits the time of an export. Left out: the clock of the machine. */
  readonly clock?: Clock;
}

/** Counts of the spans that ended since tracing was set up. */
export interface DeliveryCounts {
  /** Spans that the endpoint took. */
  readonly deliveredSpans: number;
  /** Spans that the endpoint did not take, or that found the queue full. */
  readonly lostSpans: number;
  /** Spans whose request timed out: the endpoint may have stored them. Absent if there are none. */
  readonly unconfirmedSpans?: number;
  /** Spans that wait or are being exported. */
  readonly pendingSpans: number;
  /** The last reason for which spans were lost or not confirmed. */
  readonly lastError?: string;
}

/** The queue holds a burst of 1,000 agents with 20 spans each twice. */
export const DEFAULTS: BatchSettings = {
  maxQueueSize: 40_960,
  maxExportBatchSize: 512,
  scheduledDelayMillis: 1_000,
  exportTimeoutMillis: 30_000,
};

/** The processor would count the time in which a batch waits, and its timer has an upper limit. */
const NO_TIMEOUT_MS = 2_147_000_000;
const SUCCESS = 0;
const FAILED = 1;
const MAX_FAILURES_IN_A_ROW = 2;

interface Batch {
  readonly spans: FinishedSpan[];
  /** Tells the processor that the batch is settled. Failures are counted here. */
  readonly done: () => void;
}

/**
 * A span processor for a provider of SDK 2.x or 3.x: a `BatchSpanProcessor` whose queue holds a large
 * tree. Counts all spans. Lost spans are a process warning, and the attribute
 * `espalier.telemetry.dropped_spans` of the next run that ends.
 *
 * @throws EspalierError `invalid_option` for options that do not fit.
 */
export class ExportQueue {
  readonly #options: ExportQueueOptions;
  readonly #settings: BatchSettings;
  readonly #processor: AnySpanProcessor;
  readonly #instruments = new MeteredInstruments();
  readonly #waiting: Batch[] = [];
  /** Settles when no batch waits or is in flight; `undefined` if there is none. */
  #sending: Promise<void> | undefined;
  #failuresInARow = 0;
  #isClosed = false;
  #hasWarned = false;
  #endedSpans = 0;
  #deliveredSpans = 0;
  #lostSpans = 0;
  #unconfirmedSpans = 0;
  /** Lost spans that no span of a run has reported yet. */
  #unreportedSpans = 0;
  #lastLoss: Loss | undefined;

  constructor(options: ExportQueueOptions) {
    checkOptions(options);
    this.#options = options;
    this.#settings = { ...DEFAULTS, ...options.settings };
    const batches: AnySpanExporter = {
      export: (spans, done) => {
        this.#waiting.push({ spans, done: () => done({ code: SUCCESS }) });
        this.#sending ??= this.#send();
      },
      shutdown: () => Promise.resolve(),
    };
    const settings = { ...this.#settings, exportTimeoutMillis: NO_TIMEOUT_MS };
    this.#processor = options.processor(batches, settings);
    const methods = ["onEnd", "forceFlush", "shutdown"];
    checkMethods("ExportQueue.processor(…)", this.#processor, methods);
  }

  onStart(): void {}

  /** Reports on the span of a run how many spans were lost before it ended. */
  onEnding(span: EndingSpan): void {
    const isRun = span.attributes[GEN_AI.operation] === OPERATION.workflow;
    if (this.#unreportedSpans === 0 || !isRun) return;
    span.setAttribute(ESPALIER.droppedSpans, this.#unreportedSpans);
    this.#unreportedSpans = 0;
  }

  onEnd(span: FinishedSpan): void {
    if ((span.spanContext().traceFlags & TraceFlags.SAMPLED) === 0) return;
    const isFull = this.#pendingSpans >= this.#settings.maxQueueSize;
    this.#endedSpans += 1;
    if (this.#isClosed) this.#loseSpans([span], AFTER_SHUTDOWN);
    else if (isFull) this.#loseSpans([span], QUEUE_FULL);
    else this.#processor.onEnd(span);
  }

  /** Sends all spans that have ended. Takes as long as the exporter does. Never rejects. */
  async forceFlush(): Promise<void> {
    await quietly(() => this.#processor.forceFlush());
    await this.#sending;
    await quietly(() => this.#options.exporter.forceFlush?.());
  }

  /** Flushes, and accepts no further spans. Never rejects. */
  async shutdown(): Promise<void> {
    this.#isClosed = true;
    await quietly(() => this.#processor.shutdown());
    await this.#sending;
    if (this.#pendingSpans > 0) this.#lose(this.#pendingSpans, NEVER_EXPORTED);
    await quietly(() => this.#options.exporter.shutdown());
  }

  counts(): DeliveryCounts {
    return {
      deliveredSpans: this.#deliveredSpans,
      lostSpans: this.#lostSpans,
      pendingSpans: this.#pendingSpans,
      ...(this.#unconfirmedSpans > 0 ? { unconfirmedSpans: this.#unconfirmedSpans } : {}),
      ...defined({ lastError: this.#lastLoss?.reason }),
    };
  }

  get #pendingSpans(): number {
    const settledSpans = this.#deliveredSpans + this.#lostSpans + this.#unconfirmedSpans;
    return this.#endedSpans - settledSpans;
  }

  /** Sends the waiting batches one after another. Runs in the untraced context of the first one. */
  async #send(): Promise<void> {
    for (let batch = this.#waiting.shift(); batch; batch = this.#waiting.shift()) {
      const result = await this.#export(batch.spans);
      if (result.code === SUCCESS) this.#deliver(batch, result);
      else this.#fail(batch, describeFailure(result.error));
    }
    this.#sending = undefined;
    this.#warn();
  }

  #export(spans: FinishedSpan[]): Promise<AnyExportResult> {
    const { exporter, clock = idleClock } = this.#options;
    const { exportTimeoutMillis: timeoutMs } = this.#settings;
    return new Promise((resolve) => {
      const answer = (result: AnyExportResult): void => {
        stopTimer();
        resolve(result);
      };
      const stopTimer = clock.setTimer(timeoutMs, () => {
        const error = new Error(`no answer within ${timeoutMs.toLocaleString("en")} ms`);
        answer({ code: FAILED, error: Object.assign(error, { name: "TimeoutError" }) });
        exporter.abort?.();
      });
      // An async export may reject. If it resolves, it has called `answer`.
      (async () => exporter.export(spans, answer))().catch((cause: unknown) =>
        answer({ code: FAILED, error: new Error(messageOf(cause), { cause }) }),
      );
    });
  }

  #deliver({ spans, done }: Batch, { error, rejectedSpans = 0 }: AnyExportResult): void {
    const lostSpans = rejectedSpans > 0 ? Math.min(rejectedSpans, spans.length) : 0;
    this.#failuresInARow = 0;
    this.#deliveredSpans += spans.length - lostSpans;
    if (lostSpans > 0) this.#lose(lostSpans, describeRefusal(error));
    done();
  }

  /** Counts a failed batch, and fails the waiting batches if the endpoint is gone. */
  #fail({ spans, done }: Batch, loss: Loss): void {
    this.#failuresInARow += 1;
    this.#loseSpans(spans, loss);
    done();
    if (loss.isFinal !== true && this.#failuresInARow < MAX_FAILURES_IN_A_ROW) return;
    // The waiting batches were never sent, so none of them is unconfirmed.
    const { reason, advice } = loss;
    const unsent: Loss = { reason: `given up after ${reason}`, advice };
    for (const batch of this.#waiting.splice(0)) this.#fail(batch, unsent);
  }

  /** Counts lost spans. If one of them reported earlier losses, the next run reports these again. */
  #loseSpans(spans: readonly FinishedSpan[], loss: Loss): void {
    for (const { attributes } of spans)
      this.#unreportedSpans += Number(attributes[ESPALIER.droppedSpans] ?? 0);
    this.#lose(spans.length, loss);
  }

  #lose(spans: number, loss: Loss): void {
    const isUnconfirmed = loss.isUnconfirmed === true;
    if (isUnconfirmed) this.#unconfirmedSpans += spans;
    else {
      this.#lostSpans += spans;
      this.#unreportedSpans += spans;
    }
    this.#lastLoss = loss;
    this.#instruments.find()?.measure(isUnconfirmed ? "unconfirmedSpans" : "droppedSpans", spans);
    // With the whole burst in its count. While batches are sent, their end gives the warning.
    if (this.#sending === undefined) queueMicrotask(() => this.#warn());
  }

  #warn(): void {
    if (this.#hasWarned || this.#lastLoss === undefined) return;
    this.#hasWarned = true;
    const { reason, advice } = this.#lastLoss;
    const { endpoint } = this.#options;
    const where = endpoint === undefined ? "" : ` ${endpoint}`;
    const [lost, unconfirmed] = [this.#lostSpans, this.#unconfirmedSpans];
    const counts =
      (lost > 0 ? `Spans lost: ${lost}. ` : "") +
      (unconfirmed > 0 ? `Spans that the endpoint may have stored: ${unconfirmed}. ` : "");
    emitWarning(
      `Expected the trace endpoint${where} to take all spans, got: ${reason}. ${counts}Traces have ` +
        `gaps; runs are not affected. ${advice} Further losses are counted, without another warning.`,
      "ESPALIER_SPANS_LOST",
    );
  }
}

async function quietly(work: () => Promise<void> | undefined): Promise<void> {
  try {
    await work();
  } catch {
    // Failures are counted where they happen.
  }
}

const LEAVE_OUT = "Leave it out for the measured default.";

function checkOptions(options: ExportQueueOptions): void {
  const known = ["exporter", "processor", "settings", "endpoint", "clock"];
  checkKeys("ExportQueue", options, known);
  const { exporter, processor, settings = {} } = options;
  checkMethods("ExportQueue.exporter", exporter, ["export", "shutdown"]);
  if (typeof processor !== "function") {
    const advice = "Create a BatchSpanProcessor from its two arguments.";
    throw mismatch("ExportQueue.processor", "a function", processor, advice);
  }
  checkKeys("ExportQueue.settings", settings, Object.keys(DEFAULTS));
  for (const [name, value] of Object.entries(settings))
    checkCount(`ExportQueue.settings.${name}`, value, LEAVE_OUT);
}
