// Derives span ids from the event log, for providers that allow chosen ids.
// 1. The id of a span is derived from its run and its first event. So it can be computed from the
//    log, and a span that is exported again has the same id.
// 2. A continued trace shares half of its id with the previous trace. Ratio samplers decide by that
//    half, so they sample all traces of a run or none.

import { hash } from "node:crypto";

import { randomHex } from "../../kernel/trace-ids.ts";
import type { SpanMoment } from "../../protocol/span-tree.ts";

const TRACE_ID_BYTES = 16;
const SPAN_ID_BYTES = 8;
/** Hexadecimal digits in one of the four words of a trace id, or of the two of a span id. */
const WORD_DIGITS = 8;

/**
 * Returns a span id of 16 hexadecimal digits. `seed` identifies the span, as JSON values separated
 * by commas.
 */
export function deriveSpanId(seed: string): string {
  const digits = computeDigest(`["span",${seed}]`);
  return [0, 1].map((at) => sliceWord(digits, at)).join("");
}

/** Returns a trace id of 32 hexadecimal digits. */
export function deriveTraceId(seed: string): string {
  const digits = computeDigest(`["trace",${seed}]`);
  return [0, 1, 2, 3].map((at) => sliceWord(digits, at)).join("");
}

/**
 * Returns the id of a trace that continues another one. Both have the same last 14 digits and the
 * same exclusive or of their four words, by which ratio samplers decide.
 */
export function deriveNextTraceId(traceId: string, seed: string): string {
  const change = sliceWord(computeDigest(`["after","${traceId}",${seed}]`), 0);
  const changeWord = (at: number): string => combineWords(sliceWord(traceId, at), change);
  return [changeWord(0), changeWord(1), sliceWord(traceId, 2), sliceWord(traceId, 3)].join("");
}

function computeDigest(text: string): string {
  return hash("sha256", text, "hex");
}

/**
 * Returns a word of an id. Joined from words, because a substring would retain the whole digest for
 * the lifetime of the span.
 */
function sliceWord(digits: string, at: number): string {
  return digits.slice(at * WORD_DIGITS, (at + 1) * WORD_DIGITS);
}

function combineWords(word: string, change: string): string {
  const bits = (Number.parseInt(word, 16) ^ Number.parseInt(change, 16)) >>> 0;
  return bits.toString(16).padStart(WORD_DIGITS, "0");
}

/** Ids for a span. Ids derived from an event are computed only if a provider requests them. */
export type ChosenIds = DerivedIds | { readonly spanId: string; readonly traceId: string };

/** Ids of a span that begins with an event. */
export interface DerivedIds {
  readonly moment: SpanMoment;
  /** The previous trace, if there is one. */
  readonly after: string | undefined;
  /** Kind of the span, if several spans begin with the event. */
  readonly kind?: string;
}

/** Returns the seed of the ids of a span that begins with an event. */
export function buildSpanSeed({ seq, atMs, scope }: SpanMoment, kind?: string): string {
  const seed = `${JSON.stringify(scope.runId)},${seq},${atMs}`;
  return kind === undefined ? seed : `${seed},"${kind}"`;
}

/** Ids for the next span. */
let nextSpanId: ChosenIds | undefined;
let nextTraceId: ChosenIds | undefined;

/**
 * Id generator for the option `idGenerator` of your own tracer provider. `setUpNodeTracing` uses
 * it.
 *
 * It derives the ids of run spans from the event log. A process that recovers a run can therefore
 * export spans that were open during a crash under their original ids. All other spans get random
 * ids.
 *
 * @example
 * ```ts
 * import { NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
 *
 * const provider = new NodeTracerProvider({ idGenerator: traceIdGenerator });
 * provider.register();
 * ```
 */
export const traceIdGenerator: {
  /** Returns the id of a trace: 32 hexadecimal digits. */
  readonly generateTraceId: () => string;
  /** Returns the id of a span: 16 hexadecimal digits. */
  readonly generateSpanId: () => string;
} = Object.freeze({
  generateTraceId: () => {
    const chosen = nextTraceId;
    nextTraceId = undefined;
    if (chosen === undefined) return randomHex(TRACE_ID_BYTES);
    if ("traceId" in chosen) return chosen.traceId;
    const seed = buildSpanSeed(chosen.moment, chosen.kind);
    return chosen.after === undefined ? deriveTraceId(seed) : deriveNextTraceId(chosen.after, seed);
  },
  generateSpanId: () => {
    const chosen = nextSpanId;
    nextSpanId = undefined;
    if (chosen === undefined) return randomHex(SPAN_ID_BYTES);
    return "spanId" in chosen
      ? chosen.spanId
      : deriveSpanId(buildSpanSeed(chosen.moment, chosen.kind));
  },
});

/**
 * Chooses the ids of the next span, if its provider uses `traceIdGenerator`. `undefined` for random
 * ids.
 */
export function chooseIds(ids: ChosenIds | undefined): void {
  nextSpanId = ids;
  nextTraceId = ids;
}
