// How much of an answer is read before it is broken off, whatever the server sends. A server that ignores the cap on output tokens, or
// never ends, costs bounded memory and is paid for by what came.

import { tokensInBytes } from "./count-tokens.ts";

/** The most bytes that are taken of one answer. */
export interface ReplyLimits {
  /** Text, refusal, reasoning and calls together, in UTF-8. */
  readonly replyBytes: number;
  /** A body that comes in one piece. */
  readonly bodyBytes: number;
  /** A line of a stream, or the data of one event. */
  readonly lineBytes: number;
  /** All of a stream. */
  readonly streamBytes: number;
}

const KIB = 1024;
const MIB = KIB * KIB;
/** So many bytes of a reply are taken whatever its cap is. */
export const REPLY_ALLOWANCE_BYTES = 4 * KIB;
const REPLY_BYTES_PER_TOKEN = 16;
const BODY_BYTES = 16 * MIB;
/** JSON that escapes all but ASCII takes up to three times the bytes of UTF-8. */
const MOST_ESCAPED = 3;
/** What servers add to an event of their own. */
const LINE_ALLOWANCE_BYTES = MIB;
/** A stream writes some 300 bytes around each token. */
const STREAM_BYTES_PER_TOKEN = KIB;
const STREAM_BYTES = 256 * MIB;

/** The most data of a provider that one message may have: as large as what it stands for, but not without end. */
export const MOST_DATA_BYTES = MIB;

/** What a call counts for besides its id, name and arguments. */
export const OPENED_CALL_BYTES = 16;

/** The limits of a reply with this cap. */
export function replyLimits(maxOutputTokens: number): ReplyLimits {
  const replyBytes = Math.min(
    REPLY_BYTES_PER_TOKEN * maxOutputTokens + REPLY_ALLOWANCE_BYTES,
    BODY_BYTES,
  );
  return {
    replyBytes,
    bodyBytes: BODY_BYTES,
    lineBytes: Math.min(MOST_ESCAPED * replyBytes + LINE_ALLOWANCE_BYTES, BODY_BYTES),
    streamBytes: Math.min(BODY_BYTES + STREAM_BYTES_PER_TOKEN * maxOutputTokens, STREAM_BYTES),
  };
}

/** An estimate of the tokens in so many bytes of an answer, of which no more than the longest reply can be the model's. */
export function tokensThatCame(bytes: number, { replyBytes }: ReplyLimits): number {
  return tokensInBytes(Math.min(bytes, replyBytes));
}
