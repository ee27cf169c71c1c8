// Limits the answer that is read, whatever the server sends. A server that ignores the cap on
// output tokens, or never ends, uses bounded memory, and the received output is charged.

import { BYTES_PER_TOKEN, estimateTokensFromBytes } from "./count-tokens.ts";
import type { AdapterFailures } from "./http-errors.ts";

/** The most bytes that are read from one answer. */
export interface ReplyLimits {
  readonly maxOutputTokens: number;
  /**
   * Limit of text, refusal, reasoning and calls: twice the cap by our count. The reply is cut
   * there.
   */
  readonly cutBytes: number;
  /** Limit of ids and data of a reply, plus `OPENED_BYTES` for each item. */
  readonly besideBytes: number;
  /** Limit of a body that is not streamed. */
  readonly bodyBytes: number;
  /** Limit of a line of a stream, or of the data of an event. */
  readonly lineBytes: number;
  /** Limit of a whole stream. */
  readonly streamBytes: number;
}

const KIB = 1024;
const MIB = KIB * KIB;
/** A correct reply may have six bytes per token, where our count assumes three. */
const MAX_OVERSHOOT = 2;
/** More than any language has. Limits the text of a complete reply by its reported usage. */
const MAX_BYTES_PER_TOKEN = 8;
const BESIDE_ALLOWANCE_BYTES = 4 * KIB;
const BESIDE_BYTES_PER_TOKEN = 16;
const BODY_BYTES = 16 * MIB;
/** JSON that escapes all but ASCII takes up to three times the bytes of UTF-8. */
const MAX_ESCAPE_RATIO = 3;
/** Size of a server's additions to an event. */
const LINE_ALLOWANCE_BYTES = MIB;
/** A stream contains some 300 bytes around each token. */
const STREAM_BYTES_PER_TOKEN = KIB;
const STREAM_BYTES = 256 * MIB;

/**
 * Most provider data in one message. The data represents content of the reply, but needs a limit.
 */
export const MAX_DATA_BYTES = MIB;

/** Bytes that an item or a call counts for, in addition to its id, name and text. */
const OPENED_BYTES = 16;
/** The part of data that is output: encrypted reasoning in base64, which is charged. */
const DECODED_SHARE = 3 / 4;

/** Returns the limits of a reply with this cap. */
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
    lineBytes: Math.min(MAX_ESCAPE_RATIO * besideBytes + LINE_ALLOWANCE_BYTES, BODY_BYTES),
    streamBytes: Math.min(BODY_BYTES + STREAM_BYTES_PER_TOKEN * maxOutputTokens, STREAM_BYTES),
  };
}

/** Estimates the tokens in the bytes of an answer: at most twice the cap. */
export function estimateReceivedTokens(bytes: number, { cutBytes }: ReplyLimits): number {
  return estimateTokensFromBytes(Math.min(bytes, cutBytes));
}

/** Equal for all replies, since a run emits each warning once. */
export const CUT_WARNING =
  "The provider ignored the cap on output tokens: its reply was cut at twice the cap. Check the name of the cap (openai.maxTokensField) and the server.";

/**
 * Counts a reply as it arrives. Cuts the model's output at twice the cap: text, refusal, reasoning,
 * names and arguments of calls, streamed or complete. Refuses a reply with too many ids or too much
 * data before it is stored.
 */
export class ReplyMeter {
  readonly #limits: ReplyLimits;
  readonly #failures: AdapterFailures;
  readonly #maxDataBytes: number | undefined;
  readonly #dataShare: number;
  #cutBytes: number;
  /** Output tokens in the usage of a complete reply. */
  #reportedTokens = 0;
  #bytes = 0;
  #openedBytes = 0;
  #dataBytes = 0;
  #isCut = false;

  /**
   * Without `maxDataBytes`, ids and data share one limit. `dataShare` is the part of the data that
   * counts as output.
   */
  constructor(
    limits: ReplyLimits,
    failures: AdapterFailures,
    maxDataBytes?: number,
    dataShare = DECODED_SHARE,
  ) {
    this.#limits = limits;
    this.#failures = failures;
    this.#maxDataBytes = maxDataBytes;
    this.#dataShare = dataShare;
    this.#cutBytes = limits.cutBytes;
  }

  /** True once a piece did not fit. */
  get isCut(): boolean {
    return this.#isCut;
  }

  /** Estimate of the received output, including the piece that did not fit and the data. */
  get receivedTokens(): number {
    return estimateReceivedTokens(this.#bytes + this.#dataBytes * this.#dataShare, this.#limits);
  }

  /** Counts a new piece with its id, before the piece is stored. */
  countOpened(id = ""): void {
    this.#openedBytes += OPENED_BYTES + Buffer.byteLength(id);
    const shared = this.#maxDataBytes === undefined ? this.#dataBytes : 0;
    this.#refuseExcess(this.#openedBytes + shared, this.#limits.besideBytes);
  }

  /** Counts data of the server, before the data is stored. */
  countData(bytes: number): void {
    this.#dataBytes += bytes;
    if (this.#maxDataBytes !== undefined) this.#refuseExcess(this.#dataBytes, this.#maxDataBytes);
    else this.#refuseExcess(this.#openedBytes + this.#dataBytes, this.#limits.besideBytes);
  }

  #refuseExcess(bytes: number, most: number): void {
    if (bytes <= most) return;
    const got = `a reply with more than ${most} bytes of ids and data`;
    throw this.#failures.excess(got, this.receivedTokens);
  }

  /**
   * Raises the limit for a complete reply whose usage is within the cap, to the length that this
   * many tokens can have.
   */
  raiseLimit(reportedTokens = 0): void {
    this.#reportedTokens = reportedTokens;
    if (reportedTokens > this.#limits.maxOutputTokens) return;
    this.#cutBytes = Math.max(this.#cutBytes, MAX_BYTES_PER_TOKEN * reportedTokens);
  }

  /**
   * Returns true if a cut reply is charged by its usage, because the usage is not less than the
   * received output.
   */
  isHonest(reportedTokens = 0): boolean {
    return (
      reportedTokens >= estimateReceivedTokens(this.#bytes, this.#limits) ||
      this.#bytes <= MAX_BYTES_PER_TOKEN * this.#reportedTokens
    );
  }

  /** Returns the piece, or its beginning that fits. */
  admit(piece: string): string {
    const room = this.#cutBytes - this.#bytes;
    this.#bytes += Buffer.byteLength(piece);
    if (this.#isCut) return "";
    if (this.#bytes <= this.#cutBytes) return piece;
    this.#isCut = true;
    return takeBeginning(piece, room);
  }

  /**
   * Returns the texts of a complete item, or their beginning that fits. `countedBytes`: the bytes
   * that its deltas counted for before.
   */
  admitItem(texts: readonly string[], countedBytes: number): readonly string[] {
    let room = countedBytes + this.#cutBytes - this.#bytes;
    const bytes = countBytes(texts);
    this.#bytes += Math.max(0, bytes - countedBytes);
    if (this.#isCut) return texts.map(() => "");
    if (bytes <= room) return texts;
    this.#isCut = true;
    return texts.map((text) => {
      const beginning = takeBeginning(text, room);
      room -= beginning === text ? Buffer.byteLength(text) : room;
      return beginning;
    });
  }
}

/** Returns the size of the data of a piece. */
export function measureData(data: unknown): number {
  return data === undefined ? 0 : Buffer.byteLength(JSON.stringify(data));
}

/** Returns the bytes of texts in UTF-8. */
export function countBytes(texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
}

/** Returns the beginning of a text, without a truncated character. */
function takeBeginning(text: string, bytes: number): string {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  return decoder.decode(Buffer.from(text).subarray(0, bytes), { stream: true });
}
