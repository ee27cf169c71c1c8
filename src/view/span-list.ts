// SpanList: the spans of one agent as numbers in one flat list. Each remembers the record that touched it last, so that what is new for a
// reader is found without knowing the reader.

import type { ToolOutcomeType } from "../protocol/tool-outcome.ts";
import { SPAN_ENDS, SPAN_KINDS, SPAN_WIDTH } from "./viewer-data.ts";

/** What a span shows. */
export type SpanKind = (typeof SPAN_KINDS)[number];
/** How a span ended. */
export type SpanEnding = (typeof SPAN_ENDS)[number];

/** Places of numbers in a span. */
const [BEGIN, END, ENDED] = [1, 2, 3];
const OPEN = SPAN_ENDS.indexOf("open");

/** How the span of a tool call ended, by the outcome of the call. */
export const SPAN_END_OF: Readonly<Record<ToolOutcomeType, SpanEnding>> = {
  succeeded: "ok",
  retry: "failed",
  failed: "failed",
  refused: "rejected",
  not_executed: "rejected",
  cancelled: "cut",
};

/** The spans of one agent. */
export class SpanList {
  /** `SPAN_WIDTH` of them for each span. */
  readonly numbers: number[] = [];
  /** The record that is being taken in. */
  record = 0;
  readonly #zeroMs: number;
  readonly #records: number[] = [];
  #lastRecord = 0;

  /** `zeroMs`: when the run began. */
  constructor(zeroMs: number) {
    this.#zeroMs = zeroMs;
  }

  /** Gives its place. `step`: 0 for none. `account`: see `SPAN_WIDTH`. */
  open(kind: SpanKind, atMs: number, step: number, account = -1): number {
    const place = this.numbers.length;
    this.numbers.push(SPAN_KINDS.indexOf(kind), this.#sinceZero(atMs), -1, OPEN, step, account);
    this.#records.push(this.record);
    this.#lastRecord = this.record;
    return place;
  }

  /** May be done again, with another end. */
  close(place: number, atMs: number, end: SpanEnding): void {
    const begin = this.numbers[place + BEGIN] ?? 0;
    this.numbers[place + END] = Math.max(begin, this.#sinceZero(atMs));
    this.numbers[place + ENDED] = SPAN_ENDS.indexOf(end);
    this.#records[place / SPAN_WIDTH] = this.record;
    this.#lastRecord = this.record;
  }

  /** Adds one that is over, and gives its place. */
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

  /** Returns when a span has ended, in milliseconds since the epoch; 0 if it is open. */
  endOf(place: number): number {
    const end = this.numbers[place + END] ?? -1;
    return end === -1 ? 0 : this.#zeroMs + end;
  }

  /** True if a span has ended later than this; false while it is open. */
  endsAfter(place: number, atMs: number): boolean {
    return (this.numbers[place + END] ?? -1) > this.#sinceZero(atMs);
  }

  /** The place of the first number that is new since a record; the length of the list: none is. */
  newSince(record: number): number {
    if (this.#lastRecord <= record) return this.numbers.length;
    return this.#records.findIndex((touched) => touched > record) * SPAN_WIDTH;
  }

  #sinceZero(atMs: number): number {
    return Math.round(atMs - this.#zeroMs);
  }
}
