// What one logical model call consumed. What no provider reported is charged by estimate: forgotten tokens are overspent ones.

import { estimateTokens } from "../model/count-tokens.ts";
import type { Model, ModelReply } from "../model/model.ts";
import type { TokenUsage } from "../model/token-usage.ts";
import { costMicroUsd } from "../model/model-price.ts";
import { isStandardTier, type PriceOf } from "../model/prices.ts";
import { MICRO_USD_PER_USD, NO_USAGE, type Usage } from "../protocol/usage.ts";
import type { Lease, LeaseAsk } from "./account-view.ts";

/** How far the call came. */
export type ModelCallEnd =
  /** It never left: the agent was asked to end while the call waited for a slot. */
  | { readonly type: "unsent" }
  /** It was left behind while it ran: its input is charged. */
  | { readonly type: "abandoned" }
  | ({ readonly type: "replied"; readonly reply: ModelReply } & BrokenAttempts)
  | ({ readonly type: "failed" } & BrokenAttempts)
  /** It was aborted; `isInFlight`: during an attempt, which is paid for even if its answer had not begun. */
  | ({ readonly type: "aborted"; readonly isInFlight: boolean } & BrokenAttempts);

interface BrokenAttempts {
  /** Attempts that broke after the provider had begun to answer. */
  readonly brokenAttempts: number;
  readonly lostOutputTokens: number;
}

/** Who pays for a call: by what the model costs that it asks. */
export interface Payer {
  readonly model: Model;
  readonly priceOf: PriceOf;
}

/** What of the payer a lease for its call depends on. */
export function leaseTerms({ model, priceOf }: Payer): Pick<LeaseAsk, "price" | "minOutputTokens"> {
  return { price: priceOf(model), minOutputTokens: model.minOutputTokens };
}

/** The usage of the step that the call belongs to; a step counts even if its call came to nothing. */
export function callUsage(payer: Payer, lease: Lease, end: ModelCallEnd): Usage {
  switch (end.type) {
    case "unsent":
      return { ...NO_USAGE, steps: 1 };
    case "abandoned":
      return charged(payer, [estimate(lease.inputTokens, 0)], 1);
    case "failed":
      return charged(payer, lost(lease, end), end.brokenAttempts);
    case "aborted": {
      const brokenAttempts = Math.max(end.brokenAttempts, end.isInFlight ? 1 : 0);
      const { lostOutputTokens } = end;
      return charged(payer, lost(lease, { brokenAttempts, lostOutputTokens }), brokenAttempts);
    }
    case "replied": {
      const { reply, brokenAttempts } = end;
      const answered = reply.usage ?? estimate(lease.inputTokens, replyTokens(reply));
      const estimates = brokenAttempts + (reply.usage === undefined ? 1 : 0);
      return charged(payer, [answered, ...lost(lease, end)], estimates);
    }
  }
}

/** What the requests of a call took together. Each costs by its own length, so that their costs are added up, not their tokens. */
function charged(payer: Payer, requests: readonly TokenUsage[], estimatedCalls: number): Usage {
  const sum = (tokens: (request: TokenUsage) => number): number =>
    requests.reduce((total, request) => total + tokens(request), 0);
  const inputTokens = sum((request) => request.inputTokens);
  const outputTokens = sum((request) => request.outputTokens);
  return {
    modelCalls: 1,
    steps: 1,
    toolCalls: 0,
    inputTokens,
    cachedInputTokens: sum((request) => request.cachedInputTokens),
    outputTokens,
    reasoningTokens: sum((request) => request.reasoningTokens),
    totalTokens: inputTokens + outputTokens,
    costMicroUsd: costOf(payer, requests),
    unpricedCalls: areAllPriced(payer, requests) ? 0 : 1,
    estimatedCalls,
  };
}

/** What the provider says that a request cost is charged in place of its price. */
function costOf({ model, priceOf }: Payer, requests: readonly TokenUsage[]): number {
  const price = priceOf(model);
  const priced = requests.filter(({ reportedCostUsd }) => reportedCostUsd === undefined);
  const byPrice = price === undefined ? 0 : costMicroUsd(price, ...priced);
  return requests.reduce(
    (total, { reportedCostUsd = 0 }) => total + microUsd(reportedCostUsd),
    byPrice,
  );
}

/** Of a call that made no request the price counts. */
function areAllPriced(payer: Payer, requests: readonly TokenUsage[]): boolean {
  if (requests.length === 0) return payer.priceOf(payer.model) !== undefined;
  return requests.every((request) => isPriced(payer, request));
}

/**
 * Whether the cost of a request is known. At another tier than the standard one the published price does not hold: it is charged all the
 * same, so that no limit is passed for nothing, and the call counts as one without a price.
 */
function isPriced(
  { model, priceOf }: Payer,
  { reportedCostUsd, serviceTier }: TokenUsage,
): boolean {
  if (reportedCostUsd !== undefined) return true;
  if (priceOf(model) === undefined) return false;
  return model.price !== undefined || isStandardTier(serviceTier);
}

/** So many times its price is no rounding. */
const DEAR_TIMES = 2;

/** What is to be said of the cost that a provider reports: nothing, unless it is far above the price. */
export function costWarnings(
  { model, priceOf }: Payer,
  usage: TokenUsage | undefined,
): readonly string[] {
  const price = priceOf(model);
  if (price === undefined || usage?.reportedCostUsd === undefined) return [];
  if (microUsd(usage.reportedCostUsd) <= DEAR_TIMES * costMicroUsd(price, usage)) return [];
  return [
    `${model.provider} says that calls of ${model.id} cost more than twice what its price comes to. They are charged as it says; correct the price, by which leases are held.`,
  ];
}

function microUsd(usd: number): number {
  return Math.ceil(usd * MICRO_USD_PER_USD - ROUNDING_SLACK);
}

// 0.000007 * 1e6 is 7.000000000000001 or 6.999…: the slack keeps whole micro-dollars whole.
const ROUNDING_SLACK = 1e-6;

/** The requests that came to nothing: the input of each is paid for, and what was written. */
function lost(
  { inputTokens }: Lease,
  { brokenAttempts, lostOutputTokens }: BrokenAttempts,
): readonly TokenUsage[] {
  return Array.from({ length: brokenAttempts }, (_request, index) =>
    estimate(inputTokens, index === 0 ? lostOutputTokens : 0),
  );
}

function estimate(inputTokens: number, outputTokens: number): TokenUsage {
  return { inputTokens, cachedInputTokens: 0, outputTokens, reasoningTokens: 0 };
}

function replyTokens({ message: { text, toolCalls, parts = [] } }: ModelReply): number {
  const calls = toolCalls.map((call) => call.toolName + call.argumentsText);
  const reasoning = parts.map((part) => (part.type === "reasoning" ? part.text : ""));
  return estimateTokens(text + calls.join("") + reasoning.join(""));
}
