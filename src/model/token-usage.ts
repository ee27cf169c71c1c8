/** What one model call consumed, as the provider reports it. */
export interface TokenUsage {
  readonly inputTokens: number;
  /** Part of `inputTokens`. */
  readonly cachedInputTokens: number;
  readonly outputTokens: number;
  /** Part of `outputTokens`. */
  readonly reasoningTokens: number;
}
