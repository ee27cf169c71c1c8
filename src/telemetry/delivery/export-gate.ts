// ExportGate: the way of batches to one exporter, a few at a time.
// Owns the batches that wait. Takes no time of its own.
// 1. A flush hands over all batches at once. If all went out at once, a busy endpoint would answer
//    none of them in time; so few are in flight, and those that hold the tree together go first.
// 2. Each failure in a row lets one fewer in flight, and a success lets all. When as many in a row
//    have failed as may be in flight, the endpoint is gone: what waits is given up with the same
//    failure, and the end of the program is not held up.
// 3. Each batch is answered once, whatever the exporter does.

import { context, type Context } from "@opentelemetry/api";

import { messageOf } from "../../kernel/error.ts";
import type { LaneExporter, LaneResult, LaneSpan } from "./any-sdk.ts";

/** Fewer than what an exporter takes at once; with 512 spans each, 20,000 in 200 ms steps take 1 s. */
const MAX_IN_FLIGHT = 8;

const SUCCESS = 0;
const FAILED = 1;

interface Batch {
  readonly spans: LaneSpan[];
  readonly done: (result: LaneResult) => void;
  /** In which it is exported: processors switch tracing off there. */
  readonly around: Context;
}

export class ExportGate {
  readonly #exporter: LaneExporter;
  readonly #first: Batch[] = [];
  readonly #second: Batch[] = [];
  #inFlight = 0;
  #failuresInARow = 0;
  #whenIdle: (() => void)[] = [];

  constructor(exporter: LaneExporter) {
    this.#exporter = exporter;
  }

  /** `isUrgent`: before all that is not. */
  send(spans: LaneSpan[], isUrgent: boolean, done: (result: LaneResult) => void): void {
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
    const answer = (result: LaneResult): void => {
      if (isAnswered) return;
      isAnswered = true;
      this.#inFlight -= 1;
      this.#failuresInARow = result.code === SUCCESS ? 0 : this.#failuresInARow + 1;
      done(result);
      if (this.#failuresInARow >= MAX_IN_FLIGHT) this.#giveUp(result);
      this.#next();
    };
    try {
      this.#exporter.export(spans, answer);
    } catch (cause) {
      answer({ code: FAILED, error: new Error(messageOf(cause), { cause }) });
    }
  }

  #giveUp(result: LaneResult): void {
    for (const { done } of [...this.#first.splice(0), ...this.#second.splice(0)]) done(result);
  }
}
