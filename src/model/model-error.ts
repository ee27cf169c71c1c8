import {
  EspalierError,
  isMarkedError,
  type EspalierErrorOptions,
  type ModelErrorCode,
} from "../kernel/error.ts";
import type { ReportedInput } from "./token-usage.ts";

/** Codes of temporary failures. The only list of retryable failures for models. */
const RETRYABLE_CODES: ReadonlySet<ModelErrorCode> = new Set([
  "model_rate_limited",
  "model_overloaded",
  "model_unavailable",
  "model_timeout",
]);

const MARK = Symbol.for("espalier.error.model");

/** Options of `new ModelError()`. */
export interface ModelErrorOptions extends EspalierErrorOptions {
  /** Kind of the failure. It decides whether the call is retried. */
  readonly code: ModelErrorCode;
  /**
   * Wait that the provider requests before the next attempt, in milliseconds. A negative or
   * infinite number is ignored.
   */
  readonly retryAfterMs?: number;
  /**
   * Estimate of the output tokens that arrived before the call failed. They are charged.
   *
   * If it is absent or impossible, the length of the streamed text is used. Impossible are
   * fractions, negative numbers, and more than ten times the counted input plus the cap plus 1,366.
   */
  readonly lostOutputTokens?: number;
  /**
   * Input tokens that the provider reported before the call failed. They are charged in place of
   * the counted input.
   *
   * @default the counted input
   */
  readonly lostInput?: ReportedInput;
}

/**
 * Failure of a model call. Adapters throw it; `retryPolicy` of the orchestrator decides on the next
 * attempt.
 *
 * @example
 * ```ts
 * const response = await fetch("https://oracle.example/v1");
 * if (response.status === 429)
 *   throw new ModelError({
 *     code: "model_rate_limited",
 *     message: "The oracle refused the request with status 429. Wait and try again.",
 *     retryAfterMs: 5_000,
 *   });
 * ```
 */
export class ModelError extends EspalierError {
  /** Kind of the failure. */
  override readonly code: ModelErrorCode;
  /**
   * Whether another attempt may succeed. `true` for `model_rate_limited`, `model_overloaded`,
   * `model_unavailable` and `model_timeout`.
   */
  readonly isRetryable: boolean;
  /** Wait that the provider requests, in milliseconds. `undefined` if it requests none. */
  readonly retryAfterMs: number | undefined;
  /**
   * Output tokens that arrived before the call failed. `undefined` if the answer had not begun;
   * streamed text is charged in any case.
   */
  readonly lostOutputTokens: number | undefined;
  /** Input tokens that the provider reported. `undefined` if it reported none. */
  readonly lostInput: ReportedInput | undefined;

  /** Creates the error of a failed model call. */
  constructor(options: ModelErrorOptions) {
    super(options);
    this.code = options.code;
    this.isRetryable = RETRYABLE_CODES.has(options.code);
    const { retryAfterMs = -1 } = options;
    // A delay pauses all calls with the same limits, so an unreadable header must not pause them
    // forever.
    this.retryAfterMs =
      Number.isFinite(retryAfterMs) && retryAfterMs >= 0 ? retryAfterMs : undefined;
    this.lostOutputTokens = options.lostOutputTokens;
    this.lostInput = options.lostInput;
  }

  static {
    Object.defineProperty(this.prototype, MARK, { value: true });
  }

  /**
   * Returns true if `value` is a `ModelError`, including one of another copy of the package.
   *
   * @example
   * ```ts
   * const describe = (error: unknown) =>
   *   ModelError.is(error) && error.isRetryable ? "Try again later." : "Cannot continue.";
   * ```
   */
  static override is(value: unknown): value is ModelError {
    return isMarkedError(value, MARK);
  }
}
