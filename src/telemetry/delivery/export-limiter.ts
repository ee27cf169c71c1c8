// ExportLimiter: the way of batches to one exporter, a few at a time.
// Owns the batches that wait.
// 1. A flush hands over all batches at once. If all went out at once, a busy endpoint would answer
//    none of them in time; so few are in flight, and those that hold the tree together go first.
// 2. Each failure in a row lets one fewer in flight, and a success lets all. When as many in a row
//    have failed as may be in flight, the endpoint is gone: what waits is given up with the same
//    failure, and the end of the program is not held up.
// 3. Each batch is answered once, and in time, whatever the exporter does: also if it never answers.
//    The time begins with the export, and keeps no process alive.

import { context, type Context } from "@opentelemetry/api";

import type { Clock } from "../../kernel/clock.ts";
import { messageOf } from "../../kernel/error.ts";
import type { AnySpanExporter, AnyExportResult, FinishedSpan } from "./any-sdk.ts";

/** Fewer than what an exporter takes at once; with 512 spans each, 20,000 in 200 ms steps take 1 s. */
const MAX_IN_FLIGHT = 8;

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
    while (this.#inFlight < Math.max(1, MAX_IN_FLIGHT - this.#failuresInARow)) {
      const batch = this.#first.shift() ?? this.#second.shift();
      if (batch === undefined) break;
      this.#inFlight += 1;
      context.with(batch.around, () => this.#export(batch));
    }
    if (this.#inFlight > 0) return;
    for (const resolve of this.#whenIdle.splice(0)) resolve();
  }

  #export({ spans, done }: Batch): void {
    let isAnswered = false;
    const answer = (result: AnyExportResult): void => {
      if (isAnswered) return;
      isAnswered = true;
      stopTimer();
      this.#inFlight -= 1;
      this.#failuresInARow = result.code === SUCCESS ? 0 : this.#failuresInARow + 1;
      done(result);
      if (this.#failuresInARow >= MAX_IN_FLIGHT)
        for (const waiting of [...this.#first.splice(0), ...this.#second.splice(0)])
          waiting.done(result);
      this.#next();
    };
    const fail = (cause: unknown): void =>
      answer({ code: FAILED, error: new Error(messageOf(cause), { cause }) });
    const { clock, timeoutMs } = this.#bound;
    const stopTimer = clock.setTimer(timeoutMs, () =>
      fail(`no answer within ${timeoutMs.toLocaleString("en")} ms`),
    );
    try {
      const returned: unknown = this.#exporter.export(spans, answer);
      // An export that is async rejects here when it failed; when it succeeded it calls `answer`.
      if (returned !== undefined) void Promise.resolve(returned).catch(fail);
    } catch (cause) {
      fail(cause);
    }
  }
}
