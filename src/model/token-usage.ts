/** What one model call consumed, as the provider reports it. */
export interface TokenUsage {
  /** Input, what was read from a cache included. */
  readonly inputTokens: number;
  /** Part of `inputTokens`. */
  readonly cachedInputTokens: number;
  /** Part of `inputTokens`, and none of the cached ones: written to the cache of the provider. Left out: it does not say. */
  readonly cacheWriteInputTokens?: number | undefined;
  /** Output, reasoning included. */
  readonly outputTokens: number;
  /** Part of `outputTokens`. */
  readonly reasoningTokens: number;
  /**
   * What the call cost, in US dollars, by the provider's own account. Charged in place of the price; 0 only where the price is 0, or unknown.
   * Left out: it does not say.
   */
  readonly reportedCostUsd?: number | undefined;
  /** At which tier the call was served, in the provider's word: `flex`. Left out: it does not say, and the price holds. */
  readonly serviceTier?: string | undefined;
  /**
   * True if the provider ran tools of its own, such as a web search. Their results count as input, so
   * that more than ten times the counted input is believed.
   */
  readonly hasServerTools?: true | undefined;
}

/** The input of a call as its provider reports it. */
export type ReportedInput = Pick<
  TokenUsage,
  "inputTokens" | "cachedInputTokens" | "cacheWriteInputTokens"
>;

/** No call costs a million dollars, and what is booked has to stay whole. */
const MOST_COST_USD = 1_000_000;

/** Whether a call can have cost so much, in US dollars. */
export function isCost(value: unknown): value is number {
  return typeof value === "number" && value >= 0 && value <= MOST_COST_USD;
}
