// Parses the spans of an agent from a flat array.

import {
  SPAN_ENDS,
  SPAN_KINDS,
  SPAN_WIDTH,
  type SpanNumbers,
} from "../../src/read-model/viewer-data.ts";

export interface Span {
  readonly kind: (typeof SPAN_KINDS)[number];
  readonly fromMs: number;
  readonly toMs: number;
  readonly end: (typeof SPAN_ENDS)[number];
  /** 0 for a span without a step. */
  readonly step: number;
  /** Index of the agent whose budget a `budget` span waits for; -1 if unknown. */
  readonly account: number;
}

export function* iterateSpans(numbers: SpanNumbers, nowMs: number): Generator<Span, void> {
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
