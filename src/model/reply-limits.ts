// How much of an answer is read before it is broken off, whatever the server sends. A server that ignores the cap on output tokens, or
// never ends, costs bounded memory and is paid for by what came.

import { BYTES_PER_TOKEN, tokensInBytes } from "./count-tokens.ts";

/** The most bytes that are taken of one answer. */
export interface ReplyLimits {
  /** A stream is cut after this much text, refusal, reasoning and arguments: twice the cap by our count. */
  readonly cutBytes: number;
  /** Text, refusal, reasoning and calls together, in UTF-8, of a reply that does not come in pieces. */
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
/** An honest reply may have six bytes per token, where our count assumes three. */
const MAX_OVERSHOOT = 2;
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
    cutBytes: MAX_OVERSHOOT * BYTES_PER_TOKEN * maxOutputTokens,
    replyBytes,
    bodyBytes: BODY_BYTES,
    lineBytes: Math.min(MOST_ESCAPED * replyBytes + LINE_ALLOWANCE_BYTES, BODY_BYTES),
    streamBytes: Math.min(BODY_BYTES + STREAM_BYTES_PER_TOKEN * maxOutputTokens, STREAM_BYTES),
  };
}

/** Returns an estimate of the tokens in the bytes of an answer: at most twice the cap. */
export function tokensThatCame(bytes: number, { cutBytes }: ReplyLimits): number {
  return tokensInBytes(Math.min(bytes, cutBytes));
}

/** The same text for each reply, since a run is warned once of each text. */
export const CUT_WARNING =
  "The provider ignored the cap on output tokens: its reply was cut at twice the cap and the connection closed. Check the name of the cap (openai.maxTokensField) and the server.";

/** Counts the text of a stream as it comes, and cuts it at twice the cap. */
export class ReplyCut {
  readonly #cutBytes: number;
  #bytes = 0;
  #isCut = false;

  constructor({ cutBytes }: ReplyLimits) {
    this.#cutBytes = cutBytes;
  }

  /** True once a piece did not fit. */
  get isCut(): boolean {
    return this.#isCut;
  }

  /** Returns the piece, or the beginning of it that fits. */
  admit(piece: string): string {
    if (this.#isCut) return "";
    const room = this.#cutBytes - this.#bytes;
    this.#bytes += Buffer.byteLength(piece);
    if (this.#bytes <= this.#cutBytes) return piece;
    this.#isCut = true;
    // A character that is cut in half is left out.
    const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
    return decoder.decode(Buffer.from(piece).subarray(0, room), { stream: true });
  }
}
