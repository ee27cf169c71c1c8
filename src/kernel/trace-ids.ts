// Ids in the format of W3C Trace Context, for events with and without OpenTelemetry.

import { generateHexDigits } from "./crypto.ts";

/** Returns random bytes as lower-case hexadecimal digits. */
export type MintHex = (bytes: number) => string;

const TRACE_ID_BYTES = 16;
const SPAN_ID_BYTES = 8;

/**
 * Returns new ids in the format of W3C Trace Context: in the trace of `parent`, or in a new trace.
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

/**
 * Returns a `MintHex` that fetches random digits in large blocks: the system takes microseconds per
 * request, however small.
 */
export function bufferMintHex(mintHex: MintHex): MintHex {
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

/** Random digits from the system, pooled. */
export const randomHex: MintHex = bufferMintHex(generateHexDigits);
