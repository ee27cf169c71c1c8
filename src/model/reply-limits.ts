// How much of an answer is read before it is broken off, whatever the server sends. A server that ignores the cap on output tokens, or
// never ends, costs bounded memory and is paid for by what came.

import { BYTES_PER_TOKEN, estimateTokensFromBytes } from "./count-tokens.ts";

/** The most bytes that are taken of one answer. */
export interface ReplyLimits {
  readonly maxOutputTokens: number;
  /** A reply is cut after this much text, refusal, reasoning and calls: twice the cap by our count. */
  readonly cutBytes: number;
  /** Ids and data of a reply, and `OPENED_BYTES` for each of its items. */
  readonly besideBytes: number;
  /** A body that comes in one piece. */
  readonly bodyBytes: number;
  /** A line of a stream, or the data of one event. */
  readonly lineBytes: number;
  /** All of a stream. */
  readonly streamBytes: number;
}

const KIB = 1024;
const MIB = KIB * KIB;
/** An honest reply may have six bytes per token, where our count assumes three. */
const MAX_OVERSHOOT = 2;
/** More than any language has. Replies that come whole are compared with their reported usage by it. */
const MAX_BYTES_PER_TOKEN = 8;
const BESIDE_ALLOWANCE_BYTES = 4 * KIB;
const BESIDE_BYTES_PER_TOKEN = 16;
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

/** What an item or a call counts for besides its id, name and text. */
export const OPENED_BYTES = 16;

/** The limits of a reply with this cap. */
export function computeReplyLimits(maxOutputTokens: number): ReplyLimits {
  const besideBytes = Math.min(
    BESIDE_BYTES_PER_TOKEN * maxOutputTokens + BESIDE_ALLOWANCE_BYTES,
    BODY_BYTES,
  );
  return {
    maxOutputTokens,
    cutBytes: MAX_OVERSHOOT * BYTES_PER_TOKEN * maxOutputTokens,
    besideBytes,
    bodyBytes: BODY_BYTES,
    lineBytes: Math.min(MOST_ESCAPED * besideBytes + LINE_ALLOWANCE_BYTES, BODY_BYTES),
    streamBytes: Math.min(BODY_BYTES + STREAM_BYTES_PER_TOKEN * maxOutputTokens, STREAM_BYTES),
  };
}

/** Returns an estimate of the tokens in the bytes of an answer: at most twice the cap. */
export function estimateReceivedTokens(bytes: number, { cutBytes }: ReplyLimits): number {
  return estimateTokensFromBytes(Math.min(bytes, cutBytes));
}

/** The same text for each reply, since a run is warned once of each text. */
export const CUT_WARNING =
  "The provider ignored the cap on output tokens: its reply was cut at twice the cap. Check the name of the cap (openai.maxTokensField) and the server.";

/**
 * Counts what the model wrote as it comes, and cuts it at twice the cap: text, refusal, reasoning,
 * names and arguments of calls, whether they come in pieces or whole.
 */
export class ReplyCut {
  readonly #limits: ReplyLimits;
  #cutBytes: number;
  /** Output tokens in the usage of a reply that comes whole. */
  #reportedTokens = 0;
  #bytes = 0;
  #isCut = false;

  constructor(limits: ReplyLimits) {
    this.#limits = limits;
    this.#cutBytes = limits.cutBytes;
  }

  /** True once a piece did not fit. */
  get isCut(): boolean {
    return this.#isCut;
  }

  /** Bytes that came, including those of the piece that did not fit. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Keeps a reply that comes whole from being cut if its usage says that it kept to the cap, as far
   * as a text of so many tokens can be long.
   */
  trust(reportedTokens = 0): void {
    this.#reportedTokens = reportedTokens;
    if (reportedTokens > this.#limits.maxOutputTokens) return;
    this.#cutBytes = Math.max(this.#cutBytes, MAX_BYTES_PER_TOKEN * reportedTokens);
  }

  /** True if a cut reply is charged by its usage: it is not less than what came. */
  isHonest(reportedTokens = 0): boolean {
    return (
      reportedTokens >= estimateReceivedTokens(this.#bytes, this.#limits) ||
      this.#bytes <= MAX_BYTES_PER_TOKEN * this.#reportedTokens
    );
  }

  /** Returns the piece, or the beginning of it that fits. */
  admit(piece: string): string {
    const room = this.#cutBytes - this.#bytes;
    this.#bytes += Buffer.byteLength(piece);
    if (this.#isCut) return "";
    if (this.#bytes <= this.#cutBytes) return piece;
    this.#isCut = true;
    return takeBeginning(piece, room);
  }

  /**
   * Returns the texts of an item that comes whole, or their beginning that fits. `countedBytes`: what
   * its pieces, which came before, were counted for.
   */
  admitItem(texts: readonly string[], countedBytes: number): readonly string[] {
    let room = countedBytes + this.#cutBytes - this.#bytes;
    const bytes = countBytes(texts);
    this.#bytes += Math.max(0, bytes - countedBytes);
    if (this.#isCut) return texts.map(() => "");
    if (bytes <= room) return texts;
    this.#isCut = true;
    return texts.map((text) => {
      const kept = takeBeginning(text, room);
      room -= kept === text ? Buffer.byteLength(text) : room;
      return kept;
    });
  }
}

/** The bytes of texts in UTF-8. */
export function countBytes(texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
}

/** A character that is cut in half is left out. */
function takeBeginning(text: string, bytes: number): string {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  return decoder.decode(Buffer.from(text).subarray(0, bytes), { stream: true });
}
