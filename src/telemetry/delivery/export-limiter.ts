// ExportLimiter: the way of batches to one exporter, a few at a time.
// Owns the batches that wait.
// 1. A flush hands over all batches at once. If all went out at once, a busy endpoint would answer
//    none of them in time; so few are in flight, and those that hold the tree together go first.
// 2. Each failure in a row lets one fewer in flight, and a success lets all. After eight failures in
//    a row the endpoint is gone: the waiting batches fail with the same failure, and the end of the
//    program is not held up.
// 3. A timeout may also mean that the endpoint is overloaded. It halves the batches in flight, and
//    a slow answer removes one, and a quick answer adds one. The endpoint is gone only if two batches
//    that were sent alone time out too.
// 4. Each batch is answered once, and in time, whatever the exporter does: also if it never answers.
//    The time begins with the export, and keeps no process alive.

import { context, type Context } from "@opentelemetry/api";

import type { Clock } from "../../kernel/clock.ts";
import { messageOf } from "../../kernel/error.ts";
import { defined } from "../../kernel/json.ts";
import type { AnySpanExporter, AnyExportResult, FinishedSpan } from "./any-sdk.ts";
import { isTimeout } from "./loss.ts";

/** Fewer than what an exporter takes at once; with 512 spans each, 20,000 in 200 ms steps take 1 s. */
const MAX_IN_FLIGHT = 8;
/** Batches that are sent one at a time after `MAX_IN_FLIGHT` failures, if the last one was a timeout. */
const LAST_ATTEMPTS = 2;

/** `ExportResultCode` of `@opentelemetry/core`. */
export const SUCCESS = 0;
const FAILED = 1;

interface Batch {
  readonly spans: FinishedSpan[];
  readonly done: (result: AnyExportResult) => void;
  /** In which it is exported: processors switch tracing off there. */
  readonly around: Context;
}

export interface ExportBound {
  /** An export that has not been answered by then has failed. */
  readonly timeoutMs: number;
  readonly clock: Clock;
}

export class ExportLimiter {
  readonly #exporter: AnySpanExporter;
  readonly #bound: ExportBound;
  readonly #first: Batch[] = [];
  readonly #second: Batch[] = [];
  #inFlight = 0;
  #failuresInARow = 0;
  #maxInFlight = MAX_IN_FLIGHT;
  #whenIdle: (() => void)[] = [];

  constructor(exporter: AnySpanExporter, bound: ExportBound) {
    this.#exporter = exporter;
    this.#bound = bound;
  }

  /** `isUrgent`: before all that is not. */
  send(spans: FinishedSpan[], isUrgent: boolean, done: (result: AnyExportResult) => void): void {
    const waiting = isUrgent ? this.#first : this.#second;
    waiting.push({ spans, done, around: context.active() });
    this.#next();
  }

  /** Resolves when nothing waits and nothing is in flight. */
  idle(): Promise<void> {
    if (this.#inFlight === 0) return Promise.resolve();
    return new Promise((resolve) => this.#whenIdle.push(resolve));
  }

  #next(): void {
    while (
      this.#inFlight <
      Math.min(this.#maxInFlight, Math.max(1, MAX_IN_FLIGHT - this.#failuresInARow))
    ) {
      const batch = this.#first.shift() ?? this.#second.shift();
      if (batch === undefined) break;
      this.#inFlight += 1;
      context.with(batch.around, () => this.#export(batch));
    }
    if (this.#inFlight > 0) return;
    for (const resolve of this.#whenIdle.splice(0)) resolve();
  }

  #export({ spans, done }: Batch): void {
    const { clock, timeoutMs } = this.#bound;
    const startedMs = clock.monotonicMs();
    let isAnswered = false;
    const answer = (result: AnyExportResult): void => {
      if (isAnswered) return;
      isAnswered = true;
      stopTimer();
      this.#inFlight -= 1;
      done(result);
      if (result.code === SUCCESS) this.#succeed(clock.monotonicMs() - startedMs);
      else this.#fail(result.error);
      this.#next();
    };
    const fail = (cause: unknown): void =>
      answer({ code: FAILED, error: new Error(messageOf(cause), { cause }) });
    const stopTimer = clock.setTimer(timeoutMs, () => {
      const error = new Error(`no answer within ${timeoutMs.toLocaleString("en")} ms`);
      answer({ code: FAILED, error: Object.assign(error, { name: "TimeoutError" }) });
    });
    try {
      const returned: unknown = this.#exporter.export(spans, answer);
      // An export that is async rejects here when it failed; when it succeeded it calls `answer`.
      if (returned !== undefined) void Promise.resolve(returned).catch(fail);
    } catch (cause) {
      fail(cause);
    }
  }
  /** Records a success. A slow answer removes a batch: it only waited at the endpoint. */
  #succeed(tookMs: number): void {
    this.#failuresInARow = 0;
    this.#setMax(this.#maxInFlight + (tookMs < this.#bound.timeoutMs / 2 ? 1 : -1));
  }

  /** Records a failure, and fails the waiting batches if the endpoint is gone. */
  #fail(error: Error | undefined): void {
    const hasTimedOut = isTimeout(error);
    this.#failuresInARow += 1;
    if (hasTimedOut) this.#setMax(this.#maxInFlight >> 1);
    if (this.#failuresInARow < MAX_IN_FLIGHT + (hasTimedOut ? LAST_ATTEMPTS : 0)) return;
    // The waiting batches were never sent: their error is not a timeout.
    const unsent = hasTimedOut ? new Error(`given up after ${messageOf(error)}`) : error;
    for (const waiting of [...this.#first.splice(0), ...this.#second.splice(0)])
      waiting.done({ code: FAILED, ...defined({ error: unsent }) });
  }

  #setMax(batches: number): void {
    this.#maxInFlight = Math.min(MAX_IN_FLIGHT, Math.max(1, batches));
  }
}
