// The spans of an agent, taken out of their row of numbers.

import { SPAN_ENDS, SPAN_KINDS, SPAN_WIDTH, type SpanNumbers } from "../../src/view/viewer-data.ts";

export type SpanKind = (typeof SPAN_KINDS)[number];
export type SpanEnd = (typeof SPAN_ENDS)[number];

export interface Span {
  readonly kind: SpanKind;
  readonly fromMs: number;
  /** Of an open one: now. */
  readonly toMs: number;
  readonly end: SpanEnd;
  /** 0: of no step. */
  readonly step: number;
  /** The index of the agent whose budget a wait for budget needs; -1 if unknown. */
  readonly account: number;
}

export function* spansIn(numbers: SpanNumbers, nowMs: number): Generator<Span, void> {
  for (let at = 0; at + SPAN_WIDTH <= numbers.length; at += SPAN_WIDTH) {
    const fromMs = numbers[at + 1] ?? 0;
    const toMs = numbers[at + 2] ?? -1;
    yield {
      kind: SPAN_KINDS[numbers[at] ?? 0] ?? "chat",
      fromMs,
      toMs: toMs < 0 ? Math.max(nowMs, fromMs) : toMs,
      end: SPAN_ENDS[numbers[at + 3] ?? 0] ?? "open",
      step: numbers[at + 4] ?? 0,
      account: numbers[at + 5] ?? -1,
    };
  }
}
