import { EspalierError, type EspalierErrorOptions, type ModelErrorCode } from "../kernel/error.ts";
import type { ReportedInput } from "./token-usage.ts";

/** Codes of failures that may pass by themselves. The one place that answers "may it be tried again?" for models. */
const RETRYABLE_CODES: ReadonlySet<ModelErrorCode> = new Set([
  "model_rate_limited",
  "model_overloaded",
  "model_unavailable",
  "model_timeout",
]);

/** What a `ModelError` is made of. */
export interface ModelErrorOptions extends EspalierErrorOptions {
  readonly code: ModelErrorCode;
  /** How long the provider asked us to wait before the next attempt. A figure that is no finite number from 0 counts as none. */
  readonly retryAfterMs?: number;
  /**
   * Output tokens that had arrived before the call broke, by estimate: they are paid for. A figure that is no whole number from 0, or more
   * than ten times the counted input plus the cap, and 1,366, is replaced by an estimate of the text that was streamed. Left out: the
   * same, if any was.
   */
  readonly lostOutputTokens?: number;
  /**
   * The input that the provider reported for the call before it broke. It is charged in place of an
   * estimate. Default: the counted input.
   */
  readonly lostInput?: ReportedInput;
}

/** A model call that failed. */
export class ModelError extends EspalierError {
  override readonly code: ModelErrorCode;
  /** Whether the failure may pass by itself. */
  readonly isRetryable: boolean;
  /** How long the provider asks to wait, in milliseconds; undefined: it does not say. */
  readonly retryAfterMs: number | undefined;
  /** Undefined: the provider never began to answer, so nothing was consumed; if text had been streamed, that counts all the same. */
  readonly lostOutputTokens: number | undefined;
  /** The input that the provider reported; `undefined` if it reported none. */
  readonly lostInput: ReportedInput | undefined;

  constructor(options: ModelErrorOptions) {
    super(options);
    this.code = options.code;
    this.isRetryable = RETRYABLE_CODES.has(options.code);
    const { retryAfterMs = -1 } = options;
    // Many share what it holds up: a header that could not be read must not hold them up for ever.
    this.retryAfterMs =
      Number.isFinite(retryAfterMs) && retryAfterMs >= 0 ? retryAfterMs : undefined;
    this.lostOutputTokens = options.lostOutputTokens;
    this.lostInput = options.lostInput;
  }
}
