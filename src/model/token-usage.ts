/**
 * Tokens that one model call used, as the provider reports them.
 *
 * @example
 * ```ts
 * const usage: TokenUsage = {
 *   inputTokens: 1_200,
 *   cachedInputTokens: 1_000,
 *   outputTokens: 90,
 *   reasoningTokens: 0,
 * };
 * ```
 */
export interface TokenUsage {
  /** Input tokens, including those that were read from a cache. */
  readonly inputTokens: number;
  /** Input tokens that were read from the provider's cache. Included in `inputTokens`. */
  readonly cachedInputTokens: number;
  /**
   * Input tokens that were written to the provider's cache. Included in `inputTokens`, not in
   * `cachedInputTokens`. `undefined` if the provider reports none.
   */
  readonly cacheWriteInputTokens?: number | undefined;
  /** Output tokens, including reasoning. */
  readonly outputTokens: number;
  /** Output tokens that were reasoning. Included in `outputTokens`. */
  readonly reasoningTokens: number;
  /**
   * Cost of the call in US dollars, as the provider reports it. It is charged in place of the
   * price. 0 counts only if the price is 0 or unknown. `undefined` if the provider reports none.
   */
  readonly reportedCostUsd?: number | undefined;
  /**
   * Service tier at which the call was served, for example `flex`. `undefined` if the provider
   * reports none; the list price then applies.
   */
  readonly serviceTier?: string | undefined;
  /**
   * `true` if the provider ran tools of its own, such as a web search. Their results count as
   * input. A report of more than ten times the counted input is then accepted.
   */
  readonly hasServerTools?: true | undefined;
}

/** Input tokens of a call, as the provider reports them. */
export type ReportedInput = Pick<
  TokenUsage,
  "inputTokens" | "cachedInputTokens" | "cacheWriteInputTokens"
>;

/** Limit of a plausible cost. Booked micro-dollars must stay safe integers. */
const MAX_COST_USD = 1_000_000;

/** Returns true for a plausible cost of one call, in US dollars. */
export function isCost(value: unknown): value is number {
  return typeof value === "number" && value >= 0 && value <= MAX_COST_USD;
}
