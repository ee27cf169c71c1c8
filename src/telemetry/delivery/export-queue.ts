// ExportQueue: a `BatchSpanProcessor` with a queue for large trees, in which every span is counted.
// Owns the counts and the batches that wait for the exporter. Imports no SDK: the application
// creates the batch processor.
// 1. One batch is in flight at a time. A flush of the processor passes on all batches at once, and
//    a slow endpoint would answer few batches in time.
// 2. After two failures in a row, or a failure that the exporter has already retried, the endpoint
//    is considered gone. The waiting batches fail, so a dead endpoint does not hold up the end of
//    the program.
// 3. delivered + lost + unconfirmed + pending is the number of spans that ended.
// 4. `onEnd` never waits, and no method throws or rejects because of the endpoint.

import {
  TraceFlags,
  type Attributes,
  type AttributeValue,
  type SpanContext,
} from "@opentelemetry/api";

import { checkCount, checkKeys, checkMethods, mismatch } from "../../kernel/argument-checks.ts";
import { idleClock, type Clock } from "../../kernel/clock.ts";
import { getErrorMessage } from "../../kernel/error.ts";
import { omitUndefined } from "../../kernel/json.ts";
import { emitWarning } from "../../kernel/warn-once.ts";
import { ESPALIER, GEN_AI, OPERATION } from "../gen-ai-attributes.ts";
import { MeteredInstruments } from "../metrics/run-metrics.ts";

/** Options of `new ExportQueue()`. */
export interface ExportQueueOptions {
  /** Exporter of the spans. It receives one batch at a time, and is shut down with the queue. */
  readonly exporter: AnySpanExporter;
  /**
   * Creates the batch processor. Pass both arguments on: the counts of the queue rely on the
   * exporter and the settings.
   *
   * @example
   * ```ts
   * import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
   * import { BatchSpanProcessor } from "@opentelemetry/sdk-trace-node";
   *
   * const queue = new ExportQueue({
   *   exporter: new OTLPTraceExporter(),
   *   processor: (exporter, settings) => new BatchSpanProcessor(exporter, settings),
   * });
   * ```
   */
  readonly processor: (
    exporter: AnySpanExporter,
    settings: Required<NonNullable<ExportQueueOptions["settings"]>>,
  ) => AnySpanProcessor;
  /** Options of `BatchSpanProcessor`: the second argument of `processor`. */
  readonly settings?: {
    /**
     * Largest number of spans that wait or are being exported.
     *
     * @default 40_960
     */
    readonly maxQueueSize?: number;
    /**
     * Largest number of spans in one export. Larger batches block the event loop.
     *
     * @default 512
     */
    readonly maxExportBatchSize?: number;
    /**
     * Longest time that an ended span waits for others, in milliseconds.
     *
     * @default 1_000
     */
    readonly scheduledDelayMillis?: number;
    /**
     * Longest time of one export, in milliseconds, including retries of the exporter. The wait for
     * earlier batches does not count.
     *
     * @default 30_000
     */
    readonly exportTimeoutMillis?: number;
  };
  /** Address of the endpoint, for the warning about lost spans. */
  readonly endpoint?: string;
  /**
   * Clock that limits the time of an export.
   *
   * @default the clock of the machine
   */
  readonly clock?: Clock;
}

/** Counts of the spans that ended since tracing was set up. */
export interface DeliveryCounts {
  /** Spans that the endpoint accepted. */
  readonly deliveredSpans: number;
  /** Spans that the endpoint did not accept, or that found the queue full. */
  readonly lostSpans: number;
  /** Spans whose request timed out: the endpoint may have stored them. Absent if there are none. */
  readonly unconfirmedSpans?: number;
  /** Spans that wait or are being exported. */
  readonly pendingSpans: number;
  /** Last reason for which spans were lost or not confirmed. Absent if there was none. */
  readonly lastError?: string;
}

/** The queue holds twice a burst of 1,000 agents with 20 spans each. */
export const DEFAULTS: BatchSettings = {
  maxQueueSize: 40_960,
  maxExportBatchSize: 512,
  scheduledDelayMillis: 1_000,
  exportTimeoutMillis: 30_000,
};

/**
 * Disables the time limit of the processor, which would include the wait of a batch. Timers have a
 * maximum.
 */
const NO_TIMEOUT_MS = 2_147_000_000;
const SUCCESS = 0;
const FAILED = 1;
const MAX_FAILURES_IN_A_ROW = 2;

interface SpanBatch {
  readonly spans: FinishedSpan[];
  /** Informs the processor that the batch is settled. Failures are counted here. */
  readonly done: () => void;
}

/**
 * Span processor for a provider of the OpenTelemetry SDK 2.x or 3.x: a `BatchSpanProcessor` with a
 * queue for large trees, which counts all spans.
 *
 * Lost spans cause one process warning. The next run that ends reports their number in the span
 * attribute `espalier.telemetry.dropped_spans`.
 *
 * @example
 * ```ts
 * import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
 * import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
 *
 * const queue = new ExportQueue({
 *   exporter: new OTLPTraceExporter(),
 *   processor: (exporter, settings) => new BatchSpanProcessor(exporter, settings),
 * });
 * new NodeTracerProvider({ spanProcessors: [queue], idGenerator: traceIdGenerator }).register();
 * ```
 */
export class ExportQueue {
  readonly #options: ExportQueueOptions;
  readonly #settings: BatchSettings;
  readonly #processor: AnySpanProcessor;
  readonly #instruments = new MeteredInstruments();
  readonly #waiting: SpanBatch[] = [];
  /** Settles when no batch waits or is in flight. `undefined` while nothing is sent. */
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

  /**
   * Creates a queue with its batch processor.
   *
   * @throws EspalierError `invalid_argument` if an option is invalid.
   */
  constructor(options: ExportQueueOptions) {
    checkQueueOptions(options);
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

  /** Does nothing; the SDK calls it when a span starts. */
  onStart(): void {}

  /**
   * Records the number of lost spans on the span of a run. Called by SDKs that support `onEnding`.
   */
  onEnding(
    span: FinishedSpan & { setAttribute(key: string, value: AttributeValue): unknown },
  ): void {
    const isRun = span.attributes[GEN_AI.operation] === OPERATION.workflow;
    if (this.#unreportedSpans === 0 || !isRun) return;
    span.setAttribute(ESPALIER.droppedSpans, this.#unreportedSpans);
    this.#unreportedSpans = 0;
  }

  /** Adds an ended span to the queue. Never waits. A span that was not sampled is ignored. */
  onEnd(span: FinishedSpan): void {
    if ((span.spanContext().traceFlags & TraceFlags.SAMPLED) === 0) return;
    const isFull = this.#pendingSpans >= this.#settings.maxQueueSize;
    this.#endedSpans += 1;
    if (this.#isClosed) this.#countLostSpans([span], AFTER_SHUTDOWN);
    else if (isFull) this.#countLostSpans([span], QUEUE_FULL);
    else this.#processor.onEnd(span);
  }

  /** Sends all ended spans, without a time limit of its own. Never rejects. */
  async forceFlush(): Promise<void> {
    await runQuietly(() => this.#processor.forceFlush());
    await this.#sending;
    await runQuietly(() => this.#options.exporter.forceFlush?.());
  }

  /** Sends all ended spans, and accepts no further ones. Never rejects. */
  async shutdown(): Promise<void> {
    this.#isClosed = true;
    await runQuietly(() => this.#processor.shutdown());
    await this.#sending;
    if (this.#pendingSpans > 0) this.#countLoss(this.#pendingSpans, NEVER_EXPORTED);
    await runQuietly(() => this.#options.exporter.shutdown());
  }

  /**
   * Returns the counts of spans up to now.
   *
   * @example
   * ```ts
   * const report = (queue: ExportQueue) => {
   *   const { deliveredSpans, lostSpans, lastError } = queue.getCounts();
   *   console.log(`${deliveredSpans} delivered, ${lostSpans} lost`, lastError ?? "");
   * };
   * ```
   */
  getCounts(): DeliveryCounts {
    return {
      deliveredSpans: this.#deliveredSpans,
      lostSpans: this.#lostSpans,
      pendingSpans: this.#pendingSpans,
      ...(this.#unconfirmedSpans > 0 ? { unconfirmedSpans: this.#unconfirmedSpans } : {}),
      ...omitUndefined({ lastError: this.#lastLoss?.reason }),
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
      if (result.code !== SUCCESS) {
        this.#fail(batch, describeFailure(result.error));
        continue;
      }
      const { error, rejectedSpans = 0 } = result;
      const { length } = batch.spans;
      const lostSpans = rejectedSpans > 0 ? Math.min(rejectedSpans, length) : 0;
      this.#failuresInARow = 0;
      this.#deliveredSpans += length - lostSpans;
      const reason = `the endpoint refused them${wrapInBrackets(error?.message ?? "")}`;
      if (lostSpans > 0) this.#countLoss(lostSpans, { reason, advice: CHECK_ENDPOINT });
      batch.done();
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
      // An async `export` may reject. If it resolves, it has called `answer`.
      (async () => exporter.export(spans, answer))().catch((cause: unknown) =>
        answer({ code: FAILED, error: new Error(getErrorMessage(cause), { cause }) }),
      );
    });
  }

  /** Counts a failed batch, and fails the waiting batches if the endpoint is gone. */
  #fail({ spans, done }: SpanBatch, loss: Loss): void {
    this.#failuresInARow += 1;
    this.#countLostSpans(spans, loss);
    done();
    if (loss.isFinal !== true && this.#failuresInARow < MAX_FAILURES_IN_A_ROW) return;
    // The waiting batches were never sent, so their spans are not unconfirmed.
    const { reason, advice } = loss;
    const unsent: Loss = { reason: `given up after ${reason}`, advice };
    for (const batch of this.#waiting.splice(0)) this.#fail(batch, unsent);
  }

  /**
   * Counts lost spans. If a lost span reported earlier losses, the next run reports these again.
   */
  #countLostSpans(spans: readonly FinishedSpan[], loss: Loss): void {
    for (const { attributes } of spans)
      this.#unreportedSpans += Number(attributes[ESPALIER.droppedSpans] ?? 0);
    this.#countLoss(spans.length, loss);
  }

  #countLoss(spans: number, loss: Loss): void {
    const isUnconfirmed = loss.isUnconfirmed === true;
    if (isUnconfirmed) this.#unconfirmedSpans += spans;
    else {
      this.#lostSpans += spans;
      this.#unreportedSpans += spans;
    }
    this.#lastLoss = loss;
    this.#instruments.find()?.measure(isUnconfirmed ? "unconfirmedSpans" : "droppedSpans", spans);
    // Deferred, so that the count includes the whole burst. While batches are sent, their end emits
    // the warning.
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

async function runQuietly(work: () => Promise<void> | undefined): Promise<void> {
  try {
    await work();
  } catch {
    // Failures are counted where they happen.
  }
}

const LEAVE_OUT = "Leave it out for the measured default.";

function checkQueueOptions(options: ExportQueueOptions): void {
  const known = ["exporter", "processor", "settings", "endpoint", "clock"];
  checkKeys("ExportQueue", options, known);
  const { exporter, processor, settings = {} } = options;
  checkMethods("ExportQueue.exporter", exporter, ["export", "shutdown"]);
  if (typeof processor !== "function") {
    const advice = "Pass a function that creates a BatchSpanProcessor from its two arguments.";
    throw mismatch("ExportQueue.processor", "a function", processor, advice);
  }
  checkKeys("ExportQueue.settings", settings, Object.keys(DEFAULTS));
  for (const [name, value] of Object.entries(settings))
    checkCount(`ExportQueue.settings.${name}`, value, LEAVE_OUT);
}

// Interfaces of processors and exporters that every version of the OpenTelemetry SDK implements.
// Imports no SDK.

/** Part of an ended span that the queue reads. Spans of every SDK have it. */
export interface FinishedSpan {
  /** Attributes of the span. */
  readonly attributes: Attributes;
  /** Returns the ids and the sampling flag of the span. */
  spanContext(): SpanContext;
}

/**
 * `SpanExporter` of any version of the OpenTelemetry SDK.
 *
 * @example
 * ```ts
 * const consoleExporter: AnySpanExporter = {
 *   export: (spans, done) => {
 *     console.log(spans.map((span) => span.attributes));
 *     done({ code: 0 });
 *   },
 *   shutdown: async () => {},
 * };
 * ```
 */
export interface AnySpanExporter {
  /** Exports a batch, and calls `done` once with the result. */
  export(
    spans: FinishedSpan[],
    done: (result: {
      /** 0 for a success, 1 for a failure. */
      readonly code: number;
      /** Reason of a failure, or of `rejectedSpans`. */
      readonly error?: Error;
      /** Number of spans that the endpoint refused within a success. */
      readonly rejectedSpans?: number;
    }) => void,
  ): void;
  /** Sends the spans that the exporter holds. */
  forceFlush?(): Promise<void>;
  /** Releases the resources of the exporter. */
  shutdown(): Promise<void>;
  /** Closes the connection of an export that exceeded its time. SDKs do not call this method. */
  abort?(): void;
}

export type AnyExportResult = Parameters<Parameters<AnySpanExporter["export"]>[1]>[0];

/** Methods of a `SpanProcessor` that the queue calls. Processors of every SDK have them. */
export interface AnySpanProcessor {
  /** Takes an ended span. */
  onEnd(span: FinishedSpan): void;
  /** Sends all spans that the processor holds. */
  forceFlush(): Promise<void>;
  /** Sends all spans that the processor holds, and accepts no further ones. */
  shutdown(): Promise<void>;
}

export type BatchSettings = Required<NonNullable<ExportQueueOptions["settings"]>>;

// Reasons of lost spans, in words.

/** Reason for which spans were lost or not confirmed. */
interface Loss {
  readonly reason: string;
  /** Remedy for the user. */
  readonly advice: string;
  /** True if the request timed out: the endpoint may have stored the spans. */
  readonly isUnconfirmed?: true;
  /** True if the exporter has retried already, so that the next batch would fail too. */
  readonly isFinal?: true;
}

const CHECK_ENDPOINT =
  "Check the address (OTEL_EXPORTER_OTLP_ENDPOINT) and the headers (OTEL_EXPORTER_OTLP_HEADERS), and " +
  "that it takes OTLP over HTTP.";
const CHECK_LOAD =
  "The endpoint is overloaded. Sample (OTEL_TRACES_SAMPLER), or give it more resources.";
const CHECK_TIMEOUT =
  "Check the address (OTEL_EXPORTER_OTLP_ENDPOINT), or allow more time (OTEL_EXPORTER_OTLP_TIMEOUT).";

/** Messages of the OTLP exporter: after its last retry, and for a request without an answer. */
const SDK_BUSY = "Export failed with retryable status";
const SDK_TIMEOUT = "Request timed out";
const GRPC_DEADLINE_EXCEEDED = 4;
const BUSY = "the endpoint is busy (status 429, 502, 503 or 504)";

const QUEUE_FULL: Loss = {
  reason: "the queue of spans was full",
  advice:
    "Sample (OTEL_TRACES_SAMPLER), or let more spans wait (OTEL_BSP_MAX_QUEUE_SIZE or maxQueueSize).",
};
const AFTER_SHUTDOWN: Loss = {
  reason: "tracing was shut down before",
  advice: "Shut tracing down when the last run has ended.",
};
const NEVER_EXPORTED: Loss = {
  reason: "the batch processor dropped them",
  advice: "Create the batch processor with the settings that it is given.",
};

/**
 * Returns the reason for which an exporter failed. The `code` of an error may be the HTTP status,
 * and `data` is the body.
 */
function describeFailure(error: unknown): Loss {
  if (!(error instanceof Error)) {
    const reason = error === undefined ? "the endpoint did not take them" : getErrorMessage(error);
    return { reason, advice: CHECK_ENDPOINT };
  }
  const code = "code" in error ? error.code : undefined;
  const isTimeout = error.name === "TimeoutError" || error.message === SDK_TIMEOUT;
  if (isTimeout || code === GRPC_DEADLINE_EXCEEDED)
    return { reason: error.message, advice: CHECK_TIMEOUT, isUnconfirmed: true };
  if (error.message === SDK_BUSY) return { reason: BUSY, advice: CHECK_LOAD, isFinal: true };
  // A refused connection to a name with two addresses has a code and no message.
  if (typeof code === "string")
    return { reason: error.message || code, advice: CHECK_ENDPOINT, isFinal: true };
  const body = "data" in error ? error.data : undefined;
  const isPage = typeof body === "string" && isWebPage(body);
  const page = isPage ? ` with a web page, ${NO_OTLP}` : "";
  const reason =
    typeof code === "number"
      ? `status ${code}${wrapInBrackets(error.message)}${page}`
      : error.message || error.name;
  return { reason, advice: CHECK_ENDPOINT };
}

function wrapInBrackets(words: string): string {
  return words === "" ? "" : ` (${words})`;
}

/** Returns true for HTML, which no OTLP endpoint answers. */
export function isWebPage(body: string): boolean {
  return body.trimStart().startsWith("<");
}

export const NO_OTLP = "so this does not look like an OTLP endpoint";
