// Ids in the format of W3C Trace Context, for events with and without OpenTelemetry.

import { randomDigits } from "./crypto.ts";

/** Gives so many bytes of chance, as lower-case hexadecimal digits. */
export type MintHex = (bytes: number) => string;

const TRACE_ID_BYTES = 16;
const SPAN_ID_BYTES = 8;

/**
 * New ids in the format of W3C Trace Context: in the trace of `parent`, or in a trace of their own.
 */
export function mintTraceIds(
  mintHex: MintHex,
  parent: { readonly traceId: string } | undefined,
): { readonly traceId: string; readonly spanId: string } {
  return { traceId: parent?.traceId ?? mintHex(TRACE_ID_BYTES), spanId: mintHex(SPAN_ID_BYTES) };
}

/** A foreign span, as a `traceparent` of W3C Trace Context names it. */
export interface TraceParent {
  readonly traceId: string;
  readonly spanId: string;
  readonly isSampled: boolean;
}

const TRACEPARENT = /^00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})$/;
const SAMPLED = 1;

/** Parses a `traceparent` of version 00. Returns `undefined` for any other text. */
export function parseTraceparent(text: string): TraceParent | undefined {
  const [, traceId, spanId, flags] = TRACEPARENT.exec(text) ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & SAMPLED) !== 0 };
}

const POOL_BYTES = 2_048;

/** Fetches chance in large pieces: the system takes microseconds for each, however small it is. */
export function pooledHex(mintHex: MintHex): MintHex {
  let pool = "";
  let used = 0;
  return (bytes) => {
    const digits = bytes * 2;
    if (used + digits > pool.length) {
      pool = mintHex(Math.max(POOL_BYTES, bytes));
      used = 0;
    }
    used += digits;
    return pool.slice(used - digits, used);
  };
}

/** Chance from the system, in pieces of a pool. */
export const randomHex: MintHex = pooledHex(randomDigits);
