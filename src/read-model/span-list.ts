// SpanList: the spans of an agent in a flat array of numbers. Each span has the number of the
// record that last changed it, so that patches need no state for each reader.

import type { ToolOutcomeType } from "../protocol/tool-failure.ts";
import { SPAN_ENDS, SPAN_KINDS, SPAN_WIDTH } from "./viewer-data.ts";

/** Kind of a span, for example `chat` for a model call. `SPAN_KINDS` explains each kind. */
export type SpanKind = (typeof SPAN_KINDS)[number];
/** How a span ended. `SPAN_ENDS` explains each value. */
export type SpanEnding = (typeof SPAN_ENDS)[number];

/** Places of numbers in a span. */
const [BEGIN, END, ENDED] = [1, 2, 3];
const OPEN = SPAN_ENDS.indexOf("open");

/** Maps the outcome of a tool call to the ending of its span. */
export const SPAN_END_OF: Readonly<Record<ToolOutcomeType, SpanEnding>> = {
  succeeded: "ok",
  retry: "failed",
  failed: "failed",
  refused: "rejected",
  not_executed: "rejected",
  cancelled: "cut",
};

/**
 * Spans of an agent in a flat array, `SPAN_WIDTH` numbers for each span.
 *
 * @example
 * ```ts
 * const { numbers } = fold.agents[0]?.spans ?? { numbers: [] };
 * for (let at = 0; at < numbers.length; at += SPAN_WIDTH) {
 *   const [kind = 0, fromMs, toMs] = numbers.slice(at);
 *   console.log(SPAN_KINDS[kind], fromMs, toMs); // "chat" 12 840
 * }
 * ```
 */
export class SpanList {
  /** Numbers of all spans, `SPAN_WIDTH` for each. `SPAN_WIDTH` explains them. */
  readonly numbers: number[] = [];
  /** Number of the journal record that is being applied. Set by `AgentFold`. */
  record = 0;
  readonly #zeroMs: number;
  readonly #records: number[] = [];
  #lastRecord = 0;

  /** Creates an empty list. `zeroMs` is the start of the run in milliseconds since the epoch. */
  constructor(zeroMs: number) {
    this.#zeroMs = zeroMs;
  }

  /**
   * Adds an open span and returns its position in `numbers`. `step` is 0 if the span has no step.
   * `account` is the index of the agent whose budget lacks room. Called by `AgentFold`.
   */
  open(kind: SpanKind, atMs: number, step: number, account = -1): number {
    const place = this.numbers.length;
    this.numbers.push(SPAN_KINDS.indexOf(kind), this.#toRelative(atMs), -1, OPEN, step, account);
    this.#records.push(this.record);
    this.#lastRecord = this.record;
    return place;
  }

  /** Ends a span, or replaces its end. Called by `AgentFold`. */
  close(place: number, atMs: number, end: SpanEnding): void {
    const begin = this.numbers[place + BEGIN] ?? 0;
    this.numbers[place + END] = Math.max(begin, this.#toRelative(atMs));
    this.numbers[place + ENDED] = SPAN_ENDS.indexOf(end);
    this.#records[place / SPAN_WIDTH] = this.record;
    this.#lastRecord = this.record;
  }

  /** Adds an ended span and returns its position in `numbers`. Called by `AgentFold`. */
  add(
    kind: SpanKind,
    {
      beganAtMs,
      atMs,
      end,
    }: { readonly beganAtMs: number; readonly atMs: number; readonly end: SpanEnding },
    step: number,
  ): number {
    const place = this.open(kind, beganAtMs, step);
    this.close(place, atMs, end);
    return place;
  }

  /** Returns the end of a span in milliseconds since the epoch; 0 if the span is open. */
  getEndMs(place: number): number {
    const end = this.numbers[place + END] ?? -1;
    return end === -1 ? 0 : this.#zeroMs + end;
  }

  /** Returns true if a span ended after this time; false if the span is open. */
  endsAfter(place: number, atMs: number): boolean {
    return (this.numbers[place + END] ?? -1) > this.#toRelative(atMs);
  }

  /**
   * Returns the position of the first number that changed after a record, or `numbers.length` if
   * none changed.
   */
  newSince(record: number): number {
    if (this.#lastRecord <= record) return this.numbers.length;
    return this.#records.findIndex((touched) => touched > record) * SPAN_WIDTH;
  }

  #toRelative(atMs: number): number {
    return Math.round(atMs - this.#zeroMs);
  }
}
