import { checkAmount, checkKeys } from "../kernel/check.ts";
import type { TokenUsage } from "./token-usage.ts";

/** What a model costs, in US dollars per million tokens, as providers publish it. */
export interface ModelPrice {
  readonly inputUsdPerMillion: number;
  /** Default: the price of other input. */
  readonly cachedInputUsdPerMillion?: number;
  readonly outputUsdPerMillion: number;
}

/** Throws `invalid_option` unless every price is a finite number from 0 up. */
export function checkPrice(field: string, price: ModelPrice): void {
  checkKeys(field, price, [
    "inputUsdPerMillion",
    "cachedInputUsdPerMillion",
    "outputUsdPerMillion",
  ]);
  checkAmount(`${field}.inputUsdPerMillion`, price.inputUsdPerMillion);
  checkAmount(`${field}.outputUsdPerMillion`, price.outputUsdPerMillion);
  if (price.cachedInputUsdPerMillion !== undefined) {
    checkAmount(`${field}.cachedInputUsdPerMillion`, price.cachedInputUsdPerMillion);
  }
}

/** The cost of one call in millionths of a dollar, rounded up: dollars per million tokens are micro-dollars per token. */
export function costMicroUsd(price: ModelPrice, usage: TokenUsage): number {
  const cachedPrice = price.cachedInputUsdPerMillion ?? price.inputUsdPerMillion;
  const freshTokens = usage.inputTokens - usage.cachedInputTokens;
  return Math.ceil(
    freshTokens * price.inputUsdPerMillion +
      usage.cachedInputTokens * cachedPrice +
      usage.outputTokens * price.outputUsdPerMillion,
  );
}
