/** What one model call consumed, as the provider reports it. */
export interface TokenUsage {
  readonly inputTokens: number;
  /** Part of `inputTokens`. */
  readonly cachedInputTokens: number;
  /** Part of `inputTokens`, and none of the cached ones: written to the cache of the provider. Left out: it does not say. For traces; charged as other input. */
  readonly cacheWriteInputTokens?: number | undefined;
  readonly outputTokens: number;
  /** Part of `outputTokens`. */
  readonly reasoningTokens: number;
}
